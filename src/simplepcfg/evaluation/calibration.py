"""Calibration of span marginals: of the spans with probability 0.8, how many are gold constituents?"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean

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
    spans: list[list[tuple[float, bool]]] = [[] for _ in range(bins)]  # probability, and whether gold has the span
    for tree, table in zip(gold, marginals, strict=True):
        truth, rows = evaluation_spans(tree), table.tolist()
        for i, j in combinations(range(len(tree) + 1), 2):
            if 1 < j - i < len(tree):
                probability = min(max(rows[i][j], 0.0), 1.0)
                spans[min(int(probability * bins), bins - 1)].append((probability, (i, j) in truth))
    filled = [CalibrationBin(len(some), *map(fmean, zip(*some, strict=True))) for some in spans if some]
    total = sum(item.spans for item in filled)
    error = sum(item.spans * abs(item.probability - item.share) for item in filled) / total if total else 0.0
    return Calibration(tuple(filled), error)
