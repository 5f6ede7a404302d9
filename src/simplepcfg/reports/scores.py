"""Scores of runs beside baselines: five lines in words, the table, F1 by length, recall by label, calibration."""

from __future__ import annotations

from simplepcfg.drawing import Series, grouped_bars, line_plot
from simplepcfg.evaluation.report import EvaluationReport
from simplepcfg.reports.measured import Measured, MeasuredRun
from simplepcfg.reports.page import Figure, Table

LABELS = 10
FEWEST = 20  # constituents or sentences that a statement needs
CONFIDENT = 0.9


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


def calibration_figure(measured: Measured) -> Figure:
    """Draw span probabilities against how often such spans are gold constituents."""
    series = [
        Series(name, [(item.probability, item.share) for item in run.calibration.bins])
        for name, run in measured.runs.items()
    ]
    svg = line_plot(
        series,
        x_label="span probability",
        y_label="share of gold constituents",
        label="calibration of span probabilities",
        unit_square=True,
    )
    errors = ", ".join(f"{name} {run.calibration.error:.3f}" for name, run in measured.runs.items())
    caption = (
        "Spans in ten groups by probability; on the dashed line probabilities mean what they say. "
        f"Expected calibration error: {errors}. Gold trees that are flatter than binary ones have fewer spans than any "
        "induced tree."
    )
    return Figure("calibration", svg, caption)


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.1f}"


def _perplexity(report: EvaluationReport) -> str:
    return "–" if report.perplexity is None else f"{report.perplexity.perplexity:,.2f}"


def five_lines(name: str, measured: Measured) -> list[str]:
    """Return statements on F1, length, labels, calibration and symbols of one run with trees."""
    run = measured.runs[name]
    return [
        _against_baselines(run, measured),
        _by_length(run),
        _by_label(run),
        _calibration(run),
        _symbols(run),
    ]


def _against_baselines(run: MeasuredRun, measured: Measured) -> str:
    own = run.report.sentence_f1 or 0.0
    known = {
        name: measured.reports[name].sentence_f1 or 0.0 for name in ("left-branching", "right-branching", "random")
    }
    best = max(known, key=lambda name: known[name])
    difference = own - known[best]
    oracle = measured.reports["oracle"].sentence_f1 or 0.0
    where = f"{abs(difference):.1f} {'above' if difference >= 0 else 'below'} the best baseline"
    return (
        f"Trees: sentence F1 {own:.1f} on {len(measured.trees):,} trees, {where} ({best}, {known[best]:.1f}); no "
        f"binary tree can reach more than {oracle:.1f}."
    )


def _by_length(run: MeasuredRun) -> str:
    assert run.report.f1 is not None
    groups = [group for group in run.report.f1.by_length if group.sentences]
    many = [group for group in groups if group.sentences >= FEWEST]
    groups = many if len(many) > 1 else groups
    best = max(groups, key=lambda group: group.sentence_f1 or 0.0)
    worst = min(groups, key=lambda group: group.sentence_f1 or 0.0)
    if best is worst:
        return f"Length: all sentences have {best.name} words (F1 {best.sentence_f1:.1f})."
    return (
        f"Length: best on sentences of {best.name} words (F1 {best.sentence_f1:.1f}), worst on those of {worst.name} "
        f"words (F1 {worst.sentence_f1:.1f})."
    )


def _by_label(run: MeasuredRun) -> str:
    assert run.report.f1 is not None
    labels = [item for item in run.report.f1.recall_by_label if item.total >= FEWEST]
    labels = labels or list(run.report.f1.recall_by_label)
    if not labels:
        return "Labels: gold has no constituents to find."
    ranked = sorted(labels, key=lambda item: -item.recall)
    best = ", ".join(f"{item.label} ({item.recall:.0f} %)" for item in ranked[:3])
    worst = ", ".join(f"{item.label} ({item.recall:.0f} %)" for item in ranked[3:][::-1][:3])
    return f"Labels: of gold constituents it finds {best} best" + (f", {worst} worst." if worst else ".")


def _calibration(run: MeasuredRun) -> str:
    sure = [item for item in run.calibration.bins if item.probability >= CONFIDENT]
    error = f"expected calibration error {run.calibration.error:.3f}"
    if not sure:
        return f"Confidence: no span has a probability of {CONFIDENT:g} or more ({error})."
    spans = sum(item.spans for item in sure)
    share = sum(item.spans * item.share for item in sure) / spans
    which = f"the {spans:,} spans with a probability of {CONFIDENT:g} or more"
    return f"Confidence: of {which}, {100 * share:.0f} % are gold ({error})."


def _symbols(run: MeasuredRun) -> str:
    if run.labels is None or not run.labels.counts:
        return "Symbols: its trees have none."
    return (
        f"Symbols: {len(run.labels.counts):,} nonterminals are in use; if each stood for its most frequent gold label, "
        f"{100 * run.labels.accuracy:.0f} % of the gold constituents that it finds would have theirs."
    )
