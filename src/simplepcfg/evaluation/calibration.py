"""Calibration of span marginals: of the spans with probability 0.8, how many are gold constituents?"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from torch import Tensor

from simplepcfg.data.trees import SpanTree
from simplepcfg.evaluation.f1 import evaluation_spans


@dataclass(frozen=True, slots=True)
class CalibrationBin:
    """Spans of similar probability: their number, mean probability, and share of gold constituents."""

    spans: int
    probability: float
    share: float


@dataclass(frozen=True, slots=True)
class Calibration:
    """Bins that are not empty, by rising probability, and the expected calibration error over all spans."""

    bins: tuple[CalibrationBin, ...]
    error: float


def calibration(gold: Iterable[SpanTree], marginals: Iterable[Tensor], bins: int = 10) -> Calibration:
    """Compare the span marginals [n + 1, n + 1] of each sentence with its gold spans, in bins of equal width.

    Tables may be padded. The spans are those of F1: wider than a word, narrower than the sentence, without labels.
    """
    counts, sums, hits = [0] * bins, [0.0] * bins, [0] * bins
    for tree, table in zip(gold, marginals, strict=True):
        truth, n = evaluation_spans(tree), len(tree)
        rows = table.tolist()
        for i in range(n):
            for j in range(i + 2, n + 1):
                if j - i == n:
                    continue
                probability = min(max(rows[i][j], 0.0), 1.0)
                place = min(int(probability * bins), bins - 1)
                counts[place] += 1
                sums[place] += probability
                hits[place] += (i, j) in truth
    total = sum(counts)
    filled = [
        CalibrationBin(count, mass / count, hit / count)
        for count, mass, hit in zip(counts, sums, hits, strict=True)
        if count
    ]
    error = sum(item.spans * abs(item.probability - item.share) for item in filled) / total if total else 0.0
    return Calibration(tuple(filled), error)
