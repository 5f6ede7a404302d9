"""The same in log space through autograd: the textbook's log-sum-exp, a baseline, and what is differentiated twice."""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from simplepcfg.ops.dense.arguments import DenseArguments
from simplepcfg.ops.logs import safe_log, safe_logsumexp

# log β of the left and right children of each split, [B, spans, splits, X] and […, Y], and which columns of the rules
# they meet: log Σ over splits and pairs, [B, spans, N].
Combine = Callable[[Tensor, Tensor, tuple[slice, slice]], Tensor]


def log_sum_exp_dense_inside(arguments: DenseArguments) -> Tensor:
    """Each sum a log-sum-exp over a materialised tensor, [spans, splits, N, N] and [spans, N, N, N]: a baseline."""
    rules = arguments.rules
    return inside_by(arguments, lambda left, right, block: _log_sum_exp(left, right, rules[..., *block]))


def log_einsum_exp_dense_inside(arguments: DenseArguments) -> Tensor:
    """Scaled by the maximum, pairs by a product over splits, one product with the rules, back to logs."""
    rules = arguments.rules
    return inside_by(arguments, lambda left, right, block: _log_einsum_exp(left, right, rules[..., *block]))


def _log_sum_exp(left: Tensor, right: Tensor, block: Tensor) -> Tensor:
    """log Σ over splits and pairs: left [B, spans, splits, X], right [.., Y], block [(B,) N, X, Y] → [B, spans, N]."""
    pairs = safe_logsumexp(left[..., :, None] + right[..., None, :], 2)  # [B, spans, X, Y]
    return safe_logsumexp((safe_log(block).unsqueeze(-4) + pairs.unsqueeze(2)).flatten(-2), -1)


def _log_einsum_exp(left: Tensor, right: Tensor, block: Tensor) -> Tensor:
    """The same, with matrix products for the sums."""
    pairs, scale = scaled_pairs(left, right)
    return safe_log(torch.matmul(pairs, block.flatten(-2).transpose(-1, -2))) + scale


def scaled_pairs(left: Tensor, right: Tensor) -> tuple[Tensor, Tensor]:
    """Σ over splits of pairs of children, [B, spans, X·Y], and the logs of what was divided out, [B, spans, 1]."""
    left_best, right_best = (logs.detach().amax(-1, keepdim=True) for logs in (left, right))
    splits = left_best + right_best  # [B, spans, splits, 1]
    scale = _finite(splits.amax(2, keepdim=True))
    left = (left - _finite(left_best) + (splits - scale)).exp()
    right = (right - _finite(right_best)).exp()
    return torch.matmul(left.transpose(-1, -2), right).flatten(-2), scale.squeeze(-1)


def log_einsum_exp_chart(arguments: DenseArguments) -> dict[int, Tensor]:
    """log β of all spans by width, [B, spans, N], and of words, [B, n, P]."""
    rules = arguments.rules
    return _chart(arguments, lambda left, right, block: _log_einsum_exp(left, right, rules[..., *block]))


def inside_by(arguments: DenseArguments, combine: Combine) -> Tensor:
    """log Z [B] with a way of its own to combine children by the rules."""
    batch, n, _, _ = arguments.sizes
    lengths, words = arguments.lengths_on_device, arguments.log_emissions
    if n == 1:
        return (words.nan_to_num(0.0, 0.0, 0.0).sum((1, 2)) * 0.0) - math.inf
    beta = _chart(arguments, combine)
    rows = torch.stack([beta[width][:, 0] for width in range(2, n + 1)], 1)  # [B, n - 1, N]
    ends = torch.full((batch,), n, device=words.device) if lengths is None else lengths
    top = rows[torch.arange(batch, device=words.device), (ends - 2).clamp(min=0)]
    top = top.masked_fill((ends < 2)[:, None], -math.inf)
    return safe_logsumexp(top + safe_log(arguments.root), -1)


def _chart(arguments: DenseArguments, combine: Combine) -> dict[int, Tensor]:
    _, n, split, _ = arguments.sizes
    lengths, words = arguments.lengths_on_device, arguments.log_emissions
    if lengths is not None:
        beyond = torch.arange(n, device=words.device) >= lengths[:, None]
        words = words.masked_fill(beyond[:, :, None], -math.inf)
    states, tags = slice(split), slice(split, None)
    beta = {1: words}  # by width: [B, spans, P or N]
    for width in range(2, n + 1):
        spans = n - width + 1
        # A child of one word is a preterminal, a wider one a nonterminal: four kinds of pairs, each with its splits.
        kinds = [((tags, tags), [1])] if width == 2 else [((tags, states), [1]), ((states, tags), [width - 1])]
        if width > 3:
            kinds.append(((states, states), list(range(2, width - 1))))
        found = []
        for columns, splits in kinds:
            left = torch.stack([beta[k][:, :spans] for k in splits], 2)
            right = torch.stack([beta[width - k][:, k : k + spans] for k in splits], 2)
            found.append(combine(left, right, columns))
        total = safe_logsumexp(torch.stack(found), 0)
        if arguments.span_bonus is not None:
            total = total + torch.diagonal(arguments.span_bonus, width, 1, 2)[..., None]
        beta[width] = total
    return beta


def _finite(logs: Tensor) -> Tensor:
    """0 in place of -inf, so that no difference of two is NaN."""
    return torch.where(logs == -math.inf, torch.zeros_like(logs), logs)
