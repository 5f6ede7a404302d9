"""The lines of a paper's table: our figures of each row beside what was published, and the table of them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

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


def result_table(
    table: PaperTable,
    languages: Sequence[str],
    results: Mapping[Key, Record],
    failures: Mapping[Key, SimplePCFGError],
    seeds: int,
    chosen: Sequence[Row],
    settings: Sequence[str] = (),
) -> ResultTable:
    """Return the table of all its rows, also of those that were not asked for; `settings` are not the paper's."""
    cells, csv_rows = [], []
    for language in languages:
        for row in table.rows:
            place = row.name, language
            records = [record for key, record in sorted(results.items()) if key[:2] == place]
            failed = [error for key, error in failures.items() if key[:2] == place]
            asked = row in chosen
            for_people, for_programs = _line(table, row, language, records, seeds, asked, failed, settings)
            cells.append(for_people)
            csv_rows.append(dict(zip(CSV_COLUMNS, for_programs, strict=True)))
    before = [EXPLANATION, TOKENS_OF_TREES if table.on_trees else TOKENS_OF_TEXT]
    if settings:
        changed = ", ".join(f"`{item}`" for item in settings)
        before.append(f"**Not the paper's settings:** every row was trained with {changed}.")
    figures = [f"{METRIC_NAMES[metric]}, {whose}" for metric in table.metrics for whose in ("ours", "paper")]
    numbers = dict.fromkeys(["states", *figures, "runs", "tokens"], True)
    columns = {"model": False, "row": False, **numbers, "source and remarks": False}
    after = [f"Written by simplepcfg {__version__}."]
    return ResultTable(table.title, columns, cells, CSV_COLUMNS, csv_rows, before, after)


def _line(
    table: PaperTable,
    row: Row,
    language: str,
    records: Sequence[Record],
    seeds: int,
    asked: bool,
    failed: Sequence[SimplePCFGError],
    settings: Sequence[str],
) -> tuple[list[str], tuple[object, ...]]:
    """Return the cells of one row of the paper on one text, and the values of `CSV_COLUMNS`.

    Of these `mean` and `paper` are of the table's metric; perplexity, which every table has, has its own columns.
    """
    reports = [record["report"] for record in records]
    ours, papers, texts = {}, {}, []
    for metric in table.metrics:
        spread, infinite = _spread(metric, reports)
        ours[metric], papers[metric] = spread, row.figure(metric, language)
        digits = 2 if metric == "perplexity" else 1
        texts += [NOTHING if spread is None else spread.format(digits), papers[metric] or NOTHING]
    note = "; ".join(_remarks(table, row, records, infinite, asked, failed, settings))
    runs = len(reports) - (0 if table.on_trees else infinite)
    tokens = reports[0]["perplexity_tokens"] if reports else None
    name = f"{language}: {row.model}" if language else row.model
    shown = f"{runs} of {max(seeds, len(reports))}" if row.configuration else f"{runs}"
    shown = NOTHING if row.quoted and not runs else shown
    remarks = "; ".join(filter(None, [row.source, note]))
    counted = f"{tokens:,}" if tokens else NOTHING
    sentences = reports[0]["sentences"] if reports else None
    values = (
        *(table.name, language, row.name, row.model, row.size, table.metric, *_numbers(ours[table.metric]), runs),
        *(sentences or "", tokens or "", papers[table.metric], row.source, note),
        *(*_numbers(ours["perplexity"]), papers["perplexity"]),
    )
    return [name, row.name, row.size or NOTHING, *texts, shown, counted, remarks], values


def _spread(metric: str, reports: Sequence[Record]) -> tuple[Spread | None, int]:
    """Return mean and deviation over the runs of finite perplexity, and the number of those that are left out."""
    possible = [report for report in reports if metric != "perplexity" or not report["impossible_sentences"]]
    values = [report[metric] for report in possible] or [math.inf for _ in reports]
    return Spread.of(values), len(reports) - len(possible) if possible else 0


def _numbers(spread: Spread | None) -> tuple[float | None, float | None]:
    return (None, None) if spread is None else (spread.mean, spread.deviation)


def _remarks(
    table: PaperTable,
    row: Row,
    records: Sequence[Record],
    infinite: int,
    asked: bool,
    failed: Sequence[SimplePCFGError],
    settings: Sequence[str],
) -> Iterator[str]:
    """Yield remarks on our figures, or on why there are none; `infinite` runs are not in the mean perplexity."""
    if row.recipe_of:
        yield f"our recipe; the row {row.recipe_of} has the settings of what was published"
    if row.remark:
        yield row.remark
    if row.configuration and row.config is None:
        yield f"the configuration {row.configuration} is not installed"
    elif failed:
        yield f"failed: {failed[0]}"
    elif not records and not row.quoted:
        yield "not finished" if asked else "not asked for"
    if records and settings and row.configuration:
        yield "trained with other settings than the paper's"
    if any(record["report"].get("likelihood") == POSTERIOR_MEAN for record in records):
        yield f"our perplexity is by the {POSTERIOR_MEAN}"
    if infinite:
        mean = "the mean perplexity" if table.on_trees else "the mean"
        yield f"not in {mean}: {infinite} of {len(records)} runs, whose perplexity is infinite"
