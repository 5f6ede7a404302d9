"""The rules in the layouts in which products on a CPU are fastest, computed once for each grammar."""

from collections.abc import Callable
from weakref import ref

import torch
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from simplepcfg.ops.snapshots import Snapshot

# MKL reads rows that begin a multiple of some KiB apart at two thirds of its speed: their elements share few sets of a
# cache. Rows are therefore followed by so many zeros; other libraries copy what they read.
GAP = 16 if torch.backends.mkl.is_available() else 0

# By left rules: the right rules, how both were, and layouts by name. An entry ends with its left rules.
KEPT = WeakTensorKeyDictionary()


def transposed_rules(left: Tensor, right: Tensor) -> Tensor:
    """Return the transpose of [L; R], [(B,) N + P, 2N], which is only read.

    Rows times this matrix, as it lies in memory, take half to a tenth of the time of rows times a transposed view on a
    CPU, depending on their number. There may be gaps between rows. Rules with a batch dimension or on a GPU are
    transposed as a view.
    """
    if left.dim() == 3 or left.device.type != "cpu":
        return torch.cat([left, right], -2).transpose(-1, -2)
    return kept_layout("transposed", left, right, lambda one, other: with_gaps(one.T, other.T))


def with_gaps(*sides: Tensor) -> Tensor:
    """Join matrices with equally many rows, [rows, columns], leaving GAP zeros after each row."""
    gap = sides[0].new_zeros(len(sides[0]), GAP)
    return torch.cat([*sides, gap], -1)[:, : sum(side.shape[1] for side in sides)]


def rows_and_gaps(rows: Tensor) -> Tensor:
    """Return [rows, columns + GAP], the memory of rows that ``with_gaps`` made, which is contiguous."""
    return rows.as_strided((len(rows), rows.stride(0)), (rows.stride(0), 1))


def kept_layout(layout: str, left: Tensor, right: Tensor, compute: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    """Return a tensor that is computed from rules without a batch dimension, and kept until they change."""
    held: tuple[ref[Tensor], Snapshot, dict[str, Tensor]] | None = KEPT.get(left)
    if held is None or held[0]() is not right or not held[1].is_of(left, right):
        held = KEPT[left] = (ref(right), Snapshot(left, right), {})
    if layout not in held[2]:
        held[2][layout] = compute(left.detach(), right.detach())
    return held[2][layout]
