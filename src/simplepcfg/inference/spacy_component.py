"""A spaCy component: trees and surprisal of every sentence as extension attributes. Needs the extra `spacy`.

nlp = spacy.blank("en"); nlp.add_pipe("sentencizer"); nlp.add_pipe("simplepcfg", config={"model": "english"})
next(nlp("The old dog slept by the fire.").sents)._.parse_string
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from spacy.language import Language
from spacy.tokens import Doc, Span, Token

from simplepcfg.inference.run import Run, load
from simplepcfg.linguistics.word_model import WordSurprisal

NAME = "simplepcfg"
_DATA = "simplepcfg"  # key of Doc.user_data: start of a sentence → what was found
BATCH_SIZE = 64


class ConstituencyParser:
    """Parse each sentence of a document; without sentence boundaries all of it is one.

    Sets `sent._.parse_string` (brackets), `span._.labels` (of the constituents that cover exactly this span),
    `sent._.constituents` (spans, parents first) and `token._.surprisal` (nats; None for what the grammar does not look
    at, and for models without prefix probabilities).
    """

    def __init__(self, run: Run, decode: str = "mbr", surprisal: bool = True) -> None:
        self.run, self.decode, self.surprisal = run, decode, surprisal
        _register()

    def __call__(self, doc: Doc) -> Doc:
        """Parse one document."""
        return next(self.pipe([doc]))

    def pipe(self, stream: Iterable[Doc], *, batch_size: int = BATCH_SIZE) -> Iterator[Doc]:
        """Parse documents, the sentences of several together."""
        waiting = iter(stream)
        while docs := list(islice(waiting, batch_size)):
            self._parse(docs)
            yield from docs

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
            spans = [(tokens[i].i, tokens[j - 1].i + 1, label) for i, j, label in tree.spans]
            data = doc.user_data.setdefault(_DATA, {"trees": {}, "surprisal": {}})
            data["trees"][tokens[0].sent.start if doc.has_annotation("SENT_START") else 0] = (tree.to_brackets(), spans)
            for token, record in zip(tokens, word_records, strict=False):
                data["surprisal"][token.i] = record.surprisal


@Language.factory(
    NAME,
    assigns=["span._.parse_string", "span._.constituents", "span._.labels", "token._.surprisal"],
    default_config={"model": "english", "decode": "mbr", "surprisal": True, "device": "auto"},
)
def make_parser(nlp: Language, name: str, model: str, decode: str, surprisal: bool, device: str) -> ConstituencyParser:
    """Make the component of `nlp.add_pipe("simplepcfg")`; `model` is a run's folder or an installed grammar."""
    return ConstituencyParser(load(model, device), decode, surprisal)


def _sentences(doc: Doc) -> Iterable[Span]:
    return doc.sents if doc.has_annotation("SENT_START") else [doc[:]]


def _found(span: Span) -> tuple[str, list[tuple[int, int, str]]]:
    """Return brackets and spans of the sentence that a span lies in."""
    start = span.sent.start if span.doc.has_annotation("SENT_START") else 0
    empty: tuple[str, list[tuple[int, int, str]]] = ("", [])
    return span.doc.user_data.get(_DATA, {"trees": {}})["trees"].get(start, empty)


def _constituents(span: Span) -> list[Span]:
    inside = [(i, j, label) for i, j, label in _found(span)[1] if span.start <= i and j <= span.end]
    return [Span(span.doc, i, j, label=label) for i, j, label in inside]


def _labels(span: Span) -> tuple[str, ...]:
    return tuple(label for i, j, label in _found(span)[1] if (i, j) == (span.start, span.end))


def _surprisal(token: Token) -> float | None:
    return token.doc.user_data.get(_DATA, {"surprisal": {}})["surprisal"].get(token.i)


def _register() -> None:
    for name, getter in (
        ("parse_string", lambda span: _found(span)[0]),
        ("constituents", _constituents),
        ("labels", _labels),
    ):
        Span.set_extension(name, getter=getter, force=True)
    Token.set_extension("surprisal", getter=_surprisal, force=True)
