"""A prior over trees, as log-weights of their spans: from a branching bias, from teachers, or from both."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from simplepcfg.data.batching import pinned, to_device


@dataclass(frozen=True, slots=True)
class SpanPrior:
    """Log-weights of the spans of a batch, and a bound of what a tree can gain by them.

    The loss of a sentence is −log Σ p(x, t) exp(Σ bonus of the spans of t) + most, which is at least −log p(x).
    """

    bonus: Tensor  # [B, n + 1, n + 1]
    most: Tensor  # [B]: at least the largest sum of bonuses that a tree of the sentence has

    def __add__(self, other: SpanPrior) -> SpanPrior:
        """Return the product of both priors."""
        return SpanPrior(self.bonus + other.bonus, self.most + other.most)

    def to(self, device: torch.device, dtype: torch.dtype | None = None) -> SpanPrior:
        """Return the prior on a device, without waiting for the copy; None keeps the dtype."""
        tensors = (self.bonus, self.most) if dtype is None else (self.bonus.to(dtype), self.most.to(dtype))
        return SpanPrior(*(to_device(tensor, device) for tensor in tensors))

    def copy_(self, other: SpanPrior) -> None:
        """Overwrite the tensors by those of another prior of the same shape, without waiting for the copy."""
        for mine, new in ((self.bonus, other.bonus), (self.most, other.most)):
            mine.copy_(pinned(new, mine.device), non_blocking=True)


def branching_prior(weight: float, n: int, lengths: Tensor) -> SpanPrior:
    """Return the prior of a branching bias for sentences with lengths [B] in a batch of width n, on the CPU.

    A positive `weight` is given to spans that end the sentence; the absolute value of a negative one to spans that
    begin it. A purely right- or left-branching tree has one such span of each width.
    """
    bonus = torch.zeros(len(lengths), n + 1, n + 1)
    if weight > 0:
        bonus.scatter_(2, lengths.view(-1, 1, 1).expand(-1, n + 1, 1), weight)
    else:
        bonus[:, 0] = -weight
    return SpanPrior(bonus, abs(weight) * (lengths - 1))
