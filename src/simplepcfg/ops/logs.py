"""Logarithms of probabilities that may be 0: -inf, with gradients of 0 there in place of NaN."""

import math

import torch
from torch import Tensor


def safe_log(x: Tensor) -> Tensor:
    """log with log 0 = -inf and a gradient of 0 there, in place of 0/0."""
    zero = x == 0
    return torch.where(zero, torch.ones_like(x), x).log().masked_fill(zero, -math.inf)


def safe_logsumexp(x: Tensor, dim: int) -> Tensor:
    """logsumexp whose gradient is 0, not NaN, where every term is -inf."""
    scale = x.detach().amax(dim, keepdim=True)
    scale = torch.where(scale.isfinite(), scale, torch.zeros_like(scale))
    return safe_log((x - scale).exp().sum(dim)) + scale.squeeze(dim)
