"""What `evaluate` says about one parser or language model, as a JSON object."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from simplepcfg.evaluation.f1 import F1Report
from simplepcfg.evaluation.perplexity import PerplexityReport

if TYPE_CHECKING:
    from rich.table import Table

SHOWN_LABELS = 8
NOTHING = "–"
# What stands for log p where a model has none in closed form; docs/models.md says what that means.
POSTERIOR_MEAN = "ELBO at the posterior mean"


@dataclass(frozen=True, slots=True)
class EvaluationReport:
    """F1 where there are gold trees, perplexity where there is a model; `tokens` are words as prepared."""

    name: str
    sentences: int
    tokens: int
    f1: F1Report | None = None
    perplexity: PerplexityReport | None = None
    likelihood: str | None = None  # what the perplexity is of: "exact", or POSTERIOR_MEAN
    importance: PerplexityReport | None = None  # by importance sampling, where that was asked for
    importance_samples: int | None = None  # for each sentence

    @property
    def sentence_f1(self) -> float | None:
        """Mean F1 over sentences of two words or more, 0 to 100."""
        return self.f1.sentence_f1 if self.f1 else None

    @property
    def corpus_f1(self) -> float | None:
        """Micro-averaged F1, 0 to 100."""
        return self.f1.corpus_f1 if self.f1 else None

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON; null where a number does not apply and for an infinite perplexity."""
        f1, perplexity = self.f1, self.perplexity
        return {
            "name": self.name,
            "sentences": self.sentences,
            "tokens": self.tokens,
            "sentence_f1": self.sentence_f1,
            "corpus_f1": self.corpus_f1,
            "f1_sentences": f1.sentences if f1 else None,
            "f1_skipped_one_word": f1.skipped_one_word if f1 else None,
            "f1_by_length": {
                bucket.name: {"sentences": bucket.sentences, "sentence_f1": bucket.sentence_f1}
                for bucket in (f1.by_length if f1 else ())
            }
            or None,
            "recall_by_label": {
                label.label: {"found": label.found, "total": label.total, "recall": label.recall}
                for label in (f1.recall_by_label if f1 else ())
            }
            or None,
            "log_likelihood": perplexity.log_likelihood if perplexity else None,
            "perplexity": _finite(perplexity.perplexity) if perplexity else None,
            "likelihood": self.likelihood,
            "perplexity_tokens": perplexity.tokens if perplexity else None,
            "perplexity_convention": perplexity.convention if perplexity else None,
            "perplexity_sentences": perplexity.sentences if perplexity else None,
            "perplexity_skipped_one_word": perplexity.skipped_one_word if perplexity else None,
            "impossible_sentences": perplexity.impossible if perplexity else None,
            "importance_samples": self.importance_samples,
            "importance_log_likelihood": self.importance.log_likelihood if self.importance else None,
            "importance_perplexity": _finite(self.importance.perplexity) if self.importance else None,
        }


def reports_to_json(reports: Sequence[EvaluationReport]) -> dict[str, Any] | list[dict[str, Any]]:
    """One report is an object; several are a list of them, in the order in which they were asked for."""
    values = [report.to_dict() for report in reports]
    return values[0] if len(values) == 1 else values


def report_table(reports: Sequence[EvaluationReport], title: str | None = None) -> Table:
    """A column for each report, a row for each number that at least one of them has."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    # Plain text throughout: a label or a file name may look like rich's markup.
    table = Table(title=Text(title) if title else None, box=box.SIMPLE_HEAD, title_justify="left")
    table.add_column("")
    for report in reports:
        table.add_column(Text(report.name), justify="right")
    for heading, rows in (
        ("F1 (0-100)", _f1_rows(reports)),
        ("F1 by length", _length_rows(reports)),
        ("recall by label", _label_rows(reports)),
        ("language model", _perplexity_rows(reports)),
        ("data", _data_rows(reports)),
    ):
        shown = [(name, cells) for name, cells in rows if any(cell != NOTHING for cell in cells)]
        if not shown:
            continue
        table.add_row(Text(heading, style="bold"))
        for name, cells in shown:
            table.add_row(Text(f"  {name}"), *(Text(cell) for cell in cells))
    return table


Rows = list[tuple[str, list[str]]]


def _f1_rows(reports: Sequence[EvaluationReport]) -> Rows:
    return [
        ("sentence F1 (S-F1)", [_number(report.sentence_f1) for report in reports]),
        ("corpus F1", [_number(report.corpus_f1) for report in reports]),
    ]


def _length_rows(reports: Sequence[EvaluationReport]) -> Rows:
    names = list(dict.fromkeys(bucket.name for report in reports if report.f1 for bucket in report.f1.by_length))
    rows: Rows = []
    for name in names:
        buckets = [
            next((bucket for bucket in report.f1.by_length if bucket.name == name), None) if report.f1 else None
            for report in reports
        ]
        count = max(bucket.sentences for bucket in buckets if bucket)
        rows.append(
            (
                f"{name} words ({count:,})",
                [_number(bucket.sentence_f1 if bucket else None) for bucket in buckets],
            )
        )
    return rows


def _label_rows(reports: Sequence[EvaluationReport]) -> Rows:
    totals: dict[str, int] = {}
    for report in reports:
        for label in report.f1.recall_by_label if report.f1 else ():
            totals[label.label] = max(totals.get(label.label, 0), label.total)
    frequent = sorted(totals, key=lambda name: (-totals[name], name))[:SHOWN_LABELS]
    rows: Rows = []
    for name in frequent:
        recalls = [
            next((label.recall for label in report.f1.recall_by_label if label.label == name), None)
            if report.f1
            else None
            for report in reports
        ]
        rows.append((f"{name} ({totals[name]:,})", [_number(recall) for recall in recalls]))
    return rows


def _perplexity_rows(reports: Sequence[EvaluationReport]) -> Rows:
    found = [report.perplexity for report in reports]
    conventions = {item.convention for item in found if item}
    how = f" ({', '.join(sorted(conventions))})" if conventions else ""
    return [
        ("perplexity per token", [_number(item.perplexity if item else None, 2) for item in found]),
        (f"tokens it is over{how}", [_count(item.tokens if item else None) for item in found]),
        ("of log p as", [_inexact(report.likelihood) for report in reports]),
        *(
            (f"perplexity by {samples} samples of z", [_sampled(report, samples) for report in reports])
            for samples in sorted({report.importance_samples for report in reports if report.importance_samples})
        ),
        ("log-likelihood (nats)", [_number(item.log_likelihood if item else None) for item in found]),
        (
            "sentences of probability 0",
            [_count((item.impossible or None) if item else None) for item in found],
        ),
        (
            "one-word sentences left out",
            [_count((item.skipped_one_word or None) if item else None) for item in found],
        ),
    ]


def _data_rows(reports: Sequence[EvaluationReport]) -> Rows:
    return [
        ("sentences", [_count(report.sentences) for report in reports]),
        ("words after preprocessing", [_count(report.tokens) for report in reports]),
        (
            "one-word sentences left out of F1",
            [_count((report.f1.skipped_one_word or None) if report.f1 else None) for report in reports],
        ),
    ]


def _inexact(likelihood: str | None) -> str:
    return NOTHING if likelihood in (None, "exact") else str(likelihood)


def _sampled(report: EvaluationReport, samples: int | None) -> str:
    wanted = report.importance if report.importance_samples == samples else None
    return _number(wanted.perplexity if wanted else None, 2)


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _number(value: float | None, digits: int = 1) -> str:
    return NOTHING if value is None or math.isnan(value) else f"{value:,.{digits}f}"


def _count(value: int | None) -> str:
    return NOTHING if value is None else f"{value:,}"
