"""Results as flat CSV tables, with one row for each system or for each sentence."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Iterator, Sequence

from simplepcfg.evaluation.columns import Column
from simplepcfg.evaluation.report import EvaluationReport

SENTENCE_COLUMNS = ("system", "sentence", "words", "f1", "log_probability_nats", "unknown_words")
SYSTEM_COLUMNS = (
    "name",
    "sentences",
    "tokens",
    "sentence_f1",
    "corpus_f1",
    "perplexity",
    "log_likelihood_nats",
    "perplexity_tokens",
    "perplexity_convention",
    "vocabulary_size",
    "unknown_words",
    "unknown_share",
    "impossible_sentences",
    "subtree_recall",
    "crossing_brackets",
    "open_perplexity",
    "character_perplexity",
    "characters",
)


def sentence_rows(columns: Sequence[Column]) -> Iterator[tuple[object, ...]]:
    """Yield one row for each report and sentence of two words or more; sentences count from 1, F1 is 0 to 100.

    A value that does not apply is None. A sentence of probability 0 has the log-probability -inf.
    """
    for column in columns:
        for report in column.reports:
            yield from _rows_of(report, report.name if column.grouped else column.name)


def _rows_of(report: EvaluationReport, name: str) -> Iterator[tuple[object, ...]]:
    f1 = {item.place: item for item in report.f1.by_sentence} if report.f1 else {}
    likelihood = {item.place: item for item in report.perplexity.by_sentence} if report.perplexity else {}
    unknown = dict(report.vocabulary.by_sentence) if report.vocabulary else {}
    for place in sorted(f1.keys() | likelihood.keys()):
        yield (
            name,
            place + 1,
            # By both conventions of perplexity, the last token of a sentence is its end.
            f1[place].words if place in f1 else likelihood[place].tokens - 1,
            round(100 * f1[place].f1, 4) if place in f1 else None,
            likelihood[place].log_likelihood if place in likelihood else None,
            unknown.get(place),
        )


def system_rows(columns: Sequence[Column]) -> Iterator[tuple[object, ...]]:
    """Yield one row for each report, those of groups included."""
    for column in columns:
        for report in column.reports:
            values = report.to_dict() | ({} if column.grouped else {"name": column.name})
            yield tuple(values[name] for name in SYSTEM_COLUMNS)


def as_csv(header: Sequence[str], rows: Iterable[Sequence[object]], delimiter: str = ",") -> str:
    """Return the text of a CSV file with a header, empty cells for None, and numbers in full precision."""
    stream = io.StringIO()
    writer = csv.writer(stream, delimiter=delimiter, lineterminator="\n")
    writer.writerow(header)
    writer.writerows([_cell(value) for value in row] for row in rows)
    return stream.getvalue()


def _cell(value: object) -> object:
    if value is None:
        return ""
    return "-inf" if isinstance(value, float) and value == -math.inf else value
