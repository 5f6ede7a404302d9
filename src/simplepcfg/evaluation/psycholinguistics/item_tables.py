"""Tables of words or regions, a row each, as experiments have them: read, scored, written with all their columns."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from os import PathLike, fspath

from simplepcfg.data.readers import open_text
from simplepcfg.errors import InputError
from simplepcfg.evaluation.psycholinguistics.regions import RegionSurprisal, region_surprisals
from simplepcfg.evaluation.psycholinguistics.word_model import WordModel

TEXT_COLUMNS = ("region", "word", "text", "content")  # the first that is there holds the text
SENTENCE_COLUMNS = ("item", "condition", "sentence")  # rows that agree in all of these make a sentence
PLACE_COLUMNS = ("zone", "position")  # numbers that must grow within a sentence
ADDED_COLUMNS = ("tokens", "surprisal_bits", "entropy_bits", "unknown")
NOTHING = "NA"  # what pandas and R read as missing


@dataclass(frozen=True, slots=True)
class ItemTable:
    """A table as text: its columns, its rows, the column that holds the text, and the rows of each sentence."""

    name: str
    columns: tuple[str, ...]
    rows: list[list[str]]
    text_column: str
    sentences: list[list[int]]  # row numbers, in the order of the file

    def column(self, name: str) -> list[str]:
        """The cells of a column; InputError names those that there are."""
        if name not in self.columns:
            raise InputError(f"{self.name}: there is no column {name}; it has {', '.join(self.columns)}")
        place = self.columns.index(name)
        return [row[place] for row in self.rows]

    def texts(self) -> list[list[str]]:
        """The regions of each sentence."""
        cells = self.column(self.text_column)
        return [[cells[number] for number in sentence] for sentence in self.sentences]


def read_item_table(path: str | PathLike[str]) -> ItemTable:
    """A tab-separated file with a header: `region` or `word`, and `item`, `condition`, `sentence` as far as there are.

    Rows that agree in those three are the regions of one sentence, in the order of the file. `zone` and `position`,
    where they hold numbers, must grow within a sentence, so that rows of two conditions are not taken for one.
    """
    name = "standard input" if fspath(path) == "-" else fspath(path)
    lines = ((number, line) for number, line in enumerate(open_text(path), start=1) if line.strip())
    _, first = next(lines, (1, ""))
    header = first.split("\t")
    all_quoted = all(len(cell) > 1 and cell[0] == cell[-1] == '"' for cell in header)
    columns = tuple(_unquoted(cell, all_quoted).strip() for cell in header)
    text_column = next((column for column in TEXT_COLUMNS if column in columns), None)
    keys = [column for column in SENTENCE_COLUMNS if column in columns]
    if text_column is None or not keys:
        raise InputError(
            f"{name}:1: the header {' '.join(columns)!r} lacks {'item' if text_column else 'word or region'}; give "
            "columns apart by tabs, among them item and word or region"
        )
    if len(set(columns)) < len(columns):
        raise InputError(f"{name}:1: a column is named twice in {' '.join(columns)!r}; rename one")
    rows, numbers = [], []
    for number, line in lines:
        cells = [_unquoted(cell, all_quoted) for cell in line.split("\t")]
        if len(cells) != len(columns):
            raise InputError(
                f"{name}:{number}: has {len(cells)} cells, the header {len(columns)}; give a cell a column"
            )
        rows.append(cells)
        numbers.append(number)
    if not rows:
        raise InputError(f"{name}: has no rows; give a row a word or region")
    sentences: dict[tuple[str, ...], list[int]] = {}
    places = [columns.index(key) for key in keys]
    for index, row in enumerate(rows):
        sentences.setdefault(tuple(row[place] for place in places), []).append(index)
    table = ItemTable(name, columns, rows, text_column, list(sentences.values()))
    _check_places(table, keys, numbers)
    return table


def score_item_table(model: WordModel, table: ItemTable) -> list[RegionSurprisal]:
    """The surprisal of each row's region, in the order of the rows."""
    found: list[RegionSurprisal | None] = [None] * len(table.rows)
    for rows, regions in zip(table.sentences, region_surprisals(model, table.texts()), strict=True):
        for row, region in zip(rows, regions, strict=True):
            found[row] = region
    return [region for region in found if region is not None]


def scored_rows(table: ItemTable, scores: Sequence[RegionSurprisal], spillover: int = 0) -> Iterator[list[str]]:
    """The header, then every row: the input's cells, then those of `ADDED_COLUMNS`, then those of the rows before.

    `surprisal_bits_prev1` and `unknown_prev1` are those of the row before in the sentence, and so on up to `spillover`.
    """
    added = [*ADDED_COLUMNS]
    for step in range(1, spillover + 1):
        added += [f"surprisal_bits_prev{step}", f"unknown_prev{step}"]
    for column in added:
        if column in table.columns:
            raise InputError(f"{table.name}: has a column {column} already; rename it, since one of this name is added")
    yield [*table.columns, *added]
    before = previous_rows(table, spillover)
    for index, (row, score) in enumerate(zip(table.rows, scores, strict=True)):
        cells = [" ".join(score.tokens) or NOTHING, _bits(score.surprisal), _bits(score.entropy), str(score.unknown)]
        for other in before[index]:
            earlier = None if other is None else scores[other]
            cells += [NOTHING, NOTHING] if earlier is None else [_bits(earlier.surprisal), str(earlier.unknown)]
        yield [*row, *cells]


def previous_rows(table: ItemTable, steps: int) -> list[list[int | None]]:
    """For each row the rows 1, 2, … `steps` before it in its sentence; None beyond its beginning."""
    found: list[list[int | None]] = [[] for _ in table.rows]
    for rows in table.sentences:
        for place, row in enumerate(rows):
            found[row] = [rows[place - step] if place >= step else None for step in range(1, steps + 1)]
    return found


def _bits(nats: float | None) -> str:
    if nats is None:
        return NOTHING
    return "Inf" if nats == math.inf else f"{nats / math.log(2):.6f}"  # R reads no other infinity


def _unquoted(cell: str, all_quoted: bool) -> str:
    """A cell without the quotation marks of whoever wrote the table: R quotes all text, pandas cells with such a mark.

    In a table of neither, a mark belongs to the word, as in `"Come`.
    """
    inner = cell[1:-1]
    if len(cell) < 2 or cell[0] != '"' or cell[-1] != '"' or '"' in inner.replace('""', ""):
        return cell
    return inner.replace('""', '"') if all_quoted or '""' in inner else cell


def _check_places(table: ItemTable, keys: Sequence[str], numbers: Sequence[int]) -> None:
    for name in PLACE_COLUMNS:
        if name not in table.columns:
            continue
        cells = table.column(name)
        for rows in table.sentences:
            for one, other in pairwise(rows):
                if not (cells[one].isdigit() and cells[other].isdigit()) or int(cells[one]) < int(cells[other]):
                    continue
                raise InputError(
                    f"{table.name}:{numbers[other]}: {name} {cells[other]} comes after {cells[one]} in one sentence; "
                    f"rows of equal {', '.join(keys)} are a sentence: sort them, or add a condition or sentence column"
                )
