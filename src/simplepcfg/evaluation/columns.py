"""Columns of a table of results: one run, or a group of runs with mean and standard deviation."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace

from simplepcfg.errors import InputError
from simplepcfg.evaluation.report import EvaluationReport, part_of
from simplepcfg.evaluation.resampling import MEASURES, RESAMPLES, VOCABULARY, Comparison, Interval, compare, intervals

OTHER_VOCABULARY = "other vocabulary"


@dataclass(frozen=True, slots=True)
class Spread:
    """Mean and sample standard deviation over runs; a single run has no deviation."""

    mean: float
    deviation: float | None

    @classmethod
    def of(cls, values: Iterable[float | None]) -> Spread | None:
        """Summarise the values that are not None or NaN; None if there are none, infinite if one is."""
        numbers = [value for value in values if value is not None and not math.isnan(value)]
        if not numbers:
            return None
        if any(math.isinf(value) for value in numbers):
            return cls(math.inf, None)
        return cls(statistics.fmean(numbers), statistics.stdev(numbers) if len(numbers) > 1 else None)

    def format(self, digits: int = 1) -> str:
        """Return text such as "65.1 ± 2.1"."""
        text = f"{self.mean:,.{digits}f}"
        return text if self.deviation is None else f"{text} ± {self.deviation:,.{digits}f}"


@dataclass(frozen=True, slots=True)
class Column:
    """The report of one run, or those of a group of runs, with optional intervals and comparisons."""

    name: str
    reports: tuple[EvaluationReport, ...]
    grouped: bool = False
    intervals: Mapping[str, Interval] = field(default_factory=dict)
    comparisons: Mapping[str, Comparison] = field(default_factory=dict)
    compared_with: str | None = None
    other_vocabulary: bool = False  # its vocabulary differs from that of the column it is compared with

    def to_dict(self) -> dict[str, object]:
        """Return plain values for JSON: the numbers of a run, or mean, deviation and members of a group."""
        values = self._group_dict() if self.grouped else self.reports[0].to_dict() | {"name": self.name}
        if self.intervals:
            values["intervals"] = {name: asdict(interval) for name, interval in self.intervals.items()}
        if self.compared_with is not None:
            comparisons = {name: asdict(comparison) for name, comparison in self.comparisons.items()}
            remark = {"remark": f"perplexity: {OTHER_VOCABULARY}, not comparable"} if self.other_vocabulary else {}
            values["comparison"] = {"with": self.compared_with, **comparisons, **remark}
        return values

    def _group_dict(self) -> dict[str, object]:
        runs = [report.to_dict() for report in self.reports]
        spreads = {measure.name: Spread.of(run[measure.name] for run in runs) for measure in MEASURES}
        if any(run["impossible_sentences"] for run in runs):
            spreads["perplexity"] = None
        return {
            "name": self.name,
            "runs": len(runs),
            **{name: spread.mean if spread else None for name, spread in spreads.items()},
            "standard_deviation": {name: spread.deviation if spread else None for name, spread in spreads.items()},
            "members": runs,
        }


def with_intervals(columns: Sequence[Column], *, resamples: int = RESAMPLES) -> list[Column]:
    """Return the columns, each with its bootstrap intervals."""
    return [replace(column, intervals=intervals(column.reports, resamples=resamples)) for column in columns]


def with_comparisons(columns: Sequence[Column], baseline: str, *, resamples: int = RESAMPLES) -> list[Column]:
    """Return the columns, each but the baseline with the p-values of its differences from the baseline.

    Raises InputError if no column is called `baseline`.
    """
    names = [column.name for column in columns]
    require_column(baseline, names)
    chosen = columns[names.index(baseline)]
    return [
        column
        if column is chosen
        else replace(
            column,
            comparisons=compare(column.reports, chosen.reports, resamples=resamples),
            compared_with=baseline,
            other_vocabulary=len(_vocabularies([column, chosen])) > 1,
        )
        for column in columns
    ]


def vocabulary_remark(columns: Sequence[Column]) -> str | None:
    """Return a warning if the columns have perplexities over different vocabularies, else None."""
    if len(_vocabularies(columns)) < 2:
        return None
    return (
        "the perplexities are over different vocabularies, so they are not comparable (see the shares of <unk>); "
        "train on the same text, with the same validation text"
    )


def _vocabularies(columns: Sequence[Column]) -> set[str]:
    reports = [report for column in columns for report in column.reports if report.perplexity]
    return {part_of(report, VOCABULARY) for report in reports} - {None}


def require_column(baseline: str, names: Sequence[str]) -> None:
    """Raise InputError if `baseline` is not among the names, or the only one."""
    if baseline not in names:
        raise InputError(f"comparison with {baseline}: no column has this name; take one of {', '.join(names)}")
    if len(names) < 2:
        raise InputError(f"comparison with {baseline}: there is nothing beside it; name a second system")
