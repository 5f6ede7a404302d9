"""Logarithms of probabilities that may be 0: the value is -inf and the gradient 0 instead of NaN."""

import math

import torch
from torch import Tensor


def safe_log(x: Tensor) -> Tensor:
    """Compute log x, with -inf and a gradient of 0 where x is 0."""
    zero = x == 0
    return torch.where(zero, torch.ones_like(x), x).log().masked_fill(zero, -math.inf)


def log_share(log_part: Tensor, log_whole: Tensor) -> Tensor:
    """Compute the log of a part's share of a whole, −inf where the whole is 0, from logs of probabilities."""
    empty = log_whole == -math.inf
    return (log_part - log_whole.masked_fill(empty, 0.0)).masked_fill(empty, -math.inf)


def safe_logsumexp(x: Tensor, dim: int) -> Tensor:
    """Compute ``x.logsumexp(dim)``, with a gradient of 0 instead of NaN where every term is -inf."""
    scale = x.detach().amax(dim, keepdim=True)
    scale = torch.where(scale.isfinite(), scale, torch.zeros_like(scale))
    return safe_log((x - scale).exp().sum(dim)) + scale.squeeze(dim)
