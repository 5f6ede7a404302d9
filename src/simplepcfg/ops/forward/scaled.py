"""The forward and backward recursions in scaled probabilities, with one matrix product for each position."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from simplepcfg.ops.autograd_context import Context, differentiable_gradients
from simplepcfg.ops.forward.arguments import ForwardArguments
from simplepcfg.ops.forward.filtering import filtered_log_p
from simplepcfg.ops.modes import without_modes
from simplepcfg.ops.products import matrix_mode, mm_wide, runs_fused, wide_type

# Derivatives with respect to states of very low probability are clamped to these values, so that nothing overflows.
LARGEST = {torch.float32: 2.0**100, torch.float64: 2.0**490}
LARGEST_LOG = {torch.float32: 80.0, torch.float64: 340.0}


class Alphas(NamedTuple):
    """α of every position, divided by the largest value of each sentence and position, and the logs of these values."""

    alpha: Tensor  # [n, B, S], in the dtype of the products; a sentence that has ended repeats its last α
    best: Tensor  # [n, B]: the largest log-emission of each word; 0 after the end of a sentence
    scales: Tensor  # [n, B]: log of the divisor, in addition to ``best``
    sums: Tensor  # [n, B]: Σ α, before rounding
    between: Tensor | None  # [n, B, r]: α of the previous position times the first factor


def relative_emissions(arguments: ForwardArguments) -> tuple[Tensor, Tensor]:
    """Return log-emissions [B, n, S] minus the largest of each word, and the largest [B, n]."""
    log_emissions = arguments.log_emissions.detach()
    best = log_emissions.amax(-1)
    best = torch.where(best == -torch.inf, 0.0, best)
    return log_emissions - best[..., None], best


def scaled_alphas(arguments: ForwardArguments, factors: tuple[Tensor, ...]) -> Alphas:
    """Compute α(t) = (α(t − 1) T) ⊙ e(t), position by position."""
    (log_emissions, best), kind = relative_emissions(arguments), factors[0].dtype
    batch, n, states = log_emissions.shape
    best = best.T.contiguous()
    alpha = log_emissions.new_empty(n, batch, states, dtype=kind)
    scales, sums = log_emissions.new_empty(n, batch), log_emissions.new_empty(n, batch)
    between = None
    if len(factors) == 2:
        between = log_emissions.new_zeros(n, batch, factors[0].shape[-1], dtype=kind)
    active = arguments.active
    predicted = arguments.start.detach().expand(batch, states)
    with matrix_mode(arguments.precision, log_emissions.device):
        for t in range(n):
            if t:
                predicted = alpha[t - 1]
                if between is not None:
                    between[t] = times(predicted, factors[0])
                    predicted = between[t]
                predicted = times(predicted, factors[-1])
            # The product with the emissions is computed in logs, because all products may underflow.
            logs = predicted.log() + log_emissions[:, t]
            top = logs.amax(-1)
            scale = torch.where(top == -torch.inf, 0.0, top)
            here = (logs - scale[:, None]).exp_()
            total = here.sum(-1)
            going = active(t)
            if going is not None:  # a sentence that has ended keeps its values; all have position 0
                here = torch.where(going, here, alpha[t - 1].to(here.dtype))
                scale, best[t] = (torch.where(going[:, 0], logs, 0.0) for logs in (scale, best[t]))
                total = torch.where(going[:, 0], total, sums[t - 1])
            alpha[t], scales[t], sums[t] = here, scale, total
    return Alphas(alpha, best, scales, sums, between)


def scaled_gradients(
    arguments: ForwardArguments, factors: tuple[Tensor, ...], alphas: Alphas, grad: Tensor
) -> tuple[Tensor, Tensor, list[Tensor]]:
    """Compute the gradients of Σ_b grad[b] · log p(b) with respect to log-emissions [B, n, S], start and factors.

    β̂(t) is scaled such that α̂(t) ⊙ β̂(t) is the marginal of the state, and g(t) such that (α̂ T)(t) ⊙ g(t) is the
    same. A sentence of probability 0 has β̂ = 0, and so no gradient.
    """
    (log_emissions, _), alpha = relative_emissions(arguments), alphas.alpha
    n, batch, states = alpha.shape
    wide = wide_type(alpha.dtype)
    by_emissions = torch.zeros_like(log_emissions, memory_format=torch.contiguous_format)
    arriving = torch.zeros_like(alpha)  # g(t) · grad
    between = None if alphas.between is None else torch.zeros_like(alphas.between)  # g(t) times the second factor
    total = alphas.sums[-1]
    beta = torch.where(total > 0, 1 / total, 0.0)[:, None].expand(batch, states)
    active, weight = arguments.active, grad.to(wide)[:, None]
    first = beta
    with matrix_mode(arguments.precision, alpha.device):
        for t in range(n - 1, -1, -1):
            going = active(t)
            kept = alpha[t] > 0 if going is None else (alpha[t] > 0) & going
            marginal = torch.where(kept, alpha[t] * beta, 0.0)
            by_emissions[:, t] = marginal * weight
            ratio = (log_emissions[:, t] - alphas.scales[t][:, None]).clamp_(max=LARGEST_LOG[wide]).exp_()
            here = torch.where(kept, ratio * beta, 0.0).clamp_(max=LARGEST[wide])
            if t == 0:
                first = here * weight
                break
            arriving[t] = here * weight
            back = times(here.to(alpha.dtype), factors[-1].mT)
            if between is not None:
                between[t] = back * weight
                back = times(back.to(alpha.dtype), factors[0].mT)
            back = back.clamp_(max=LARGEST[wide])
            beta = back if going is None else torch.where(going, back, beta)
        by_start = first if arguments.start.dim() == 2 else first.sum(0)
        if between is None:
            by_factors = [_outer(alpha[:-1], arriving[1:], factors[0])]
        else:
            assert alphas.between is not None
            by_factors = [
                _outer(alpha[:-1], between[1:], factors[0]),
                _outer(alphas.between[1:], arriving[1:], factors[1]),
            ]
    return by_emissions, by_start, by_factors


def times(x: Tensor, matrix: Tensor) -> Tensor:
    """Multiply x [B, K] with [K, M], or with a batch [B, K, M]; sums and result are float32 or wider."""
    x = x.to(matrix.dtype)
    rows = x if matrix.dim() == 2 else x[:, None]
    wide = wide_type(matrix.dtype)
    if wide == matrix.dtype:
        return torch.matmul(rows, matrix).view(len(x), -1)
    return mm_wide(rows, matrix, rows.new_empty(*rows.shape[:-1], matrix.shape[-1], dtype=wide)).view(len(x), -1)


def _outer(before: Tensor, after: Tensor, like: Tensor) -> Tensor:
    """Sum the outer products of before and after over positions, and over sentences if ``like`` is not batched."""
    wide = wide_type(like.dtype)
    if like.dim() == 3:
        return mm_wide(before.permute(1, 2, 0), after.transpose(0, 1), torch.empty_like(like, dtype=wide))
    rows, columns = before.flatten(0, 1), after.flatten(0, 1)
    return times(rows.T, columns) if len(rows) else torch.zeros_like(like, dtype=wide)


def scaled_forward(arguments: ForwardArguments) -> Tensor:
    """Compute log p of each sentence, [B]; second derivatives go through ``filtered_log_p``."""
    tensors = (arguments.log_emissions, arguments.start, *arguments.factors)
    return _Forward.apply(arguments.lengths, arguments.precision, *tensors)


class _Forward(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Context, lengths: Tensor | None, precision: str | None, *tensors: Tensor) -> Tensor:
        arguments = _arguments(lengths, precision, tensors)
        emissions = arguments.log_emissions
        kind = torch.bfloat16 if runs_fused(precision, emissions) else wide_type(emissions.dtype)
        factors = tuple(factor.detach().to(kind) for factor in arguments.factors)  # operands of the products
        alphas = scaled_alphas(arguments, factors)
        ctx.save_for_backward(*tensors, *factors, *alphas)
        ctx.settings = lengths, precision, len(factors)
        whole = alphas.best.double().sum(0) + alphas.scales.double().sum(0) + alphas.sums[-1].double().log()
        return whole.to(alphas.scales.dtype)

    @staticmethod
    @without_modes
    def backward(ctx: Context, *grads: Tensor) -> tuple[Tensor | None, ...]:
        lengths, precision, count = ctx.settings
        tensors, saved = ctx.saved_tensors[: 2 + count], ctx.saved_tensors[2 + count :]
        if torch.is_grad_enabled():
            slopes = differentiable_gradients(
                lambda *given: filtered_log_p(_arguments(lengths, precision, given)),
                tensors,
                ctx.needs_input_grad[2:],
                grads,
            )
            return None, None, *slopes
        factors, alphas = saved[:count], Alphas(*saved[count:])
        arguments = _arguments(lengths, precision, tensors)
        by_emissions, by_start, by_factors = scaled_gradients(arguments, factors, alphas, grads[0])
        pairs = zip((by_emissions, by_start, *by_factors), tensors, strict=True)
        return None, None, *(slope.to(given.dtype) for slope, given in pairs)


def _arguments(lengths: Tensor | None, precision: str | None, tensors: Sequence[Tensor]) -> ForwardArguments:
    log_emissions, start, *factors = tensors
    return ForwardArguments(log_emissions, start, tuple(factors), lengths, precision)
