"""The lines of a table as Markdown, as CSV and for the terminal: our figure beside the paper's."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import TYPE_CHECKING

from simplepcfg.evaluation.rendering import escape_markdown, markdown_table
from simplepcfg.files import write_text
from simplepcfg.plans.lines import Figure, Line
from simplepcfg.plans.state import ReproductionFolder
from simplepcfg.plans.tables import PaperTable
from simplepcfg.version import __version__

if TYPE_CHECKING:
    from rich.table import Table

PAPER = (
    'Liu, Yang, Kim and Tu, "Simple Hardware-Efficient PCFGs with Independent Left and Right Productions", Findings of '
    "EMNLP 2023"
)
EXPLANATION = (
    "Ours: mean ± sample standard deviation over seeds; the best epoch by validation likelihood, the test file read "
    f'once a run. Paper: the figure exactly as printed in {PAPER}; "quoted in" says that the paper took it from an '
    "earlier one. A – stands where there is no figure."
)
METRIC_NAMES = {"perplexity": "perplexity", "sentence_f1": "S-F1"}
CSV_COLUMNS = (
    *("table", "language", "row", "model", "states", "metric", "mean", "standard_deviation", "runs"),
    *("sentences", "tokens", "paper", "source", "remark"),
    *("perplexity", "perplexity_standard_deviation", "perplexity_paper"),
)


def write_tables(folder: ReproductionFolder, table: PaperTable, lines: Sequence[Line], settings: Sequence[str]) -> None:
    """Write table.md and table.csv, replacing each in one step."""
    write_text(folder.markdown, markdown(table, lines, settings))
    write_text(folder.csv, _csv(table, lines))


def header(table: PaperTable) -> list[str]:
    """Return the names of the columns of `Line.cells`."""
    figures = [f"{METRIC_NAMES[metric]}, {whose}" for metric in table.metrics for whose in ("ours", "paper")]
    return ["model", "row", "states", *figures, "runs", "tokens", "source and remarks"]


def markdown(table: PaperTable, lines: Sequence[Line], settings: Sequence[str]) -> str:
    """Return the text of table.md, the page that a reproduction leaves behind."""
    parts = [f"# {table.title}", EXPLANATION]
    if table.on_trees:
        parts.append("Perplexity counts one more token a sentence than it has words, its end; `tokens` is that number.")
    else:
        parts.append("Perplexity is per token, over all words and one `<eos>` a sentence; `tokens` is that number.")
    if settings:
        changed = ", ".join(f"`{item}`" for item in settings)
        parts.append(f"**Not the paper's settings:** every row was trained with {changed}.")
    rows = [[escape_markdown(cell) for cell in line.cells] for line in lines]
    parts.append(markdown_table(header(table), rows, words=_words(table)))
    parts.append(f"Written by simplepcfg {__version__}.")
    return "\n\n".join(parts) + "\n"


def rich_lines(table: PaperTable, lines: Sequence[Line]) -> Table:
    """Return the table for a terminal."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    drawn = Table(title=Text(table.title), box=box.SIMPLE_HEAD, title_justify="left")
    words = _words(table)
    for number, name in enumerate(header(table)):
        drawn.add_column(Text(name), justify="left" if number in words else "right")
    for line in lines:
        drawn.add_row(*(Text(cell) for cell in line.cells))
    return drawn


def _words(table: PaperTable) -> tuple[int, ...]:
    """Columns that hold words, not numbers."""
    return 0, 1, len(header(table)) - 1


def _csv(table: PaperTable, lines: Sequence[Line]) -> str:
    """`mean` and `paper` are of the table's metric; perplexity has its own columns in every table."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(CSV_COLUMNS)
    for line in lines:
        row = line.row
        writer.writerow(
            [
                *(table.name, line.language, row.name, row.model, row.size, table.metric),
                *(*_numbers(line.main), line.runs, line.sentences or "", line.tokens or ""),
                *(line.main.paper, row.source, line.note),
                *(*_numbers(line.perplexity), line.perplexity.paper),
            ]
        )
    return stream.getvalue()


def _numbers(figure: Figure) -> tuple[float | str, float | str]:
    """Mean and standard deviation, "" where there is none."""
    ours = figure.ours
    if ours is None:
        return "", ""
    return ours.mean, "" if ours.deviation is None else ours.deviation
