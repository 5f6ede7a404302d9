"""Tables of words or regions, a row each, as experiments have them: read, scored, written with all their columns."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from os import PathLike

from simplepcfg.data.raw_text import inner_sentence_end
from simplepcfg.data.readers import display_name, open_text
from simplepcfg.errors import InputError, counted, shortened
from simplepcfg.linguistics.delimited_rows import delimited_rows
from simplepcfg.linguistics.regions import RegionSurprisal, region_surprisals, tokenise_regions
from simplepcfg.linguistics.word_model import INFORMATION, WordModel

TEXT_COLUMNS = ("region", "word", "text", "content")  # the first that is there holds the text
SENTENCE_COLUMNS = ("item", "condition", "sentence")  # rows that agree in all of these make a sentence
IDENTIFYING_COLUMNS = ("item", "sentence")  # one of these is needed: a condition has many sentences
PLACE_COLUMNS = ("zone", "position")  # numbers that must grow within a sentence
ADDED_COLUMNS = ("tokens", *(f"{name}_bits" for name in INFORMATION), "unknown")
NOTHING = "NA"  # what pandas and R read as missing


@dataclass(frozen=True, slots=True)
class ItemTable:
    """A table as text: its columns and rows, the column that holds the text, those whose cells are equal in all rows of
    a sentence, the rows of each sentence, and the line that each row has in the file."""

    name: str
    columns: tuple[str, ...]
    rows: list[list[str]]
    text_column: str
    keys: tuple[str, ...]
    sentences: list[list[int]]  # places in `rows`, in the order of the file
    numbers: list[int]  # lines count from 1

    def column(self, name: str) -> list[str]:
        """Return the cells of a column; InputError names those that there are."""
        if name not in self.columns:
            raise InputError(f"{self.name}: there is no column {name}; it has {', '.join(self.columns)}")
        place = self.columns.index(name)
        return [row[place] for row in self.rows]

    def texts(self) -> list[list[str]]:
        """Return the regions of each sentence."""
        cells = self.column(self.text_column)
        return [[cells[number] for number in sentence] for sentence in self.sentences]


def read_item_table(path: str | PathLike[str]) -> ItemTable:
    """Read a table with a header: `region` or `word`, `item` or `sentence`, and perhaps `condition`, in any case.

    Columns are separated by tabs, or as CSV by commas or semicolons; nameless empty ones at the end are left out. Rows
    that agree in `item`, `condition` and `sentence`, as far as there are such columns, are the regions of one sentence,
    in the order of the file. `zone` and `position`, where they hold numbers, must grow within a sentence, so that rows
    of two conditions are not taken for one.
    """
    name = display_name(path)
    lines = delimited_rows(open_text(path), name)
    first = next(lines, None)
    if first is None:
        raise InputError(f"{name}: is empty; give a header, and a row a word or region")
    columns = _without_empty_end([cell.strip() for cell in first[1]], 0)
    text_column = next((spelled for column in TEXT_COLUMNS if (spelled := _spelled(columns, column))), None)
    keys = [spelled for column in SENTENCE_COLUMNS if (spelled := _spelled(columns, column))]
    if text_column is None or not any(_spelled(columns, column) for column in IDENTIFYING_COLUMNS):
        raise InputError(
            f"{name}:{first[0]}: the header {shortened(' '.join(columns), 80)!r} lacks "
            f"{'item' if text_column else 'word or region'}; separate columns by tabs, commas or semicolons, "
            "and name one item and one word or region"
        )
    if len(set(columns)) < len(columns):
        raise InputError(f"{name}:{first[0]}: a column is named twice in {' '.join(columns)!r}; rename one")
    rows: list[list[str]] = []
    numbers: list[int] = []
    for number, line in lines:
        cells = _without_empty_end(line, len(columns))
        if len(cells) != len(columns):
            of_r = not rows and len(cells) == len(columns) + 1  # a name before each row, and none in the header
            fix = "give a cell a column" + of_r * "; for write.table of R, row.names = FALSE"
            raise InputError(f"{name}:{number}: has {counted(len(cells), 'cell')}, the header {len(columns)}; {fix}")
        rows.append(cells)
        numbers.append(number)
    if not rows:
        raise InputError(f"{name}: has no rows; give a row a word or region")
    sentences: dict[tuple[str, ...], list[int]] = {}
    places = [columns.index(key) for key in keys]
    for index, row in enumerate(rows):
        sentences.setdefault(tuple(row[place] for place in places), []).append(index)
    table = ItemTable(name, tuple(columns), rows, text_column, tuple(keys), list(sentences.values()), numbers)
    _check_places(table)
    return table


def several_sentences_remark(table: ItemTable) -> str | None:
    """Return a remark if rows of one sentence of the table often look like several sentences, else None."""
    example = inner_sentence_end([tokenise_regions(regions).words for regions in table.texts()])
    if example is None:
        return None
    return (
        f"{table.name}: rows of equal {', '.join(table.keys)} are read as one sentence, and seem to be several, as in "
        f"`{example}`; add a column sentence or condition"
    )


def score_item_table(model: WordModel, table: ItemTable, *, entropies: bool = False) -> list[RegionSurprisal]:
    """Compute the surprisal of each row's region, and its entropy where it is wanted, row by row."""
    scored = region_surprisals(model, table.texts(), entropies=entropies)
    by_row = dict(zip(chain(*table.sentences), chain(*scored), strict=True))
    return [by_row[row] for row in range(len(table.rows))]


def equal_conditions_remark(table: ItemTable, scores: Sequence[RegionSurprisal]) -> str | None:
    """Return a remark if conditions of an item are the same tokens to the model, else None."""
    condition = _spelled(table.columns, "condition")
    if condition is None:
        return None
    conditions, names = table.column(condition), [key for key in table.keys if key != condition]
    others = [table.column(name) for name in names]
    by_item: dict[tuple[str, ...], dict[tuple[str, ...], str]] = {}
    equal: dict[tuple[str, ...], tuple[str, str]] = {}
    for rows in table.sentences:
        item = tuple(column[rows[0]] for column in others)
        tokens = tuple(token for row in rows for token in scores[row].tokens)
        first = by_item.setdefault(item, {}).setdefault(tokens, conditions[rows[0]])
        if first != conditions[rows[0]]:
            equal.setdefault(item, (first, conditions[rows[0]]))
    if not equal:
        return None
    item, (one, other) = next(iter(equal.items()))
    named = ", ".join(f"{name} {cell}" for name, cell in zip(names, item, strict=True))
    share = f"{len(equal):,} of {counted(len(by_item), 'item')}"
    return (
        f"{table.name}: conditions are the same words to the model in {share}, "
        f"as {one} and {other} of {named}: it drops what differs, such as punctuation, or does not know the words"
    )


def scored_rows(table: ItemTable, scores: Sequence[RegionSurprisal], spillover: int = 0) -> Iterator[list[str]]:
    """Yield the header, then every row: the input's cells, those of `ADDED_COLUMNS`, then those of the rows before.

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
        numbers = [_bits(getattr(score, name)) for name in INFORMATION]
        cells = [" ".join(score.tokens) or NOTHING, *numbers, str(score.unknown)]
        for other in before[index]:
            earlier = None if other is None else scores[other]
            cells += [NOTHING, NOTHING] if earlier is None else [_bits(earlier.surprisal), str(earlier.unknown)]
        yield [*row, *cells]


def previous_rows(table: ItemTable, steps: int) -> list[list[int | None]]:
    """Return, for each row, the rows 1, 2, … `steps` before it in its sentence; None beyond its beginning."""
    before: list[list[int | None]] = [[] for _ in table.rows]
    for rows in table.sentences:
        for place, row in enumerate(rows):
            before[row] = [rows[place - step] if place >= step else None for step in range(1, steps + 1)]
    return before


def _bits(nats: float | None) -> str:
    if nats is None:
        return NOTHING
    return "Inf" if nats == math.inf else f"{nats / math.log(2):.6f}"  # R reads no other infinity


def _spelled(columns: Sequence[str], name: str) -> str | None:
    """Return the name of a column as the table spells it, which may be with capitals, or None."""
    return name if name in columns else next((column for column in columns if column.lower() == name), None)


def _without_empty_end(cells: list[str], least: int) -> list[str]:
    """Drop the empty cells at the end, of which spreadsheets write some, but keep the first `least`."""
    filled = max((place for place, cell in enumerate(cells, start=1) if cell.strip()), default=0)
    return cells[: max(filled, least)]


def _check_places(table: ItemTable) -> None:
    for name in filter(None, (_spelled(table.columns, column) for column in PLACE_COLUMNS)):
        cells = table.column(name)
        for rows in table.sentences:
            for one, other in pairwise(rows):
                if not (cells[one].isdigit() and cells[other].isdigit()) or int(cells[one]) < int(cells[other]):
                    continue
                raise InputError(
                    f"{table.name}:{table.numbers[other]}: {name} {cells[other]} comes after {cells[one]} in one "
                    f"sentence; rows of equal {', '.join(table.keys)} are a sentence: sort them, or add a condition or "
                    "sentence column"
                )
