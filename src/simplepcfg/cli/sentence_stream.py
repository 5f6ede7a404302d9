"""The sentences that a command answers: read in chunks that take seconds, and written as they are answered."""

import glob
import os
import shlex
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from simplepcfg.cli.options import SentencesRequest
from simplepcfg.cli.output import note, write_lines
from simplepcfg.errors import InputError, counted
from simplepcfg.progress import stage

if TYPE_CHECKING:
    from simplepcfg.data.inputs import Inputs, Item
    from simplepcfg.data.preprocessing import Preprocessing
    from simplepcfg.linguistics.word_model import WordModel

Result = TypeVar("Result")
Chunk = list[Any]  # of sentences, as lists of words or as trees

MOST_IN_A_CHUNK = 10_000  # sentences
SHOWN = 5  # files, or places of sentences, in a remark
TOO_LONG: list[str] = []  # stands for a sentence that is not computed
STDIN = "-"


@dataclass(frozen=True, slots=True)
class Part:
    """Some sentences of a file, whose answers are written to a file of their own."""

    file: str
    first: int  # sentences of the file before it
    items: "list[Item]"
    path: Path  # of the answers
    read: int  # bytes of the input, about


class SentenceStream:
    """The sentences of files, folders and patterns, line for line, with what is said of them.

    Text that looks untokenised gets a remark or, if the run tokenises, text that seems to have several sentences on a
    line. So does input without any sentence. At a keyboard each line is answered at once. A
    sentence of more than `max_words` words is replaced by `TOO_LONG`. Remarks at the end say of how many, and of words
    that are unknown.
    """

    def __init__(self, asked: SentencesRequest, doing: str, run: "WordModel", part: Part | None = None) -> None:
        from simplepcfg.data.unknown_words import UnknownWords
        from simplepcfg.inference.batches import longest_sentence
        from simplepcfg.inference.run import Run

        self.first = 0 if part is None else part.first  # sentences before those that are answered
        self.done = self.first
        self.remark: str | None = None  # printed before the first answer, so that a refusal stays one line
        self.columns: list[str] = []  # of the places of sentences, in tables: file and sent_id, where there are any
        self._is_part = part is not None
        self._items: Iterable[Item]
        if part is None:
            inputs = read_inputs(asked, run.preprocessing)
            self._files, self._items, size = inputs.files, inputs, inputs.size
        else:
            self._files, self._items, size = [part.file], part.items, None
        self._at_keyboard = self._files == [STDIN] and sys.stdin.isatty()
        # A line that is drawn again and again would erase what is being typed.
        told = nullcontext(lambda amount: None) if self._at_keyboard else stage(title(doing, self._files), size)
        self._stage: AbstractContextManager[Callable[[float], None]] = told
        self._run, self._asked = run, asked
        self._trained = run if isinstance(run, Run) else None  # None for an n-gram model
        self._most = longest_sentence(run, asked.max_words) if isinstance(run, Run) else asked.max_words
        self._too_long: list[str] = []
        spelling, closed = getattr(run, "spelling", None), getattr(run, "closed_vocabulary", False)
        self._unknown = UnknownWords(run.vocabulary, spelling, closed)
        self._waiting: deque[tuple[Item, object]] = deque()
        self._read = 0

    def __enter__(self) -> "SentenceStream":
        if self._at_keyboard:
            note("type one sentence a line; Ctrl-D ends", self._asked.quiet)
        if not self._is_part:
            tell_files(self._asked, self._files)
        self._advance = self._stage.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stage.__exit__(kind, error, traceback)
        if isinstance(error, KeyboardInterrupt) and self.done:
            advice = "" if refuses_folder(self._asked) else "; with --out DIR, the same command goes on"
            raise KeyboardInterrupt(f"interrupted after {counted(self.done, 'sentence')}{advice}") from None
        if error is not None:
            return
        if self._too_long:
            count = counted(len(self._too_long), "sentence")
            places = _first_few(self._too_long)
            remark = f"longer than {self._most} words, not computed: {count} ({places}); see --max-words"
            note(remark, self._asked.quiet)
        for remark in () if self._is_part else self._unknown.remarks():
            note(remark, self._asked.quiet)

    def chunks(self) -> Iterator[Chunk]:
        """Yield the sentences in chunks, each of which takes some seconds unless a single sentence takes longer.

        An n-gram model gets words alone, where a run takes the tags of trees, too.
        """
        from simplepcfg.data.raw_text import LOOKED_AT
        from simplepcfg.inference.batches import blocks
        from simplepcfg.inference.sentences import split_sentences
        from simplepcfg.linguistics.word_model import with_known_marks

        items = iter(self._items)
        by_line = self._at_keyboard and not self._asked.raw
        first = list(islice(items, 1 if by_line else LOOKED_AT))
        self._look_at(first)
        chunk: Chunk = []
        run = self._trained

        def lengths() -> Iterator[int]:
            for item in chain(first, items):
                sentence = self._fitting(item)
                self._waiting.append((item, sentence))
                chunk.append(sentence)
                yield len(item.words) if sentence is not TOO_LONG else 0

        sizes, at_once = lengths(), 1 if by_line else MOST_IN_A_CHUNK
        while (head := next(sizes, None)) is not None:
            part = chain([head], islice(sizes, at_once - 1))
            for _ in blocks(run, part) if run is not None and not by_line else [sum(part)]:
                self._count_unknown(chunk)
                if run is None:
                    yield [with_known_marks(self._run, words) for words, _ in split_sentences(chunk)]
                else:
                    yield chunk
                chunk = []

    def write(self, results: Sequence[Result], render: Callable[["Item", Result | None], Iterable[str]]) -> None:
        """Write the lines that `render` makes of the next sentences and their results; those too long have None."""
        if self.remark is not None:
            note(self.remark, self._asked.quiet)
            self.remark = None
        taken = [self._waiting.popleft() for _ in results]
        pairs = zip(taken, results, strict=True)
        answers = (render(item, None if sentence is TOO_LONG else result) for (item, sentence), result in pairs)
        lines = [line for answer in answers for line in answer]
        write_lines(lines)
        self.done += len(taken)
        for item, _ in taken[-1:]:
            self._advance(item.read - self._read)
            self._read = item.read

    def place(self, item: "Item") -> dict[str, str]:
        """Return where a sentence stands, by the names in `columns`."""
        cells = {"file": item.file, "sent_id": "NA" if item.id is None else item.id}
        return {name: cells[name] for name in self.columns}

    def _look_at(self, first: "list[Item]") -> None:
        """Make remarks on the first sentences of text, or on input without any."""
        from simplepcfg.data.raw_text import paragraph_remark, untokenized_remark

        names = self._files
        self.columns = ["file"] * (len(names) > 1) + ["sent_id"] * any(item.id is not None for item in first)
        if not first and not self._at_keyboard and not self.done:
            note(f"{'standard input' if names == [STDIN] else names[0]}: no sentences", self._asked.quiet)
        plain = [item.sentence for item in first if isinstance(item.sentence, list) and item.id is None]
        if not self._asked.raw and not self.done:
            remark = (paragraph_remark if self._run.preprocessing.tokenize else untokenized_remark)(plain)
            if remark is not None:
                note(f"the text {remark}; --raw splits it into sentences and words", self._asked.quiet)

    def _count_unknown(self, chunk: Chunk) -> None:
        from simplepcfg.inference.sentences import split_sentences
        from simplepcfg.linguistics.word_model import with_known_marks

        preprocessing = self._run.preprocessing
        for words, tags in split_sentences(chunk, preprocessing):
            prepared = preprocessing.apply(with_known_marks(self._run, words), tags)
            self._unknown.count([replace(prepared, words=words)])

    def _fitting(self, item: "Item") -> object:
        """Return the sentence, or `TOO_LONG` for one of more words than are computed; dropped ones do not count."""
        if self._most is None or len(item.words) < self._most:
            return item.sentence
        from simplepcfg.inference.sentences import split_sentences

        ((words, tags),) = split_sentences([item.sentence])
        if len(self._run.preprocessing.apply(words, tags).tokens) <= self._most:
            return item.sentence
        self._too_long.append(f"{item.file}:{item.number}")
        return TOO_LONG


Answer = Callable[[Part | None], object]  # of a command: writes the answers to a part of its sentences, or to all
Prepare = Callable[[Any], Answer]  # of the command's request


def read_inputs(asked: SentencesRequest, reading: "Preprocessing") -> "Inputs":
    """Return the sentences that are asked for."""
    from simplepcfg.data.inputs import Inputs

    paths = asked.files or [STDIN]
    return Inputs(paths, split=reading.split, raw=asked.raw, language=reading.language, offsets=asked.offsets)


def tell_files(asked: SentencesRequest, names: list[str]) -> None:
    """Say which files a folder or a pattern stands for."""
    if asked.files and asked.files != names:
        note(f"{counted(len(names), 'file')}: {_first_few(names)}", asked.quiet)


def title(doing: str, names: list[str]) -> str:
    """Return the title of the progress display: what is done to which files."""
    source = "standard input" if names == [STDIN] else names[0] if len(names) == 1 else counted(len(names), "file")
    return f"{doing} {source}"


def _first_few(names: list[str]) -> str:
    return ", ".join(names[:SHOWN]) + " …" * (len(names) > SHOWN)


def refuses_folder(request: SentencesRequest) -> str:
    """Return why these answers cannot go into a folder, by --out; an empty string if they can."""
    for name in ("regions", "json"):
        if getattr(request, name, None):
            return f"--{name} is for one output; leave out --{name}, or --out"
    if getattr(request, "format", None) == "svg":
        return "--format svg draws one picture; leave out --out, or give another format"
    if not request.files or STDIN in request.files:
        return f"--out {request.out} has a file for each input file; give files instead of standard input"
    return ""


def check_files(paths: Iterable[str] | None) -> None:
    """Raise InputError if a file does not exist or is a run: at once, not after a grammar has been loaded."""
    for path in paths or ():
        if path != STDIN and not os.path.exists(path) and not glob.has_magic(path):
            advice = "check the path"
            if any(map(str.isspace, path)):
                advice += f" or, if it is a sentence, pipe it: echo {shlex.quote(path)} | simplepcfg COMMAND RUN"
            raise InputError(f"{path}: no such file; {advice}")
        if all(Path(path, name).is_file() for name in ("config.toml", "vocabulary.txt")):
            raise InputError(f"{path}: is a run, not text; give one run, then text (`parse` takes more with --with)")
