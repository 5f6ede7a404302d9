"""The lines of a paper's table: our figures of each row beside what was published, and the table of them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from simplepcfg.errors import SimplePCFGError
from simplepcfg.evaluation.columns import Spread
from simplepcfg.evaluation.report import POSTERIOR_MEAN
from simplepcfg.files import Record
from simplepcfg.plans.result_table import NOTHING, ResultTable
from simplepcfg.plans.state import Key
from simplepcfg.plans.tables import PaperTable, Row
from simplepcfg.version import __version__

PAPER = (
    'Liu, Yang, Kim and Tu, "Simple Hardware-Efficient PCFGs with Independent Left and Right Productions", Findings of '
    "EMNLP 2023"
)
EXPLANATION = (
    "Ours: mean ± sample standard deviation over seeds; the best epoch by validation likelihood, the test file read "
    f'once a run. Paper: the figure exactly as printed in {PAPER}; "quoted in" says that the paper took it from an '
    "earlier one. A – stands where there is no figure."
)
TOKENS_OF_TREES = "Perplexity counts one more token a sentence than it has words, its end; `tokens` is that number."
TOKENS_OF_TEXT = "Perplexity is per token, over all words and one `<eos>` a sentence; `tokens` is that number."
METRIC_NAMES = {"perplexity": "perplexity", "sentence_f1": "S-F1"}
CSV_COLUMNS = (
    *("table", "language", "row", "model", "states", "metric", "mean", "standard_deviation", "runs"),
    *("sentences", "tokens", "paper", "source", "remark"),
    *("perplexity", "perplexity_standard_deviation", "perplexity_paper"),
)
# What a line needs of a report, beside the table's metric.
REPORT_NUMBERS = ("perplexity", "impossible_sentences", "perplexity_tokens", "sentences")


@dataclass(frozen=True, slots=True)
class Figure:
    """One metric of a row: mean and spread of our runs, and the published figure."""

    metric: str
    ours: Spread | None
    paper: str  # as printed; "" where the paper has none
    infinite: int = 0  # runs of infinite perplexity that the mean leaves out

    @property
    def ours_text(self) -> str:
        """Return the mean ± standard deviation over seeds."""
        return NOTHING if self.ours is None else self.ours.format(2 if self.metric == "perplexity" else 1)

    @property
    def cells(self) -> list[str]:
        """Return our figure and the paper's as two cells."""
        return [self.ours_text, self.paper or NOTHING]

    @property
    def numbers(self) -> tuple[float | None, float | None]:
        """Return our mean and standard deviation."""
        return (None, None) if self.ours is None else (self.ours.mean, self.ours.deviation)


@dataclass(frozen=True, slots=True)
class Line:
    """One row of the paper on one text: what was found, what was published, and how it came about."""

    row: Row
    language: str
    figures: tuple[Figure, ...]  # the table's metric first
    runs: int  # in the mean of the table's metric
    seeds: int
    tokens: int | None  # that perplexity is over
    sentences: int | None  # of the test file
    note: str

    @property
    def main(self) -> Figure:
        """Return the figure of the table's metric."""
        return self.figures[0]

    @property
    def perplexity(self) -> Figure:
        """Return the figure of perplexity, which every table has."""
        return next(figure for figure in self.figures if figure.metric == "perplexity")

    @property
    def remarks(self) -> str:
        """Return where the published figure stands, and then remarks about ours."""
        return "; ".join(filter(None, [self.row.source, self.note]))

    @property
    def cells(self) -> list[str]:
        """Return the cells of this line as they are shown."""
        name = f"{self.language}: {self.row.model}" if self.language else self.row.model
        figures = [cell for figure in self.figures for cell in figure.cells]
        runs = f"{self.runs} of {self.seeds}" if self.row.configuration else f"{self.runs}"
        runs = NOTHING if self.row.quoted and not self.runs else runs
        counted = f"{self.tokens:,}" if self.tokens else NOTHING
        return [name, self.row.name, self.row.size or NOTHING, *figures, runs, counted, self.remarks]


def table_lines(
    table: PaperTable,
    languages: Sequence[str],
    results: Mapping[Key, Record],
    failures: Mapping[Key, SimplePCFGError],
    seeds: int,
    chosen: Sequence[Row],
    settings: Sequence[str] = (),
) -> list[Line]:
    """Return the lines of all rows of the table, also of those that were not asked for now."""
    known = {row.name for row in table.rows}
    others = [Row(name, name) for name in dict.fromkeys(name for name, _, _ in results) if name not in known]
    lines = []
    for language in languages:
        for row in (*table.rows, *others):
            place = row.name, language
            records = [record for key, record in sorted(results.items()) if key[:2] == place]
            reports = [record["report"] for record in records]
            figures = tuple(_figure(row, metric, language, reports) for metric in table.metrics)
            failed = [error for key, error in failures.items() if key[:2] == place]
            status = _status(row, records, row in chosen, failed, row.name in known)
            notes = [_recipe(row), row.remark, status, *_about(row, records, figures, settings)]
            lines.append(
                Line(
                    row,
                    language,
                    figures,
                    len(reports) - figures[0].infinite,
                    max(seeds, len(reports)),
                    reports[0]["perplexity_tokens"] if reports else None,
                    reports[0]["sentences"] if reports else None,
                    "; ".join(filter(None, notes)),
                )
            )
    return lines


def result_table(table: PaperTable, lines: Sequence[Line], settings: Sequence[str] = ()) -> ResultTable:
    """Return the lines as a table; `settings` are those that are not the paper's."""
    before = [EXPLANATION, TOKENS_OF_TREES if table.on_trees else TOKENS_OF_TEXT]
    if settings:
        changed = ", ".join(f"`{item}`" for item in settings)
        before.append(f"**Not the paper's settings:** every row was trained with {changed}.")
    figures = [f"{METRIC_NAMES[metric]}, {whose}" for metric in table.metrics for whose in ("ours", "paper")]
    numbers = dict.fromkeys(["states", *figures, "runs", "tokens"], True)
    return ResultTable(
        table.title,
        {"model": False, "row": False, **numbers, "source and remarks": False},
        [line.cells for line in lines],
        CSV_COLUMNS,
        [_csv_row(table, line) for line in lines],
        before,
        [f"Written by simplepcfg {__version__}."],
    )


def _csv_row(table: PaperTable, line: Line) -> dict[str, object]:
    """Return values of `CSV_COLUMNS`: `mean` and `paper` are of the table's metric, perplexity has its own columns."""
    row, main, perplexity = line.row, line.main, line.perplexity
    values = (
        *(table.name, line.language, row.name, row.model, row.size, table.metric, *main.numbers, line.runs),
        *(line.sentences or "", line.tokens or "", main.paper, row.source, line.note),
        *(*perplexity.numbers, perplexity.paper),
    )
    return dict(zip(CSV_COLUMNS, values, strict=True))


def _figure(row: Row, metric: str, language: str, reports: Sequence[Record]) -> Figure:
    """Return the figure of the runs with a finite perplexity; a remark counts the others."""
    paper = row.figure(metric, language)
    possible = [report for report in reports if metric != "perplexity" or not report["impossible_sentences"]]
    values = [report[metric] for report in possible] or [math.inf for _ in reports]
    return Figure(metric, Spread.of(values), paper, len(reports) - len(possible) if possible else 0)


def _recipe(row: Row) -> str:
    return f"our recipe; the row {row.recipe_of} has the settings of what was published" if row.recipe_of else ""


def _status(
    row: Row,
    records: Sequence[Record],
    asked: bool,
    failed: Sequence[SimplePCFGError],
    known: bool,
) -> str:
    """Say where our figure comes from, or why there is none."""
    scored = [f"scored here: {record['predictions']}" for record in records if "predictions" in record]
    if scored:
        return scored[0]
    if row.quoted:
        return ""
    if not known:
        return "this version's table has no such row"
    if row.configuration and row.config is None:
        return f"the configuration {row.configuration} is not installed"
    if failed:
        return f"failed: {failed[0]}"
    if not records:
        return "not finished" if asked else "not asked for"
    return ""


def _about(row: Row, records: Sequence[Record], figures: Sequence[Figure], settings: Sequence[str]) -> list[str]:
    """Say what our figures are to be read with."""
    remarks = []
    if records and settings and row.configuration:
        remarks.append("trained with other settings than the paper's")
    if any(record["report"].get("likelihood") == POSTERIOR_MEAN for record in records):
        remarks.append(f"our perplexity is by the {POSTERIOR_MEAN}")
    infinite = figures[-1].infinite
    if infinite:
        mean = "the mean" if len(figures) == 1 else "the mean perplexity"
        remarks.append(f"not in {mean}: {infinite} of {len(records)} runs, whose perplexity is infinite")
    return remarks
