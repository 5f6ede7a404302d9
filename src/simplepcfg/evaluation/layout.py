"""Layout of a table of results: the rows with their names and formatted numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from simplepcfg.evaluation.columns import OTHER_VOCABULARY, Column, Spread
from simplepcfg.evaluation.dependency_report import DependencyReport
from simplepcfg.evaluation.f1 import F1Report
from simplepcfg.evaluation.label_report import OwnLabels
from simplepcfg.evaluation.perplexity import OpenVocabulary, PerplexityReport
from simplepcfg.evaluation.report import EvaluationReport
from simplepcfg.evaluation.symbol_labels import SymbolLabels

SHOWN_LABELS = 8
NOTHING = "–"
MEASURE_NAMES = {
    "sentence_f1": "S-F1",
    "corpus_f1": "corpus F1",
    "subtree_recall": "recall of subtrees",
    "crossing_brackets": "brackets that cross one",
    "perplexity": "perplexity",
}

Row = tuple[str, list[str]]
Reports = Sequence[EvaluationReport]


@dataclass(frozen=True, slots=True)
class Section:
    """A heading and the rows below it, a cell for each column."""

    heading: str
    rows: list[Row]


def sections(columns: Sequence[Column]) -> list[Section]:
    """Return the sections of a table with all rows for which at least one column has a number."""
    every = [report for column in columns for report in column.reports]
    parts = [
        Section("F1 (0-100)", _f1_rows(columns)),
        Section("dependency subtrees (0-100)", _subtree_rows(columns)),
        Section("F1 by length", _length_rows(columns, every)),
        Section("recall by label", _label_rows(columns, every)),
        Section("symbols of the most probable trees as gold labels (0-100)", _symbol_rows(columns)),
        Section("language model", _perplexity_rows(columns, every)),
        Section("bootstrap, 95 % interval over sentences", _interval_rows(columns)),
        Section(_comparison_heading(columns), _comparison_rows(columns)),
        Section("data", _data_rows(columns)),
    ]
    shown = [Section(part.heading, [row for row in part.rows if any(c != NOTHING for c in row[1])]) for part in parts]
    return [part for part in shown if part.rows]


def _f1_rows(columns: Sequence[Column]) -> list[Row]:
    return [
        ("sentence F1 (S-F1)", _numbers(columns, lambda report: report.sentence_f1)),
        ("corpus F1", _numbers(columns, lambda report: report.corpus_f1)),
    ]


def _subtree_rows(columns: Sequence[Column]) -> list[Row]:
    def of(value: Callable[[DependencyReport], float | None]) -> list[str]:
        return _numbers(columns, lambda report: value(report.dependencies) if report.dependencies else None)

    return [
        ("recall of subtrees", of(lambda report: report.recall)),
        ("brackets that cross one", of(lambda report: report.crossing)),
    ]


def _length_rows(columns: Sequence[Column], every: Reports) -> list[Row]:
    sizes: dict[str, int] = {}
    for report in every:
        for bucket in report.f1.by_length if report.f1 else ():
            sizes[bucket.name] = max(sizes.get(bucket.name, 0), bucket.sentences)

    def of(name: str) -> Callable[[F1Report], float | None]:
        return lambda f1: next((bucket.sentence_f1 for bucket in f1.by_length if bucket.name == name), None)

    return [(f"{name} words ({count:,})", _f1_numbers(columns, of(name))) for name, count in sizes.items()]


def _label_rows(columns: Sequence[Column], every: Reports) -> list[Row]:
    totals: dict[str, int] = {}
    for report in every:
        for label in report.recall_by_label:
            totals[label.label] = max(totals.get(label.label, 0), label.total)
    frequent = sorted(totals, key=lambda name: (-totals[name], name))[:SHOWN_LABELS]

    def of(name: str) -> Callable[[EvaluationReport], float | None]:
        return lambda report: next((label.recall for label in report.recall_by_label if label.label == name), None)

    return [(f"{name} ({totals[name]:,})", _numbers(columns, of(name))) for name in frequent]


def _symbol_rows(columns: Sequence[Column]) -> list[Row]:
    def phrases(of: Callable[[SymbolLabels], float]) -> list[str]:
        return _numbers(columns, lambda report: 100 * of(report.labels.phrases) if report.labels else None)

    def tags(of: Callable[[SymbolLabels], float]) -> list[str]:
        def percentage(report: EvaluationReport) -> float | None:
            return 100 * of(report.labels.tags) if report.labels and report.labels.tags else None

        return _numbers(columns, percentage)

    def own(of: Callable[[OwnLabels], float | None]) -> list[str]:
        return _numbers(columns, lambda report: of(report.labels.own) if report.labels and report.labels.own else None)

    return [
        ("labelled S-F1 by learned labels", own(lambda labels: labels.sentence_f1)),
        ("labelled corpus F1 by learned labels", own(lambda labels: labels.corpus_f1)),
        ("labelled F1 of all constituents by learned labels", own(lambda labels: labels.bracket_f1)),
        ("tagging accuracy by learned labels", own(lambda labels: labels.tag_accuracy)),
        ("labelled S-F1", _numbers(columns, lambda report: report.labels.sentence_f1 if report.labels else None)),
        ("labelled corpus F1", _numbers(columns, lambda report: report.labels.corpus_f1 if report.labels else None)),
        ("nonterminals: accuracy, many to one", phrases(lambda labels: labels.accuracy)),
        ("nonterminals: homogeneity", phrases(lambda labels: labels.homogeneity)),
        ("nonterminals: completeness", phrases(lambda labels: labels.completeness)),
        ("nonterminals: V-measure", phrases(lambda labels: labels.v_measure)),
        ("preterminals: accuracy, many to one", tags(lambda labels: labels.accuracy)),
        ("preterminals: homogeneity", tags(lambda labels: labels.homogeneity)),
        ("preterminals: completeness", tags(lambda labels: labels.completeness)),
        ("preterminals: V-measure", tags(lambda labels: labels.v_measure)),
    ]


def _perplexity_rows(columns: Sequence[Column], every: Reports) -> list[Row]:
    conventions = {report.perplexity.convention for report in every if report.perplexity}
    counted = f" ({', '.join(sorted(conventions))})" if conventions else ""

    drawn = sorted({report.importance_samples for report in every if report.importance_samples})

    def number(of: Callable[[PerplexityReport], float], digits: int = 1) -> list[str]:
        return _numbers(columns, lambda report: of(report.perplexity) if report.perplexity else None, digits)

    def count(of: Callable[[PerplexityReport], int | None]) -> list[str]:
        return _counts(columns, lambda report: of(report.perplexity) if report.perplexity else None)

    def spelled(of: Callable[[OpenVocabulary], float]) -> list[str]:
        return _numbers(columns, lambda report: of(report.open_vocabulary) if report.open_vocabulary else None, 2)

    return [
        ("perplexity per token", number(lambda item: item.perplexity, 2)),
        (f"tokens it is over{counted}", count(lambda item: item.tokens)),
        (
            "words in the vocabulary beside <unk>",
            _counts(columns, lambda report: report.vocabulary.size if report.vocabulary else None),
        ),
        ("<unk> (% of words)", _numbers(columns, _unknown_percent, 2)),
        ("perplexity per token, unknown words spelled", spelled(lambda item: item.perplexity)),
        ("perplexity per character", spelled(lambda item: item.character_perplexity)),
        ("of log p as", [_inexact(column) for column in columns]),
        *((f"perplexity by {samples} samples of z", _importance_cells(columns, samples)) for samples in drawn),
        ("log-likelihood (nats)", number(lambda item: item.log_likelihood)),
        ("sentences of probability 0", count(lambda item: item.impossible or None)),
        ("one-word sentences left out", count(lambda item: item.skipped_one_word or None)),
    ]


def _unknown_percent(report: EvaluationReport) -> float | None:
    return 100 * report.vocabulary.unknown_share if report.vocabulary else None


def _inexact(column: Column) -> str:
    """Return the name of the quantity that stands for log p where it is not exact."""
    likelihoods = dict.fromkeys(report.likelihood for report in column.reports)
    return ", ".join(text for text in likelihoods if text not in (None, "exact")) or NOTHING


def _importance_cells(columns: Sequence[Column], samples: int) -> list[str]:
    def of(report: EvaluationReport) -> float | None:
        wanted = report.importance if report.importance_samples == samples else None
        return wanted.perplexity if wanted else None

    return _numbers(columns, of, 2)


def _interval_rows(columns: Sequence[Column]) -> list[Row]:
    rows = []
    for name, shown in MEASURE_NAMES.items():
        intervals = [column.intervals.get(name) for column in columns]
        digits = 2 if name == "perplexity" else 1
        cells = [f"{item.low:,.{digits}f} to {item.high:,.{digits}f}" if item else NOTHING for item in intervals]
        rows.append((shown, cells))
    return rows


def _comparison_heading(columns: Sequence[Column]) -> str:
    other = next((column.compared_with for column in columns if column.compared_with is not None), "")
    return f"difference from {other} (p by randomisation over sentences)"


def _comparison_rows(columns: Sequence[Column]) -> list[Row]:
    rows = []
    for name, shown in MEASURE_NAMES.items():
        results = [column.comparisons.get(name) for column in columns]
        digits = 2 if name == "perplexity" else 1
        cells = [f"{item.difference:+,.{digits}f} (p = {item.p_value:.3g})" if item else NOTHING for item in results]
        if name == "perplexity":
            cells = [
                OTHER_VOCABULARY if column.other_vocabulary else cell
                for column, cell in zip(columns, cells, strict=True)
            ]
        rows.append((shown, cells))
    return rows


def _data_rows(columns: Sequence[Column]) -> list[Row]:
    return [
        ("runs", [f"{len(column.reports):,}" if column.grouped else NOTHING for column in columns]),
        ("sentences", _counts(columns, lambda report: report.sentences)),
        ("words after preprocessing", _counts(columns, lambda report: report.tokens)),
        (
            "one-word sentences left out of F1",
            _counts(columns, lambda report: (report.f1.skipped_one_word or None) if report.f1 else None),
        ),
        (
            "subtrees that are counted",
            _counts(columns, lambda report: report.dependencies.subtrees if report.dependencies else None),
        ),
        (
            "words with a subtree in pieces, left out",
            _counts(columns, lambda report: report.dependencies.discontinuous if report.dependencies else None),
        ),
    ]


def _f1_numbers(columns: Sequence[Column], of: Callable[[F1Report], float | None]) -> list[str]:
    return _numbers(columns, lambda report: of(report.f1) if report.f1 else None)


def _numbers(columns: Sequence[Column], of: Callable[[EvaluationReport], float | None], digits: int = 1) -> list[str]:
    spreads = [Spread.of(of(report) for report in column.reports) for column in columns]
    return [NOTHING if spread is None else spread.format(digits) for spread in spreads]


def _counts(columns: Sequence[Column], of: Callable[[EvaluationReport], int | None]) -> list[str]:
    """Return for each column a count, or the smallest and the largest count of a group."""
    cells = []
    for column in columns:
        values = sorted({value for report in column.reports if (value := of(report)) is not None})
        cells.append(" to ".join(f"{value:,}" for value in dict.fromkeys(values[:1] + values[-1:])) or NOTHING)
    return cells
