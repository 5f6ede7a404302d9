"""Scores of runs beside baselines: a sentence, the table, F1 by length, recall by label."""

from __future__ import annotations

from simplepcfg.drawing import grouped_bars
from simplepcfg.evaluation.report import EvaluationReport
from simplepcfg.evaluation.treebank import BASELINES
from simplepcfg.reports.measured import Measured
from simplepcfg.reports.page import Figure, Table

LABELS = 10


def score_table(measured: Measured) -> Table:
    """Return a table with one row a system."""
    rows = [
        [name, _number(report.sentence_f1), _number(report.corpus_f1), _perplexity(report)]
        for name, report in measured.reports.items()
    ]
    return Table(["", "sentence F1", "corpus F1", "perplexity"], rows)


def length_figure(measured: Measured) -> Figure:
    """Draw sentence F1 of sentences of similar length."""
    with_f1 = {name: report.f1 for name, report in measured.reports.items() if report.f1 is not None}
    sizes = next(iter(with_f1.values())).by_length
    kept = [index for index, bucket in enumerate(sizes) if bucket.sentences]
    groups = [f"{sizes[index].name} words" for index in kept]
    series = [(name, [f1.by_length[index].sentence_f1 for index in kept]) for name, f1 in with_f1.items()]
    svg = grouped_bars(groups, series, value_label="sentence F1", label="sentence F1 by length", most=100)
    counts = ", ".join(f"{sizes[index].sentences:,} of {sizes[index].name}" for index in kept)
    return Figure("f1-by-length", svg, f"Sentence F1 by the number of words; sentences: {counts}.")


def label_figure(measured: Measured) -> Figure:
    """Draw the recall of gold constituents by their label."""
    with_f1 = {name: report.f1 for name, report in measured.reports.items() if report.f1 is not None}
    labels = [item.label for item in next(iter(with_f1.values())).recall_by_label[:LABELS]]
    series = []
    for name, f1 in with_f1.items():
        recall = {item.label: item.recall for item in f1.recall_by_label}
        series.append((name, [recall.get(label) for label in labels]))
    svg = grouped_bars(labels, series, value_label="recall (%)", label="recall by gold label", most=100)
    caption = "Share of gold constituents that are found, by label; the induced trees are compared without labels."
    return Figure("recall-by-label", svg, caption)


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.1f}"


def _perplexity(report: EvaluationReport) -> str:
    return "–" if report.perplexity is None else f"{report.perplexity.perplexity:,.2f}"


def summary(name: str, measured: Measured) -> str:
    """Return what the trees of a run are worth beside those that need no grammar, in a sentence."""
    own = measured.runs[name].report.sentence_f1 or 0.0
    known = {each: measured.reports[each].sentence_f1 or 0.0 for each in BASELINES}
    oracle = known.pop("oracle")
    best = max(known, key=lambda each: known[each])
    where = f"{abs(own - known[best]):.1f} {'above' if own >= known[best] else 'below'} the best baseline"
    return (
        f"{name}: sentence F1 {own:.1f} on {len(measured.trees):,} trees, {where} ({best}, {known[best]:.1f}); no "
        f"binary tree can reach more than {oracle:.1f}."
    )
