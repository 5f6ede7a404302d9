"""Baseline trees without a model, as lists of n − 1 spans of two words or more, parents first."""

from __future__ import annotations

from collections.abc import Iterable

import torch

from simplepcfg.data.trees import check_nested
from simplepcfg.errors import InputError


def left_branching(n: int) -> list[tuple[int, int]]:
    """Return the tree over n words in which every right child is a word."""
    return [(0, j) for j in range(_checked(n), 1, -1)]


def right_branching(n: int) -> list[tuple[int, int]]:
    """Return the tree over n words in which every left child is a word."""
    return [(i, n) for i in range(_checked(n) - 1)]


def random_tree(n: int, generator: torch.Generator) -> list[tuple[int, int]]:
    """Return a tree by recursive uniform splits: the field's baseline, which is not uniform over trees."""
    _checked(n)
    draws = iter(torch.rand(n - 1, generator=generator, dtype=torch.float64).tolist())
    spans = []
    waiting = [(0, n)]
    while waiting:
        i, j = waiting.pop()
        if j - i < 2:
            continue
        spans.append((i, j))
        split = i + 1 + int(next(draws) * (j - i - 1))
        waiting += [(split, j), (i, split)]
    return spans


def oracle(gold: Iterable[tuple[int, int]], n: int) -> list[tuple[int, int]]:
    """Return the binary tree with the highest attainable F1: all gold spans, right-branching in flat constituents.

    Every binary tree over n words has equally many spans, so one that contains all gold spans is the best.
    """
    if _checked(n) < 2:
        return []
    nodes = sorted({(0, n), *gold}, key=lambda span: (span[0], -span[1]))
    check_nested(nodes, n)
    spans = []
    starts: list[int] = []  # of complete constituents and words without a parent so far
    shifted = 0
    for i, j in sorted(nodes, key=lambda span: (span[1], -span[0])):
        starts += range(shifted, j)
        shifted = j
        last = starts.pop()
        while last > i:
            last = starts.pop()
            spans.append((last, j))
        starts.append(i)
    return sorted(spans, key=lambda span: (span[0], -span[1]))


def _checked(n: int) -> int:
    if n < 1:
        raise InputError(f"n = {n}; a tree needs at least one word")
    return n
