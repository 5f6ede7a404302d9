"""The dense inside algorithm in log space, differentiated by autograd: two baselines, and second derivatives."""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from simplepcfg.ops.dense.arguments import DenseArguments
from simplepcfg.ops.logs import safe_log, safe_logsumexp

# A function that combines children: from log β of the left and right children of each split, [B, spans, splits, X] and
# […, Y], and the block of rules for them, to log Σ over splits and pairs, [B, spans, N].
Combine = Callable[[Tensor, Tensor, tuple[slice, slice]], Tensor]


def log_sum_exp_dense_inside(arguments: DenseArguments) -> Tensor:
    """Compute log Z by log-sum-exp over materialised tensors [spans, splits, N, N] and [spans, N, N, N]."""
    rules = arguments.rules
    return inside_by(arguments, lambda left, right, block: _log_sum_exp(left, right, rules[..., *block]))


def log_einsum_exp_dense_inside(arguments: DenseArguments) -> Tensor:
    """Compute log Z by the log-einsum-exp trick, with matrix products of exponentials relative to the maximum."""
    rules = arguments.rules
    return inside_by(arguments, lambda left, right, block: _log_einsum_exp(left, right, rules[..., *block]))


def _log_sum_exp(left: Tensor, right: Tensor, block: Tensor) -> Tensor:
    """Combine left [B, spans, splits, X] and right [.., Y] by block [(B,) N, X, Y], by log-sum-exp: [B, spans, N]."""
    pairs = safe_logsumexp(left[..., :, None] + right[..., None, :], 2)  # [B, spans, X, Y]
    return safe_logsumexp((safe_log(block).unsqueeze(-4) + pairs.unsqueeze(2)).flatten(-2), -1)


def _log_einsum_exp(left: Tensor, right: Tensor, block: Tensor) -> Tensor:
    """Combine children as ``_log_sum_exp`` does, by matrix products."""
    pairs, scale = scaled_pairs(left, right)
    return safe_log(torch.matmul(pairs, block.flatten(-2).transpose(-1, -2))) + scale


def scaled_pairs(left: Tensor, right: Tensor) -> tuple[Tensor, Tensor]:
    """Compute Σ over splits of pairs of children, [B, spans, X·Y], and the log of their scale, [B, spans, 1]."""
    left_best, right_best = (logs.detach().amax(-1, keepdim=True) for logs in (left, right))
    splits = left_best + right_best  # [B, spans, splits, 1]
    scale = _finite(splits.amax(2, keepdim=True))
    left = (left - _finite(left_best) + (splits - scale)).exp()
    right = (right - _finite(right_best)).exp()
    return torch.matmul(left.transpose(-1, -2), right).flatten(-2), scale.squeeze(-1)


def log_einsum_exp_chart(arguments: DenseArguments) -> dict[int, Tensor]:
    """Compute log β of all spans by width, [B, spans, N], and of words, [B, n, P]."""
    rules = arguments.rules
    return _chart(arguments, lambda left, right, block: _log_einsum_exp(left, right, rules[..., *block]))


def inside_by(arguments: DenseArguments, combine: Combine) -> Tensor:
    """Compute log Z [B], where ``combine`` combines children by the rules."""
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
        # A child of one word is a preterminal and a wider one a nonterminal, which gives four kinds of pairs.
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
    """Replace -inf by 0, so that no difference is NaN."""
    return torch.where(logs == -math.inf, torch.zeros_like(logs), logs)
