"""Our figure beside the paper's: lines of a table, as Markdown, as CSV and for the terminal."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import simplepcfg
from simplepcfg.errors import SimplePCFGError
from simplepcfg.evaluation.columns import Spread
from simplepcfg.evaluation.rendering import escape_markdown, markdown_table
from simplepcfg.reproduction.state import Key, ReproductionFolder
from simplepcfg.reproduction.tables import PaperTable, Row
from simplepcfg.training.files import write_text

if TYPE_CHECKING:
    from rich.table import Table

NOTHING = "–"
NOT_QUOTED = "not quoted here"
WORDS = (0, 1, 7)  # columns that hold words, not numbers
EXPLANATION = (
    "Ours: mean ± sample standard deviation over seeds; the best epoch by validation likelihood, the test file read "
    "once a run. Paper: as printed in the source named; figures that are not known with their source are left out."
)
# What a line needs of a report, beside the metric.
REPORT_NUMBERS = ("impossible_sentences", "perplexity_tokens", "sentences")
METRICS = {"perplexity": "perplexity", "sentence_f1": "S-F1"}


@dataclass(frozen=True, slots=True)
class Line:
    """One row of the paper on one text: what was found, what was published, and how it came about."""

    row: Row
    language: str
    metric: str
    ours: Spread | None
    runs: int
    seeds: int
    tokens: int | None  # that perplexity is over
    sentences: int | None  # of the test file
    note: str

    @property
    def paper(self) -> str:
        """The published figure, or "" where this package quotes none."""
        return self.row.figures.get(self.language, "")

    @property
    def ours_text(self) -> str:
        """Mean ± standard deviation over seeds."""
        return NOTHING if self.ours is None else self.ours.format(2 if self.metric == "perplexity" else 1)

    @property
    def cells(self) -> list[str]:
        """As shown; baselines have no published figure of their own to stand beside."""
        size = self.row.size or NOTHING
        counted = f"{self.tokens:,}" if self.metric == "perplexity" and self.tokens else NOTHING
        runs = f"{self.runs}" if self.row.baseline or not self.row.configs else f"{self.runs} of {self.seeds}"
        runs = NOTHING if self.row.quoted and not self.runs else runs
        name = f"{self.language}: {self.row.model}" if self.language else self.row.model
        return [name, self.row.name, size, self.ours_text, runs, counted, self.paper or NOT_QUOTED, self.note]


def table_lines(
    table: PaperTable,
    languages: Sequence[str],
    results: Mapping[Key, dict[str, Any]],
    failures: Mapping[Key, SimplePCFGError],
    seeds: int,
    chosen: Sequence[Row],
    settings: Sequence[str] = (),
) -> list[Line]:
    """All rows of the table, also those that were not asked for this time: what was found earlier stays in it."""
    known = {row.name for row in table.rows}
    predicted = [Row(name, name) for name in dict.fromkeys(name for name, _, _ in results) if name not in known]
    lines = []
    for language in languages:
        for row in (*table.rows, *predicted):
            found = [
                record for (name, text, _), record in sorted(results.items()) if (name, text) == (row.name, language)
            ]
            reports = [record["report"] for record in found]
            possible = [report for report in reports if not _is_infinite(report, table)]
            # Where some runs have a figure, theirs is shown, and the remark counts the others.
            ours = Spread.of([report[table.metric] for report in possible] or [math.inf for _ in reports])
            infinite = len(reports) - len(possible) if possible else 0
            failed = [error for (name, text, _), error in failures.items() if (name, text) == (row.name, language)]
            lines.append(
                Line(
                    row,
                    language,
                    table.metric,
                    ours,
                    len(reports) - infinite,
                    max(seeds, len(reports)),
                    reports[0]["perplexity_tokens"] if reports else None,
                    reports[0]["sentences"] if reports else None,
                    _note(row, found, row in chosen, failed, settings, infinite),
                )
            )
    return lines


def _is_infinite(report: Mapping[str, Any], table: PaperTable) -> bool:
    """A sentence of probability 0 makes a perplexity infinite (null in JSON); F1 does not ask."""
    return table.metric == "perplexity" and bool(report["impossible_sentences"])


def _note(
    row: Row,
    found: Sequence[Mapping[str, Any]],
    asked: bool,
    failed: Sequence[SimplePCFGError],
    settings: Sequence[str],
    infinite: int,
) -> str:
    done = len(found)
    scored = [f"scored here: {record['predictions']}" for record in found if "predictions" in record]
    if row.quoted:
        quoted = f"quoted: {row.source}" if row.source else "quoted; its figure has a place in tables.toml"
        return "; ".join([quoted, *scored])
    if scored:
        return scored[0]
    if row.configs and row.config is None:
        return f"the configuration {row.configs[0]} is not installed"
    if failed:
        return f"failed: {failed[0]}"
    if not done:
        return "not finished" if asked else "not asked for"
    changed = "trained with other settings than the paper's" if settings and row.configs else ""
    left_out = f"not in the mean: {infinite} of {done} runs, whose perplexity is infinite" if infinite else ""
    return "; ".join(filter(None, [row.source, changed, left_out]))


def write_tables(folder: ReproductionFolder, table: PaperTable, lines: Sequence[Line], settings: Sequence[str]) -> None:
    """table.md and table.csv, replaced in one step each."""
    write_text(folder.markdown, markdown(table, lines, settings))
    write_text(folder.csv, _csv(table, lines))


def header(table: PaperTable) -> list[str]:
    """Names of the columns of `Line.cells`."""
    return ["model", "row", "states", f"{METRICS[table.metric]}, ours", "runs", "tokens", "paper", "source or remark"]


def markdown(table: PaperTable, lines: Sequence[Line], settings: Sequence[str]) -> str:
    """The page that a reproduction leaves behind."""
    parts = [f"# {table.title}", EXPLANATION]
    if table.metric == "perplexity":
        parts.append("Perplexity is per token, over all words and one `<eos>` a sentence; `tokens` is that number.")
    if settings:
        changed = ", ".join(f"`{item}`" for item in settings)
        parts.append(f"**Not the paper's settings:** every row was trained with {changed}.")
    rows = [[escape_markdown(cell) for cell in line.cells] for line in lines]
    parts.append(markdown_table(header(table), rows, words=WORDS))
    parts.append(f"Written by simplepcfg {simplepcfg.__version__}.")
    return "\n\n".join(parts) + "\n"


def rich_lines(table: PaperTable, lines: Sequence[Line]) -> Table:
    """The same for a terminal."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    drawn = Table(title=Text(table.title), box=box.SIMPLE_HEAD, title_justify="left")
    for number, name in enumerate(header(table)):
        drawn.add_column(Text(name), justify="left" if number in WORDS else "right")
    for line in lines:
        drawn.add_row(*(Text(cell) for cell in line.cells))
    return drawn


def _csv(table: PaperTable, lines: Sequence[Line]) -> str:
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    names = "table,language,row,model,states,metric,mean,standard_deviation,runs,sentences,tokens,paper,source,remark"
    writer.writerow(names.split(","))
    for line in lines:
        ours = line.ours
        writer.writerow(
            [
                *(table.name, line.language, line.row.name, line.row.model, line.row.size, line.metric),
                *(ours.mean if ours else "", ours.deviation if ours and ours.deviation is not None else ""),
                *(line.runs, line.sentences or "", line.tokens or "", line.paper, line.row.source, line.note),
            ]
        )
    return stream.getvalue()
