"""Weights of the runs of an ensemble by their agreement with each other, without gold trees."""

from __future__ import annotations

import math
from collections.abc import Sequence

from simplepcfg.evaluation.treebank import Spans

WEIGHTS = ("equal", "agreement")


def agreement_weights(trees: Sequence[Sequence[Spans]]) -> list[float]:
    """Return weights that add up to 1, proportional to the mean F1 of each run's trees against those of the others.

    `trees` holds, for each run, the spans of each sentence's tree. F1 is over all sentences together, without the spans
    that every tree has.
    """
    if len(trees) == 1:
        return [1.0]
    inner = [[_inner(spans) for spans in sentences] for sentences in trees]
    means = []
    for number, one in enumerate(inner):
        agreements = [_f1(one, other) for place, other in enumerate(inner) if place != number]
        means.append(sum(agreements) / len(agreements))
    return normalised(means)


def normalised(values: Sequence[float]) -> list[float]:
    """Return the same proportions with the sum 1; equal ones where all are 0."""
    total = math.fsum(values)
    return [value / total for value in values] if total else [1 / len(values)] * len(values)


def _inner(spans: Spans) -> set[tuple[int, int]]:
    """Return the spans without the one over the whole sentence."""
    whole = max((j - i for i, j in spans), default=0)
    return {(i, j) for i, j in spans if j - i < whole}


def _f1(one: Sequence[set[tuple[int, int]]], other: Sequence[set[tuple[int, int]]]) -> float:
    both = sum(len(a & b) for a, b in zip(one, other, strict=True))
    total = sum(map(len, one)) + sum(map(len, other))
    return 2 * both / total if total else 1.0
