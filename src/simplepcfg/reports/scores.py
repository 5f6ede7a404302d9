"""Scores of runs beside baselines: a sentence, the table, F1 by length, recall by label."""

from __future__ import annotations

from simplepcfg.evaluation.report import EvaluationReport
from simplepcfg.evaluation.treebank import BASELINES
from simplepcfg.reports.measured import Measured
from simplepcfg.reports.page import Table

LABELS = 10


def score_table(measured: Measured) -> Table:
    """Return a table with one row a system."""
    rows = [
        [name, _number(report.sentence_f1), _number(report.corpus_f1), _perplexity(report)]
        for name, report in measured.reports.items()
    ]
    return Table(["", "sentence F1", "corpus F1", "perplexity"], rows)


def length_table(measured: Measured) -> Table:
    """Return sentence F1 of sentences of similar length, a column a system."""
    with_f1 = {name: report.f1 for name, report in measured.reports.items() if report.f1 is not None}
    sizes = next(iter(with_f1.values())).by_length
    rows = [
        [f"{size.name} ({size.sentences:,})", *(_number(f1.by_length[index].sentence_f1) for f1 in with_f1.values())]
        for index, size in enumerate(sizes)
        if size.sentences
    ]
    return Table(["words (sentences)", *with_f1], rows)


def label_table(measured: Measured) -> Table:
    """Return the recall of gold constituents by their label, a column a system."""
    with_f1 = {name: report.f1 for name, report in measured.reports.items() if report.f1 is not None}
    recall = {name: {item.label: item.recall for item in f1.recall_by_label} for name, f1 in with_f1.items()}
    labels = next(iter(with_f1.values())).recall_by_label[:LABELS]
    rows = [
        [f"{item.label} ({item.total:,})", *(_number(each.get(item.label)) for each in recall.values())]
        for item in labels
    ]
    return Table(["label (constituents)", *with_f1], rows)


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
