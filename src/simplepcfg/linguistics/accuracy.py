"""Shares of items that a model gets right, with intervals: of one set of items, and the mean over sets."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

# Sums in 32 bits differ by about this much (nats) when the same sentence is computed in another batch.
TIE = 1e-4
# The quantile of the normal distribution for 95 %.
Z = 1.959963984540054
SUMS = ("items", "correct", "ties", "unknown_items")  # of means, sums over their sets
SET, GROUP, MEAN = "set", "group", "mean"


@dataclass(frozen=True, slots=True)
class Judgement:
    """One item: right or not, whether two sides that had to differ are equal, whether a word of it is unknown."""

    correct: bool
    tie: bool
    unknown: bool


@dataclass(frozen=True, slots=True)
class Accuracy:
    """The share of items that a model gets right, with its 95 % interval. A tie is wrong.

    `level` is "set" for a paradigm or suite, "group" for the mean over the sets of one kind, "mean" for that over all
    sets that are `counted`; of means, `items`, `correct`, `ties` and `unknown_items` are sums over their sets.
    """

    model: str
    level: str
    name: str
    group: str | None
    counted: bool
    items: int
    correct: int
    accuracy: float  # 0 to 1
    low: float
    high: float
    ties: int
    unknown_items: int
    unknown_share: float
    known_accuracy: float | None  # of the items all of whose words are known; None if there is none


def accuracy_of_set(
    model: str, name: str, judgements: Sequence[Judgement], group: str | None = None, counted: bool = True
) -> Accuracy:
    """Compute the accuracy on one set of items, with Wilson's interval."""
    items, correct = len(judgements), sum(item.correct for item in judgements)
    low, high = wilson_interval(correct, items)
    unknown = sum(item.unknown for item in judgements)
    return Accuracy(
        model=model,
        level=SET,
        name=name,
        group=group,
        counted=counted,
        items=items,
        correct=correct,
        accuracy=correct / items,
        low=low,
        high=high,
        ties=sum(item.tie for item in judgements),
        unknown_items=unknown,
        unknown_share=unknown / items,
        known_accuracy=_average([item.correct for item in judgements if not item.unknown]),
    )


def with_means(sets: Sequence[Accuracy], over_groups: bool = False) -> list[Accuracy]:
    """Return the sets of one model, then the mean of each group that has two sets or more, then the mean over all.

    In the mean over all every set has the same weight or, with `over_groups`, every group.
    """
    counted = [item for item in sets if item.counted]
    groups: dict[str, list[Accuracy]] = {}
    for item in counted:
        groups.setdefault(item.name if item.group is None else item.group, []).append(item)
    accuracies = list(sets)
    if 1 < len(groups) < len(counted):
        accuracies += [_mean([[item] for item in each], GROUP, name) for name, each in groups.items() if len(each) > 1]
    units = list(groups.values()) if over_groups else [[item] for item in counted]
    if len(units) > 1:
        accuracies.append(_mean(units, MEAN, f"mean of {len(units)}"))
    return accuracies


def wilson_interval(correct: int, items: int) -> tuple[float, float]:
    """Compute the 95 % score interval of a share (Wilson 1927): within 0 and 1 also where the share is at an end."""
    share, inflation = correct / items, Z * Z / items
    centre = (share + inflation / 2) / (1 + inflation)
    half = Z * math.sqrt(share * (1 - share) / items + inflation / (4 * items)) / (1 + inflation)
    return max(0.0, centre - half), min(1.0, centre + half)


def _mean(units: Sequence[Sequence[Accuracy]], level: str, name: str) -> Accuracy:
    """Compute the mean over units of their sets' means; the interval is about other items of the given sets.

    A set's standard error is half the width of its interval, divided by the normal quantile. Sets of one unit may judge
    the same items, so that a unit has the largest error of its sets.
    """
    mean = _average([_average([item.accuracy for item in unit]) for unit in units]) or 0.0
    widths = (max(item.high - item.low for item in unit) for unit in units)
    half = math.sqrt(sum((width / 2) ** 2 for width in widths)) / len(units)
    members = [item for unit in units for item in unit]
    sums = {name: sum(getattr(item, name) for item in members) for name in SUMS}
    return replace(
        members[0],
        level=level,
        name=name,
        group=name if level == GROUP else None,
        accuracy=mean,
        low=max(0.0, mean - half),
        high=min(1.0, mean + half),
        unknown_share=sums["unknown_items"] / sums["items"],
        known_accuracy=_average([_average([item.known_accuracy for item in unit]) for unit in units]),
        **sums,
    )


def _average(values: Sequence[float | None]) -> float | None:
    """Return the mean of those values that are there, or None if there are none."""
    present = [value for value in values if value is not None]
    return sum(present) / len(present) if present else None
