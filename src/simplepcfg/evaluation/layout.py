"""Layout of a table of results: names and formatted numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from simplepcfg.evaluation.columns import OTHER_VOCABULARY, Column, Spread
from simplepcfg.evaluation.report import EvaluationReport, part_of
from simplepcfg.evaluation.resampling import CROSSING, MEASURES, RECALL
from simplepcfg.evaluation.symbol_labels import SHARES

SHOWN_LABELS = 8
NOTHING = "–"
# Names of rows, and where a report has their numbers.
F1 = {"sentence F1 (S-F1)": "sentence_f1", "corpus F1": "corpus_f1"}
SUBTREES = {RECALL: "dependencies.recall", CROSSING: "dependencies.crossing"}
LABELLED_F1 = {
    "labelled S-F1 by learned labels": "labels.own.sentence_f1",
    "labelled corpus F1 by learned labels": "labels.own.corpus_f1",
    "labelled F1 of all constituents by learned labels": "labels.own.bracket_f1",
    "tagging accuracy by learned labels": "labels.own.tag_accuracy",
    "labelled S-F1": "labels.sentence_f1",
    "labelled corpus F1": "labels.corpus_f1",
}
SYMBOL_SHARES = {
    f"{symbols}: {name}": f"labels.{part}.{measure}"
    for symbols, part in (("nonterminals", "phrases"), ("preterminals", "tags"))
    for measure, name in SHARES.items()
}

Row = tuple[str, list[str]]
Parts = dict[str, tuple[int, float | None]]  # number of items and share of each part of a report
Number = str | Callable[[EvaluationReport], float | None]  # where a report has it, or a function


@dataclass(frozen=True, slots=True)
class Section:
    """A heading and the rows below it, a cell for each column."""

    heading: str
    rows: list[Row]


def sections(columns: Sequence[Column]) -> list[Section]:
    """Return the sections of a table with all rows for which at least one column has a number."""
    symbols = [*_rows(columns, LABELLED_F1), *_rows(columns, SYMBOL_SHARES, factor=100)]
    compared = next((column.compared_with for column in columns if column.compared_with is not None), "")
    parts = [
        Section("F1 (0-100)", _rows(columns, F1)),
        Section("dependency subtrees (0-100)", _rows(columns, SUBTREES)),
        Section("F1 by length", _part_rows(columns, _by_length)),
        Section("recall by label", _part_rows(columns, _by_label, SHOWN_LABELS)),
        Section("symbols of the most probable trees as gold labels (0-100)", symbols),
        Section("language model", _perplexity_rows(columns)),
        Section("bootstrap, 95 % interval over sentences", _measure_rows(columns, _interval)),
        Section(f"difference from {compared} (p by randomisation over sentences)", _measure_rows(columns, _difference)),
        Section("data", _data_rows(columns)),
    ]
    shown = [Section(part.heading, [row for row in part.rows if any(c != NOTHING for c in row[1])]) for part in parts]
    return [part for part in shown if part.rows]


def _by_length(report: EvaluationReport) -> Parts:
    buckets = report.f1.by_length if report.f1 else ()
    return {f"{bucket.name} words": (bucket.sentences, bucket.sentence_f1) for bucket in buckets}


def _by_label(report: EvaluationReport) -> Parts:
    return {label.label: (label.total, label.recall) for label in report.recall_by_label}


def _part_rows(
    columns: Sequence[Column], parts: Callable[[EvaluationReport], Parts], most_frequent: int | None = None
) -> list[Row]:
    """Return a row for each part of the reports, with its items in the report that has most of them."""
    sizes: dict[str, int] = {}
    for column in columns:
        for report in column.reports:
            for name, (size, _) in parts(report).items():
                sizes[name] = max(sizes.get(name, 0), size)
    if most_frequent is not None:
        frequent = sorted(sizes.items(), key=lambda item: (-item[1], item[0]))
        sizes = dict(frequent[:most_frequent])

    def share(name: str) -> Number:
        return lambda report: parts(report).get(name, (0, None))[1]

    return [(f"{name} ({size:,})", _numbers(columns, share(name))) for name, size in sizes.items()]


def _perplexity_rows(columns: Sequence[Column]) -> list[Row]:
    reports = [report for column in columns for report in column.reports]
    conventions = {report.perplexity.convention for report in reports if report.perplexity}
    counted = f" ({', '.join(sorted(conventions))})" if conventions else ""
    spelled = {
        "perplexity per token, unknown words spelled": "open_vocabulary.perplexity",
        "perplexity per character": "open_vocabulary.character_perplexity",
    }
    return [
        ("perplexity per token", _numbers(columns, "perplexity.perplexity", 2)),
        (f"tokens counted{counted}", _counts(columns, "perplexity.tokens")),
        ("words in the vocabulary beside <unk>", _counts(columns, "vocabulary.size")),
        ("<unk> (% of words)", _numbers(columns, "vocabulary.unknown_share", 2, factor=100)),
        *_rows(columns, spelled, 2),
        ("of log p as", [_inexact(column) for column in columns]),
        ("log-likelihood (nats)", _numbers(columns, "perplexity.log_likelihood")),
        ("sentences of probability 0", _counts(columns, "perplexity.impossible", zero=False)),
        ("one-word sentences left out", _counts(columns, "perplexity.skipped_one_word", zero=False)),
    ]


def _inexact(column: Column) -> str:
    """Return the name of the quantity that stands for log p where it is not exact."""
    likelihoods = dict.fromkeys(report.likelihood for report in column.reports)
    return ", ".join(text for text in likelihoods if text not in (None, "exact")) or NOTHING


def _measure_rows(columns: Sequence[Column], cell: Callable[[Column, str, int], str]) -> list[Row]:
    """Return a row for each measure that is resampled."""
    return [(each.shown, [cell(column, each.name, each.digits) for column in columns]) for each in MEASURES]


def _interval(column: Column, name: str, digits: int) -> str:
    interval = column.intervals.get(name)
    return f"{interval.low:,.{digits}f} to {interval.high:,.{digits}f}" if interval else NOTHING


def _difference(column: Column, name: str, digits: int) -> str:
    if name == "perplexity" and column.other_vocabulary:
        return OTHER_VOCABULARY
    result = column.comparisons.get(name)
    return f"{result.difference:+,.{digits}f} (p = {result.p_value:.3g})" if result else NOTHING


def _data_rows(columns: Sequence[Column]) -> list[Row]:
    return [
        ("runs", [f"{len(column.reports):,}" if column.grouped else NOTHING for column in columns]),
        ("sentences", _counts(columns, "sentences")),
        ("words after preprocessing", _counts(columns, "tokens")),
        ("one-word sentences left out of F1", _counts(columns, "f1.skipped_one_word", zero=False)),
        ("subtrees that are counted", _counts(columns, "dependencies.subtrees")),
        ("words with a subtree in pieces, left out", _counts(columns, "dependencies.discontinuous")),
    ]


def _rows(columns: Sequence[Column], named: Mapping[str, str], digits: int = 1, factor: float = 1) -> list[Row]:
    return [(name, _numbers(columns, path, digits, factor)) for name, path in named.items()]


def _numbers(columns: Sequence[Column], of: Number, digits: int = 1, factor: float = 1) -> list[str]:
    """Return for each column a number times a factor, or the mean and deviation of a group."""

    def number(report: EvaluationReport) -> float | None:
        value = part_of(report, of) if isinstance(of, str) else of(report)
        return None if value is None else factor * value

    spreads = [Spread.of(map(number, column.reports)) for column in columns]
    return [NOTHING if spread is None else spread.format(digits) for spread in spreads]


def _counts(columns: Sequence[Column], path: str, zero: bool = True) -> list[str]:
    """Return for each column a count, or the smallest and the largest count of a group; 0 is left out unless `zero`."""
    cells = []
    for column in columns:
        counts = (part_of(report, path) for report in column.reports)
        values = sorted({count for count in counts if count is not None and (count or zero)})
        cells.append(" to ".join(f"{value:,}" for value in dict.fromkeys(values[:1] + values[-1:])) or NOTHING)
    return cells
