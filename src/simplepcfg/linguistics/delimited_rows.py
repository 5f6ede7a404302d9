"""Rows of tables as people keep them: cells separated by tabs, or by commas or semicolons as spreadsheets save CSV."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator
from itertools import chain

from simplepcfg.errors import InputError

TAB = "\t"
_DOUBLED_MARK = re.compile('""')
_ESCAPED_MARK = re.compile(r'""|\\"')


def delimited_rows(lines: Iterable[str], name: str, separator: str | None = None) -> Iterator[tuple[int, list[str]]]:
    """Yield the number of the line and the cells of each row that is not blank; the first row tells the separator,
    unless it is given.

    Cells of CSV are unquoted as CSV wants it, and InputError is raised where quotation marks do not match. Between tabs
    they lose the quotation marks that a program has put around them, and no others.
    """
    numbered = ((number, line) for number, line in enumerate(lines, start=1))
    first = next(((number, line) for number, line in numbered if line.strip()), None)
    if first is None:
        return
    number, header = first
    separator = separator or _separator(header)
    if separator == TAB:
        rows = _tab_separated(chain([first], numbered))
    else:
        rows = _comma_separated(chain([header], (line for _, line in numbered)), separator, number, name)
    yield from ((number, cells) for number, cells in rows if any(cell.strip() for cell in cells))


def _separator(header: str) -> str:
    """Return the separator of a header: a tab if there is one, else the comma or semicolon that gives more cells."""
    if TAB in header:
        return TAB
    try:
        cells = {separator: len(next(csv.reader([header], delimiter=separator))) for separator in ",;"}
    except csv.Error:  # a cell that is longer than the module reads: no header, but perhaps a text
        return TAB
    best = max(cells, key=lambda separator: cells[separator])
    return best if cells[best] > 1 else TAB


def _tab_separated(lines: Iterable[tuple[int, str]]) -> Iterator[tuple[int, list[str]]]:
    all_quoted: bool | None = None
    for number, line in lines:
        cells = line.split(TAB)
        if all_quoted is None:
            all_quoted = all(len(cell) > 1 and cell[0] == cell[-1] == '"' for cell in cells)
        yield number, [_unquoted(cell, all_quoted) for cell in cells]


def _unquoted(cell: str, all_quoted: bool) -> str:
    """Return a cell without quotation marks: R quotes all text, pandas cells with such a mark.

    A mark within is doubled or, by R's `write.table`, has a backslash before it. In a table of neither, a mark belongs
    to the word, as in `"Come`.
    """
    if len(cell) < 2 or cell[0] != '"' or cell[-1] != '"':
        return cell
    inner = cell[1:-1]
    marks = _ESCAPED_MARK if all_quoted else _DOUBLED_MARK
    if '"' in marks.sub("", inner):
        return cell
    return marks.sub('"', inner) if all_quoted or '""' in inner else cell


def _comma_separated(lines: Iterable[str], separator: str, first: int, name: str) -> Iterator[tuple[int, list[str]]]:
    reader = csv.reader((line + "\n" for line in lines), delimiter=separator, strict=True)
    number = first
    try:
        for cells in reader:
            yield number, cells
            number = first + reader.line_num
    except csv.Error:
        raise InputError(
            f"{name}:{number}: the quotation marks of a cell do not match; double those within a cell, or separate "
            "columns by tabs"
        ) from None
