"""Minimal pairs: does a model find the acceptable sentence more probable than the other?"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from os import PathLike, fspath
from pathlib import Path

from simplepcfg.data.readers import open_text
from simplepcfg.errors import InputError, counted
from simplepcfg.linguistics.accuracy import TIE, Accuracy, Judgement, accuracy_of_set, with_means
from simplepcfg.linguistics.delimited_rows import TAB, delimited_rows
from simplepcfg.linguistics.word_model import WordModel, has_unknown, with_known_marks, words_of_item

SUFFIXES = (".jsonl", ".tsv", ".csv", ".txt")
GOOD, BAD = "sentence_good", "sentence_bad"
_HEADERS = (("good", "bad"), (GOOD, BAD), ("acceptable", "unacceptable"), ("grammatical", "ungrammatical"))


@dataclass(frozen=True, slots=True)
class MinimalPair:
    """Two sentences as written, of which the first is acceptable; the paradigm is what accuracies are given for."""

    good: str
    bad: str
    paradigm: str
    term: str | None = None  # the phenomenon, to which several paradigms may belong


def read_minimal_pairs(path: str | PathLike[str]) -> list[MinimalPair]:
    """Read the pairs of a file, whose format its name tells; `.gz` is decompressed.

    `.jsonl` is BLiMP's: an object a line with sentence_good, sentence_bad, UID and linguistics_term. `.tsv` has the
    acceptable sentence and the other one separated by a tab, and `.csv` by a comma or semicolon; a header may say which
    is which, as good and bad, and then there may be other columns. `.txt` is Zorro's: of two lines the first is the
    unacceptable sentence. In these the paradigm is the file's name.
    """
    name = fspath(path)
    stem = Path(name.removesuffix(".gz"))
    text = open_text(path)
    lines = ((number, line) for number, line in enumerate(text, start=1) if line.strip())
    if stem.suffix == ".jsonl":
        pairs = list(_from_json(lines, name, stem.stem))
    elif stem.suffix in (".tsv", ".csv"):
        rows = delimited_rows(text, name, TAB if stem.suffix == ".tsv" else None)
        pairs = list(_from_columns(rows, name, stem.stem))
    elif stem.suffix == ".txt":
        pairs = list(_from_alternating_lines(lines, name, stem.stem))
    else:
        raise InputError(
            f"{name}: minimal pairs are read from {', '.join(SUFFIXES)} (.gz too); save the pairs as one of these"
        )
    if not pairs:
        raise InputError(f"{name}: no minimal pairs; expected {GOOD} and {BAD}, two columns, or pairs of lines")
    return pairs


def evaluate_minimal_pairs(model: WordModel, pairs: Sequence[MinimalPair]) -> list[Accuracy]:
    """Compute the accuracy of a model on each paradigm, in the order of their first pairs, then means.

    A pair is right where log p of the good sentence, its end included, is higher by more than rounding; equal
    sentences, as where only dropped punctuation differs, are ties and wrong.
    """
    good = [with_known_marks(model, words_of_item(pair.good)) for pair in pairs]
    bad = [with_known_marks(model, words_of_item(pair.bad)) for pair in pairs]
    scores = model.score([*good, *bad])
    judged: dict[str, list[Judgement]] = {}
    terms: dict[str, str | None] = {}
    for index, pair in enumerate(pairs):
        higher, lower = scores[index], scores[len(pairs) + index]
        difference = 0.0 if higher == lower else higher - lower  # two impossible sentences are equal
        unknown = has_unknown(model, good[index]) or has_unknown(model, bad[index])
        judged.setdefault(pair.paradigm, []).append(Judgement(difference > TIE, abs(difference) <= TIE, unknown))
        terms.setdefault(pair.paradigm, pair.term)
    return with_means([accuracy_of_set(model.name, name, items, terms[name]) for name, items in judged.items()])


def _from_json(lines: Iterator[tuple[int, str]], name: str, paradigm: str) -> Iterator[MinimalPair]:
    for number, line in lines:
        try:
            record: object = json.loads(line)
        except (json.JSONDecodeError, RecursionError):
            raise InputError(f"{name}:{number}: is not JSON; give one object a line") from None
        if not isinstance(record, dict) or not all(isinstance(record.get(key), str) for key in (GOOD, BAD)):
            raise InputError(f"{name}:{number}: has no {GOOD} and {BAD}; give one object a line with both")
        term = record.get("linguistics_term")
        yield MinimalPair(
            record[GOOD], record[BAD], str(record.get("UID", paradigm)), None if term is None else str(term)
        )


def _from_columns(rows: Iterator[tuple[int, list[str]]], name: str, paradigm: str) -> Iterator[MinimalPair]:
    columns: tuple[int, int] | None = None  # of the good and the bad sentence, if there is a header
    for position, (number, row) in enumerate(rows):
        cells = [cell.strip() for cell in row]
        if position == 0 and (columns := _columns_of_header(cells)) is not None:
            continue
        if columns is None and len(cells) != 2:
            raise InputError(
                f"{name}:{number}: has {counted(len(cells), 'column')}; give two, the acceptable sentence first, or a "
                f"header that names two of them {' and '.join(_HEADERS[0])}"
            )
        good, bad = (cells[place] if place < len(cells) else "" for place in columns or (0, 1))
        if not good or not bad:
            raise InputError(f"{name}:{number}: the {'bad' if good else 'good'} sentence is empty; give both")
        yield MinimalPair(good, bad, paradigm)


def _columns_of_header(cells: Sequence[str]) -> tuple[int, int] | None:
    """Return where the good and the bad sentence are, if these cells name them."""
    names = [cell.lower() for cell in cells]
    return next(((names.index(good), names.index(bad)) for good, bad in _HEADERS if {good, bad} <= set(names)), None)


def _from_alternating_lines(lines: Iterator[tuple[int, str]], name: str, paradigm: str) -> Iterator[MinimalPair]:
    term = paradigm.rpartition("-")[0] or None
    for _, bad in lines:
        number, good = next(lines, (0, ""))
        if not number:
            raise InputError(f"{name}: has an odd number of lines; give pairs, the unacceptable sentence first")
        yield MinimalPair(good.strip(), bad.strip(), paradigm, term)
