"""Tables of results for the terminal and in Markdown, with all text escaped."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from simplepcfg.evaluation.columns import Column
from simplepcfg.evaluation.layout import sections

if TYPE_CHECKING:
    from rich.console import JustifyMethod
    from rich.table import Table

MARKDOWN = re.compile(r"([\\`*_{}\[\]<>|#~$&])")


def escape_markdown(text: str) -> str:
    """Return text on one line, escaped for a Markdown table."""
    return MARKDOWN.sub(r"\\\1", " ".join(text.split()))


def rich_table(columns: Sequence[Column], title: str) -> Table:
    """Return a table for a terminal with one column for each system."""
    rows: list[list[str]] = []
    for section in sections(columns):
        rows.append([section.heading, *("" for _ in columns)])
        rows += [[f"  {name}", *cells] for name, cells in section.rows]
    return rich_grid(["", *(column.name for column in columns)], rows, title)


def rich_grid(
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    title: str | None = None,
    words: Container[int] = (0,),
    caption: str | None = None,
) -> Table:
    """Return cells under a header, for a terminal; columns other than those in `words` are aligned to the right."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    # All cells are Text, since a label or a file name may contain rich's markup.
    table = Table(
        title=Text(title) if title else None,
        caption=Text(caption) if caption else None,
        box=box.SIMPLE_HEAD,
        title_justify="left",
        caption_justify="left",
    )
    for number, name in enumerate(header):
        # Where the terminal is narrow, words are folded and numbers are neither folded nor cut.
        least = None if number in words else max((len(row[number]) for row in rows), default=1)
        justify: JustifyMethod = "left" if number in words else "right"
        table.add_column(Text(name), justify=justify, overflow="fold", min_width=least)
    for row in rows:
        table.add_row(*map(Text, row))
    return table


def markdown_report(columns: Sequence[Column], title: str) -> str:
    """Return the table of `rich_table` in Markdown."""
    rows = []
    for section in sections(columns):
        rows.append([f"**{escape_markdown(section.heading)}**", *("" for _ in columns)])
        rows += [[escape_markdown(name), *map(escape_markdown, cells)] for name, cells in section.rows]
    table = markdown_table(["", *(escape_markdown(column.name) for column in columns)], rows)
    return f"{escape_markdown(title)}\n\n{table}"


def csv_text(columns: Sequence[str], rows: Iterable[Mapping[str, object]]) -> str:
    """Return the text of a CSV file; other keys of a row are left out, missing ones and None are empty cells."""
    stream = io.StringIO()
    writer = csv.DictWriter(stream, columns, restval="", extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return stream.getvalue()


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[str]], words: Container[int] = (0,)) -> str:
    """Return a Markdown table of escaped cells; columns other than those in `words` are aligned to the right."""
    aligned = ["---" if number in words else "---:" for number in range(len(header))]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in [header, aligned, *rows])
