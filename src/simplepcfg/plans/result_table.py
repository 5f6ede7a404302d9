"""A table of results as Markdown, as CSV and for the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from simplepcfg.evaluation.rendering import csv_text, escape_markdown, markdown_table, rich_grid
from simplepcfg.files import write_text

if TYPE_CHECKING:
    from rich.table import Table

NOTHING = "–"


@dataclass(frozen=True, slots=True)
class ResultTable:
    """A table for people, as cells under columns, and for programs, as rows of a CSV file."""

    title: str
    columns: Mapping[str, bool]  # whether a column of this name holds numbers
    cells: Sequence[Sequence[str]]
    csv_columns: Sequence[str]
    csv_rows: Sequence[Mapping[str, object]]  # other keys are left out, missing ones are empty
    before: Sequence[str] = ()  # paragraphs of the Markdown page
    after: Sequence[str] = ()

    def markdown(self) -> str:
        """Return the page with the table."""
        rows = [[escape_markdown(cell) for cell in cells] for cells in self.cells]
        table = markdown_table(list(self.columns), rows, words=self._words)
        return "\n\n".join([f"# {self.title}", *self.before, table, *self.after]) + "\n"

    def csv(self) -> str:
        """Return the text of the CSV file."""
        return csv_text(self.csv_columns, self.csv_rows)

    def write(self, folder: Path) -> None:
        """Write table.md and table.csv, replacing each in one step."""
        write_text(folder / "table.md", self.markdown())
        write_text(folder / "table.csv", self.csv())

    def rich(self) -> Table:
        """Return the table for a terminal."""
        return rich_grid(list(self.columns), self.cells, self.title, words=self._words)

    @property
    def _words(self) -> list[int]:
        return [number for number, is_number in enumerate(self.columns.values()) if not is_number]
