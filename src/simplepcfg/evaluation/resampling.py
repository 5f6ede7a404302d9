"""Bootstrap intervals and randomisation tests over sentences.

Every measure is a function of sums over sentences, so that it can be recomputed from any selection of them. A system
may be several runs; each sentence then has the mean over the runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from simplepcfg.errors import require_whole
from simplepcfg.evaluation.report import EvaluationReport, Part, part_of

VOCABULARY = "vocabulary.fingerprint"  # of a report; perplexities are comparable over the same vocabulary
F1, SUBTREES, PERPLEXITY = "f1", "dependencies", "perplexity"  # parts of a report
RECALL, CROSSING = "recall of subtrees", "brackets that cross one"  # as tables have it
RESAMPLES = 1000
CONFIDENCE = 0.95
# Number of sentences drawn at a time, which take some tens of megabytes.
DRAWN_AT_ONCE = 2_000_000


@dataclass(frozen=True, slots=True)
class Interval:
    """Interval that contains the middle share `confidence` of a measure's resamples."""

    low: float
    high: float
    confidence: float = CONFIDENCE


@dataclass(frozen=True, slots=True)
class Comparison:
    """Difference system − baseline, with the two-sided p-value of a randomisation test."""

    difference: float
    p_value: float


@dataclass(frozen=True, slots=True)
class Measure:
    """A measure as a function of sums over sentences."""

    name: str
    shown: str  # its name in tables
    part: str  # of a report, which has counts by sentence
    summands: Callable[[Part], tuple[float, ...]]  # of a sentence, from its counts
    of_sums: Callable[[Tensor], Tensor]  # [..., columns] → [...]
    shared: tuple[int, ...]  # columns that depend on the text alone: systems can be compared where these agree
    digits: int = 1  # behind the decimal point, in tables

    def rows(self, report: EvaluationReport) -> tuple[list[int], Tensor] | None:
        """Return the sentences' indices and their summands, [sentences, columns]; None where a report has none."""
        counts = part_of(report, f"{self.part}.by_sentence")
        if not counts or (self.part == SUBTREES and not part_of(report, "dependencies.subtrees")):
            return None
        return [item.place for item in counts], torch.tensor([*map(self.summands, counts)], dtype=torch.float64)


def _corpus_f1(sums: Tensor) -> Tensor:
    """Return 2PR / (P + R), which is twice the hits over gold and predicted spans, and 1 if there are none."""
    hits, predicted, gold = sums.unbind(-1)
    brackets = predicted + gold
    return torch.where(brackets > 0, 200 * hits / brackets, 100.0)


def _share(sums: Tensor) -> Tensor:
    """Return the first column as a share of the second, 0 to 100; 0 where the second is 0."""
    return torch.where(sums[..., 1] > 0, 100 * sums[..., 0] / sums[..., 1], 0.0)


def _mean(sums: Tensor) -> Tensor:
    return sums[..., 0] / sums[..., 1]


def _perplexity(sums: Tensor) -> Tensor:
    return torch.exp(-_mean(sums))


MEASURES = (
    Measure("sentence_f1", "S-F1", F1, lambda c: (100 * c.f1, 1.0, c.gold), _mean, (1, 2)),
    Measure("corpus_f1", "corpus F1", F1, lambda c: (c.hits, c.predicted, c.gold), _corpus_f1, (2,)),
    Measure("subtree_recall", RECALL, SUBTREES, lambda c: (c.hits, c.gold, c.gold), _share, (2,)),
    Measure("crossing_brackets", CROSSING, SUBTREES, lambda c: (c.crossing, c.predicted, c.gold), _share, (2,)),
    Measure("perplexity", PERPLEXITY, PERPLEXITY, lambda c: (c.log_likelihood, c.tokens), _perplexity, (1,), digits=2),
)


def intervals(reports: Sequence[EvaluationReport], *, resamples: int = RESAMPLES, seed: int = 0) -> dict[str, Interval]:
    """Return the 95 % bootstrap interval over sentences of each measure that all `reports` of a system have.

    With several runs it is the interval of their mean; it does not include the variance between runs.
    """
    require_whole("resamples", resamples, 1)
    intervals = {}
    for measure in MEASURES:
        rows = _mean_rows(measure, reports)
        if rows is None:
            continue
        _, values = rows
        draws = _draws(len(values), len(values), resamples, seed)
        drawn = [measure.of_sums(values[chosen].sum(1)) for chosen in draws]
        tails = torch.tensor([(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2], dtype=torch.float64)
        low, high = torch.quantile(torch.cat(drawn), tails, interpolation="nearest").tolist()
        intervals[measure.name] = Interval(low, high)
    return intervals


def compare(
    system: Sequence[EvaluationReport],
    baseline: Sequence[EvaluationReport],
    *,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> dict[str, Comparison]:
    """Test differences between two systems by approximate randomisation over sentences.

    The systems' results are swapped at random, sentence by sentence; p is the two-sided share of swaps, the identity
    included, whose difference is at least the observed one. A measure is left out if a system lacks it or the systems
    were not evaluated on the same sentences and gold spans, and perplexity if their vocabularies differ.
    """
    require_whole("resamples", resamples, 1)
    comparisons = {}
    for measure in MEASURES:
        one, other = _mean_rows(measure, system), _mean_rows(measure, baseline)
        if one is None or other is None or not _same_text(measure, one, other):
            continue
        if measure.part == PERPLEXITY and len({part_of(report, VOCABULARY) for report in (*system, *baseline)}) > 1:
            continue
        a, b = one[1], other[1]
        observed = measure.of_sums(a.sum(0)) - measure.of_sums(b.sum(0))
        # Sums in another order are rounded differently, which must not make an equal difference smaller.
        threshold = observed.abs() * (1 - 1e-12)
        as_large = 0
        for bits in _draws(2, len(a), resamples, seed):
            swapped = bits.bool()[..., None]
            first, second = torch.where(swapped, b, a).sum(1), torch.where(swapped, a, b).sum(1)
            difference = measure.of_sums(first) - measure.of_sums(second)
            as_large += int((difference.abs() >= threshold).sum())
        comparisons[measure.name] = Comparison(float(observed), (1 + as_large) / (1 + resamples))
    return comparisons


def _mean_rows(measure: Measure, reports: Sequence[EvaluationReport]) -> tuple[list[int], Tensor] | None:
    """Return the summands of each sentence, averaged over runs; None if a run lacks them or some are not finite."""
    tables = [measure.rows(report) for report in reports]
    present = [rows for rows in tables if rows is not None]
    if not present or len(present) < len(tables):
        return None
    first = present[0]
    if not all(_same_text(measure, rows, first) for rows in present):
        return None
    values = torch.stack([rows for _, rows in present]).mean(0)
    return (first[0], values) if bool(torch.isfinite(values).all()) else None


def _same_text(measure: Measure, one: tuple[list[int], Tensor], other: tuple[list[int], Tensor]) -> bool:
    columns = list(measure.shared)
    return one[0] == other[0] and torch.equal(one[1][:, columns], other[1][:, columns])


def _draws(choices: int, sentences: int, resamples: int, seed: int) -> Iterator[Tensor]:
    """Yield a number below `choices` for each sentence of each resample, [resamples, sentences], some at a time."""
    generator = torch.Generator().manual_seed(seed)
    size = max(1, DRAWN_AT_ONCE // sentences)
    for start in range(0, resamples, size):
        yield torch.randint(choices, (min(size, resamples - start), sentences), generator=generator)
