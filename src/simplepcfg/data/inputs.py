"""Sentences of files, folders and patterns as one stream, each with the place that it comes from."""

from __future__ import annotations

import glob
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from simplepcfg.data.languages import ENGLISH
from simplepcfg.data.readers import STDIN, display_name, read_marked, read_trees, sniff
from simplepcfg.data.trees import SpanTree
from simplepcfg.errors import InputError

Offsets = list[tuple[int, int] | None]  # of each word, half-open; None for one that is not in the text as it is

LOOKED_AHEAD = 200  # characters in which a word is looked for that does not follow the one before


@dataclass(frozen=True, slots=True)
class Item:
    """A sentence and where it stands."""

    sentence: list[str] | SpanTree
    file: str
    number: int  # in its file, from 1: of the line, the tree or, in raw text and CoNLL-U, the sentence
    id: str | None = None  # the sent_id of CoNLL-U
    offsets: Offsets | None = None
    read: int = 0  # bytes of all files up to its end, approximately

    @property
    def words(self) -> Sequence[str]:
        """The words of the sentence."""
        return self.sentence.words if isinstance(self.sentence, SpanTree) else self.sentence


class Inputs:
    """The sentences of several files, read as a stream; blank lines are empty sentences.

    With `offsets` each word has the characters that it takes, counted from 0 as in what Python's `open(file).read()`
    returns; words of CoNLL-U have those in the text of their sentence, words of trees have none. `size` is how many
    bytes there are to read, None where that is not known.
    """

    def __init__(
        self,
        paths: Iterable[str],
        *,
        split: Callable[[str], list[str]] = str.split,
        raw: bool = False,
        language: str = ENGLISH,
        offsets: bool = False,
    ) -> None:
        self.files = expanded(paths)
        self.size = _total_size(self.files)
        self._read = 0
        self._split, self._raw, self._language, self._offsets = split, raw, language, offsets

    def __iter__(self) -> Iterator[Item]:
        for file in self.files:
            yield from self.of_file(file)

    def of_file(self, file: str) -> Iterator[Item]:
        """Yield the sentences of one of the files."""
        name, text = display_name(file), _Text()

        def seen(line: str) -> None:
            self._read += len(line) + 1
            if self._offsets:
                text.add(line)

        if sniff(file) == "trees":
            for number, tree in enumerate(read_trees(file, seen), start=1):
                yield Item(tree, name, number, read=self._read)
            return
        marked = read_marked(file, split=self._split, raw=self._raw, language=self._language, seen=seen)
        for number, sentence in enumerate(marked, start=1):
            offsets = None
            if self._offsets and sentence.text is not None:
                offsets = word_offsets(sentence.text, sentence.words)[0]
            elif self._offsets:
                offsets = text.take(sentence.words, whole_line=not self._raw)
            yield Item(sentence.words, name, number, sentence.id, offsets, self._read)


def expanded(paths: Iterable[str]) -> list[str]:
    """Return the files of paths, in the order of their names: of a folder all files below it that are not hidden,
    of a pattern such as `texts/*.txt` those that it matches.

    Raises InputError for a folder without files and for a pattern that matches none.
    """
    files: list[str] = []
    for path in paths:
        matching, problem = [path], ""
        if path != STDIN and os.path.isdir(path):
            matching = sorted(map(str, files_below(Path(path))))
            problem = "a folder without files; give one with text"
        elif path != STDIN and glob.has_magic(path) and not os.path.exists(path):
            matching = sorted(file for file in glob.glob(path, recursive=True) if os.path.isfile(file))
            problem = "no file has such a name; check the pattern"
        if not matching:
            raise InputError(f"{path}: {problem}")
        files += matching
    return files


def files_below(folder: Path) -> Iterator[Path]:
    """Yield the files in a folder and in those below it that are not hidden; a pipe would be waited for."""
    for path in folder.rglob("*"):
        if path.is_file() and not any(part.startswith(".") for part in path.relative_to(folder).parts):
            yield path


def word_offsets(text: str, words: Iterable[str]) -> tuple[Offsets, int]:
    """Return where each word stands in a text, and where the last one ends.

    White space is skipped, also within a word, as in an ellipsis that is written with spaces.
    """
    offsets: Offsets = []
    start = 0
    for word in words:
        span = _match(text, word, start)
        if span is None and (place := text.find(word, start, start + LOOKED_AHEAD)) >= 0:
            span = place, place + len(word)
        offsets.append(span)
        start = start if span is None else span[1]
    return offsets, start


def _match(text: str, word: str, place: int) -> tuple[int, int] | None:
    begin = None
    for character in word:
        while place < len(text) and text[place].isspace():
            place += 1
        if place == len(text) or text[place] != character:
            return None
        begin = place if begin is None else begin
        place += 1
    return None if begin is None else (begin, place)


class _Text:
    """The part of a file that has been read and is not yet part of a sentence."""

    def __init__(self) -> None:
        self._text, self._start = "", 0

    def add(self, line: str) -> None:
        self._text += line + "\n"

    def take(self, words: Sequence[str], whole_line: bool) -> Offsets:
        """Return the offsets of the next words in the file, and drop what comes before their end, or their line."""
        first_line = self._text.find("\n") + 1
        offsets, end = word_offsets(self._text[:first_line] if whole_line else self._text, words)
        absolute = [None if span is None else (span[0] + self._start, span[1] + self._start) for span in offsets]
        end = first_line if whole_line else end
        self._text, self._start = self._text[end:], self._start + end
        return absolute


def _total_size(files: Iterable[str]) -> int | None:
    """Return the bytes of all files, decompressed; None where one of them is a pipe, or missing."""
    total = 0
    for file in files:
        try:
            status = os.stat(file)
        except (OSError, ValueError):
            return None
        if not stat.S_ISREG(status.st_mode):
            return None
        total += _decompressed_size(file) if file.endswith(".gz") else status.st_size
    return total


def _decompressed_size(file: str) -> int:
    """Return the size that gzip has noted at the end of the file, which is enough for an estimate."""
    try:
        with open(file, "rb") as stream:
            stream.seek(-4, os.SEEK_END)
            return int.from_bytes(stream.read(4), "little")
    except OSError:
        return 0
