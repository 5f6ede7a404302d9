"""A spaCy component: trees and surprisal of every sentence as extension attributes. Needs the extra `spacy`.

nlp = spacy.blank("en"); nlp.add_pipe("sentencizer"); nlp.add_pipe("simplepcfg", config={"model": "english"})
next(nlp("The old dog slept by the fire.").sents)._.parse_string
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from multiprocessing import parent_process
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import srsly
import torch
from spacy.language import Language
from spacy.tokens import Doc, Span, Token

from simplepcfg.errors import InputError
from simplepcfg.inference.run import Run, load
from simplepcfg.linguistics.word_model import WordSurprisal
from simplepcfg.runs.processes import leave_threads_behind

NAME = "simplepcfg"
BATCH_SIZE = 64


class ConstituencyParser:
    """Parse each sentence of a document; without sentence boundaries all of it is one.

    Sets `sent._.parse_string` (brackets), `span._.labels` (of the constituents that cover exactly this span),
    `sent._.constituents` (spans, parents first) and `token._.surprisal` (nats; None for what the grammar does not look
    at, and for models without prefix probabilities).

    `model` is a run, or the name of one that is loaded for the first document: a saved pipeline has a grammar of its
    own, and the folder that it was once made from may be gone.
    """

    def __init__(self, model: Run | str, decode: str = "mbr", surprisal: bool = True, device: str = "auto") -> None:
        self._model, self.decode, self.surprisal, self.device = model, decode, surprisal, device
        leave_threads_behind()  # of this process, if `nlp.pipe(…, n_process=…)` forks it
        _register()

    @property
    def run(self) -> Run:
        """The grammar, which is loaded when it is asked for first."""
        if not isinstance(self._model, Run):
            self._model = load(self._model, self.device)
        return self._model

    def __call__(self, doc: Doc) -> Doc:
        """Parse one document."""
        return next(self.pipe([doc]))

    def pipe(self, stream: Iterable[Doc], *, batch_size: int = BATCH_SIZE) -> Iterator[Doc]:
        """Parse documents, the sentences of several together."""
        waiting = iter(stream)
        while docs := list(islice(waiting, batch_size)):
            self._parse(docs)
            yield from docs

    def __reduce__(self) -> tuple[Callable[..., ConstituencyParser], tuple[object, ...]]:
        """Send name or grammar, as bytes, to another process."""
        model = self.to_bytes() if isinstance(self._model, Run) else self._model
        return _rebuilt, (model, self.decode, self.surprisal, self.device)

    def to_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> None:
        """Write the grammar as the folder of a run; an older one there is replaced."""
        path = Path(path)
        with TemporaryDirectory(dir=path.parent) as temporary:
            folder = self.run.save(Path(temporary) / "new")
            if path.exists():
                path.rename(Path(temporary) / "old")
            folder.rename(path)

    def from_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> ConstituencyParser:
        """Take the grammar of a folder."""
        self._model = load(path, self.device)
        return self

    def to_bytes(self, *, exclude: Iterable[str] = ()) -> bytes:
        """Return the files of the grammar's folder, by name."""
        with TemporaryDirectory() as temporary:
            files = self.run.save(Path(temporary) / "run").iterdir()
            return srsly.msgpack_dumps({file.name: file.read_bytes() for file in files})

    def from_bytes(self, content: bytes, *, exclude: Iterable[str] = ()) -> ConstituencyParser:
        """Take the grammar that `to_bytes` returned; raises InputError for a name that is no file's."""
        with TemporaryDirectory() as temporary:
            for name, data in srsly.msgpack_loads(content).items():
                if Path(name).name != name:
                    raise InputError(f"{name!r} is no file of a run; take bytes that to_bytes returned")
                Path(temporary, name).write_bytes(data)
            self.from_disk(temporary).run.directory = None
        return self

    def _parse(self, docs: list[Doc]) -> None:
        places = [
            (doc, [token for token in sentence if not token.is_space]) for doc in docs for sentence in _sentences(doc)
        ]
        places = [(doc, tokens) for doc, tokens in places if tokens]
        words = [[token.text for token in tokens] for _, tokens in places]
        trees = self.run.parse_spans(words, decode=self.decode)
        records: Sequence[Sequence[WordSurprisal]] = (
            self.run.surprisal(words) if self.surprisal else [[] for _ in words]
        )
        for (doc, tokens), tree, word_records in zip(places, trees, records, strict=True):
            sentence = _sentence(tokens[0])
            at = [token.i - sentence.start for token in tokens]
            doc.user_data[_key(sentence)] = {
                "brackets": tree.to_brackets(),
                "spans": [(at[i], at[j - 1] + 1, label) for i, j, label in tree.spans],
                "surprisal": {place: record.surprisal for place, record in zip(at, word_records, strict=False)},
            }


@Language.factory(
    NAME,
    assigns=["span._.parse_string", "span._.constituents", "span._.labels", "token._.surprisal"],
    default_config={"model": "english", "decode": "mbr", "surprisal": True, "device": "auto"},
)
def make_parser(nlp: Language, name: str, model: str, decode: str, surprisal: bool, device: str) -> ConstituencyParser:
    """Make the component of `nlp.add_pipe("simplepcfg")`; `model` is a run's folder or an installed grammar."""
    return ConstituencyParser(model, decode, surprisal, device)


def _rebuilt(model: str | bytes, decode: str, surprisal: bool, device: str) -> ConstituencyParser:
    """Return the component that `__reduce__` took apart, with one thread in one of several processes."""
    if parent_process() is not None:
        torch.set_num_threads(1)
    parser = ConstituencyParser(model if isinstance(model, str) else "", decode, surprisal, device)
    return parser.from_bytes(model) if isinstance(model, bytes) else parser


def _sentences(doc: Doc) -> Iterable[Span]:
    return doc.sents if doc.has_annotation("SENT_START") else [doc[:]]


def _sentence(part: Span | Token) -> Span:
    """Return the sentence of a span or token; without sentence boundaries, all of the document."""
    return part.sent if part.doc.has_annotation("SENT_START") else part.doc[:]


def _key(sentence: Span) -> tuple[str, str, int, int]:
    """Return the key of a sentence in Doc.user_data; its form is one that spaCy moves along with the characters."""
    return ("._.", NAME, sentence.start_char, sentence.end_char)


def _kept(part: Span | Token) -> tuple[int, dict[str, Any]]:
    """Return where the sentence of a span or token begins, and what is kept of it, with places counted from there."""
    sentence = _sentence(part)
    return sentence.start, part.doc.user_data.get(_key(sentence), {"brackets": "", "spans": [], "surprisal": {}})


def _constituents(span: Span) -> list[Span]:
    first, kept = _kept(span)
    places = [(first + i, first + j, label) for i, j, label in kept["spans"]]
    return [Span(span.doc, i, j, label=label) for i, j, label in places if span.start <= i and j <= span.end]


def _labels(span: Span) -> tuple[str, ...]:
    first, kept = _kept(span)
    return tuple(label for i, j, label in kept["spans"] if (first + i, first + j) == (span.start, span.end))


def _surprisal(token: Token) -> float | None:
    first, kept = _kept(token)
    return kept["surprisal"].get(token.i - first)


def _parse_string(span: Span) -> str:
    return _kept(span)[1]["brackets"]


def _register() -> None:
    # No lambdas: a process that is spawned gets these functions by name.
    for name, getter in (("parse_string", _parse_string), ("constituents", _constituents), ("labels", _labels)):
        Span.set_extension(name, getter=getter, force=True)
    Token.set_extension("surprisal", getter=_surprisal, force=True)
