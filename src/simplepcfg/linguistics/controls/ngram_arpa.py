"""N-gram models as ARPA files, which other programs read too; a comment before the tables holds the preprocessing."""

from __future__ import annotations

import json
import math
import os
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike, fspath
from pathlib import Path

import numpy as np
from pydantic import ValidationError

from simplepcfg.data.preprocessing import Preprocessing
from simplepcfg.data.readers import open_text
from simplepcfg.data.vocabulary import PAD, PAD_ID, Vocabulary
from simplepcfg.errors import InputError
from simplepcfg.linguistics.controls.ngram import (
    NONE,
    RESERVED,
    START,
    STOP,
    Ints,
    Level,
    NgramModel,
    check_levels,
)

MARK = "# simplepcfg n-gram model "
_NEVER = "-99"  # log10 p of the start of a sentence, which is not predicted
_SEPARATORS = frozenset(" \t\n\r\0")  # which no word may have
LINES_AT_ONCE = 1 << 16


def is_arpa_file(path: str | PathLike[str]) -> bool:
    """Whether a file begins as `save_arpa` begins one; a pipe is not looked into, since it can be read once only."""
    if not Path(path).is_file():
        return False
    try:
        with open(path, "rb") as stream:
            return stream.read(len(MARK)) == MARK.encode()
    except OSError:
        return False


def save_arpa(model: NgramModel, path: str | PathLike[str]) -> None:
    """Write a model, replacing the file in one step; numbers have all their digits.

    Raises InputError if a word cannot stand in such a file.
    """
    for word in model.vocabulary.words:
        if not word or not _SEPARATORS.isdisjoint(word):
            raise InputError(f"{path}: ARPA files have no place for the word {word!r}; name the file .safetensors")
    target = Path(path)
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        with open(temporary, "w", encoding="utf-8", newline="\n") as stream:
            stream.writelines(line + "\n" for line in _lines(model))
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)


def load_arpa(path: str | PathLike[str]) -> NgramModel:
    """Read what `save_arpa` wrote. Raises InputError if it is something else, or no longer whole."""
    name = fspath(path)
    lines = enumerate(open_text(path), start=1)
    _, first = next(lines, (1, ""))
    number = 1
    try:
        if not first.startswith(MARK):
            raise ValueError
        facts = json.loads(first.removeprefix(MARK))
        vocabulary = Vocabulary([PAD, *facts["words"]])
        preprocessing = Preprocessing.model_validate(facts["preprocessing"])
        codes = _codes(vocabulary)
        announced: list[str] = []
        tables: list[_Table] = []
        for number, line in lines:  # noqa: B007 (for the error below)
            if "\t" in line:
                tables[-1].add(line, codes, len(tables))
            elif line.endswith("-grams:"):
                tables.append(_Table())
                _require(line == f"\\{len(tables)}-grams:")
            elif line.startswith("ngram "):
                announced.append(line)
            elif line == "\\end\\":
                _require(announced == [f"ngram {length}={len(table)}" for length, table in enumerate(tables, start=1)])
                return NgramModel(_levels(tables, len(vocabulary)), vocabulary, preprocessing, name)
    except (ValueError, KeyError, TypeError, IndexError, RecursionError, ValidationError):
        raise InputError(
            f"{name}:{number}: is no n-gram model of simplepcfg, or was changed; make one by simplepcfg baseline ngram"
        ) from None
    raise InputError(f"{name}: ends before \\end\\; make the model again by simplepcfg baseline ngram")


@dataclass(slots=True)
class _Table:
    """The lines of one length, in the order of the file; logarithms are those to the base 10."""

    codes: array[int] = field(default_factory=lambda: array("i"))
    log_probabilities: array[float] = field(default_factory=lambda: array("d"))
    log_backoffs: array[float] = field(default_factory=lambda: array("d"))

    def add(self, line: str, codes: Mapping[str, int], length: int) -> None:
        """Add an n-gram of so many words. Raises ValueError or KeyError if the line is none."""
        value, ngram, *weight = line.split("\t")
        words = ngram.split(" ")
        _require(len(words) == length and len(weight) <= 1)
        self.codes.extend([codes[word] for word in words])
        self.log_probabilities.append(float(value))
        self.log_backoffs.append(float(weight[0]) if weight else 0.0)

    def __len__(self) -> int:
        """Number of n-grams."""
        return len(self.log_probabilities)


def _require(condition: bool) -> None:
    """Raise ValueError unless a condition holds that all files of `save_arpa` meet."""
    if not condition:
        raise ValueError


def _levels(tables: Sequence[_Table], size: int) -> list[Level]:
    """Return sorted levels. Raises ValueError if they are those of no model."""
    levels: list[Level] = []
    for length, table in enumerate(tables, start=1):
        codes = np.array(table.codes, dtype=np.int64).reshape(-1, length)
        indices: Ints = np.zeros(len(codes), dtype=np.int64)
        for level, column in zip(levels, codes.T, strict=False):
            indices = level.find(indices * (size + 1) + column)
            _require(not (indices == NONE).any())
        keys = indices * (size + 1) + codes[:, -1]
        order = np.argsort(keys)
        values, weights = (
            np.array(part)[order] * math.log(10) for part in (table.log_probabilities, table.log_backoffs)
        )
        levels.append(Level(keys[order], values, weights))
    if levels and len(levels[0]):
        levels[0].log_probabilities[-1] = -math.inf  # the start
    check_levels(levels, size)
    return levels


def _codes(vocabulary: Vocabulary) -> dict[str, int]:
    """The code of each word of a file."""
    codes = {word: code for code, word in enumerate(vocabulary.words) if code != PAD_ID}
    return codes | {RESERVED[START]: len(vocabulary), RESERVED[STOP]: PAD_ID}


def _lines(model: NgramModel) -> Iterator[str]:
    size = len(model.vocabulary)
    facts = {"preprocessing": model.preprocessing.model_dump(), "words": list(model.vocabulary.words[1:])}
    yield MARK + json.dumps(facts, ensure_ascii=False)
    yield "\\data\\"
    for length, level in enumerate(model.levels, start=1):
        yield f"ngram {length}={len(level)}"
    words = [RESERVED[STOP], *model.vocabulary.words[1:], RESERVED[START]]
    for length, level in enumerate(model.levels, start=1):
        yield ""
        yield f"\\{length}-grams:"
        for first in range(0, len(level), LINES_AT_ONCE):
            some = slice(first, first + LINES_AT_ONCE)
            columns, indices = [], np.arange(first, min(first + LINES_AT_ONCE, len(level)))
            for shorter in reversed(model.levels[:length]):
                indices, codes = np.divmod(shorter.keys[indices], size + 1)
                columns.append([words[code] for code in codes.tolist()])
            ngrams = map(" ".join, zip(*reversed(columns), strict=True))
            values = (level.log_probabilities[some] / math.log(10)).tolist()
            weights = (level.log_backoffs[some] / math.log(10)).tolist()
            for value, ngram, weight in zip(values, ngrams, weights, strict=True):
                cells = f"{_NEVER if value == -math.inf else repr(value)}\t{ngram}"
                yield f"{cells}\t{weight!r}" if weight else cells
    yield ""
    yield "\\end\\"
