"""The autograd function of the forward algorithm."""

from collections.abc import Sequence

import torch
from torch import Tensor

from simplepcfg.ops.autocast import without_autocast
from simplepcfg.ops.autograd_context import Context, differentiable_gradients
from simplepcfg.ops.forward.arguments import ForwardArguments
from simplepcfg.ops.forward.filtering import filtered_log_p
from simplepcfg.ops.forward.scaled import Alphas, log_sentences, operands, scaled_alphas, scaled_gradients


def scaled_forward(arguments: ForwardArguments) -> Tensor:
    """Compute log p of each sentence, [B]; second derivatives go through ``filtered_log_p``."""
    tensors = (arguments.log_emissions, arguments.start, *arguments.factors)
    return _Forward.apply(arguments.lengths, arguments.precision, *tensors)


class _Forward(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Context, lengths: Tensor | None, precision: str | None, *tensors: Tensor) -> Tensor:
        arguments = _arguments(lengths, precision, tensors)
        factors = operands(arguments)
        alphas = scaled_alphas(arguments, factors)
        extra = () if alphas.between is None else (alphas.between,)
        ctx.save_for_backward(*tensors, *factors, alphas.alpha, alphas.best, alphas.scales, alphas.sums, *extra)
        ctx.settings = lengths, precision, len(factors)
        return log_sentences(alphas)

    @staticmethod
    @without_autocast
    def backward(ctx: Context, *grads: Tensor) -> tuple[Tensor | None, ...]:
        lengths, precision, count = ctx.settings
        tensors, saved = ctx.saved_tensors[: 2 + count], ctx.saved_tensors[2 + count :]
        needs = ctx.needs_input_grad[2:]
        if torch.is_grad_enabled():

            def by_filtering(*given: Tensor) -> Tensor:
                return filtered_log_p(_arguments(lengths, precision, given))

            return None, None, *differentiable_gradients(by_filtering, tensors, needs, grads)
        factors, (alpha, best, scales, sums, *between) = saved[:count], saved[count:]
        alphas = Alphas(alpha, best, scales, sums, between[0] if between else None)
        arguments = _arguments(lengths, precision, tensors)
        by_emissions, by_start, by_factors = scaled_gradients(arguments, factors, alphas, grads[0])
        slopes = (by_emissions, by_start, *by_factors)
        return None, None, *(slope.to(given.dtype) for slope, given in zip(slopes, tensors, strict=True))


def _arguments(lengths: Tensor | None, precision: str | None, tensors: Sequence[Tensor]) -> ForwardArguments:
    log_emissions, start, *factors = tensors
    return ForwardArguments(log_emissions, start, tuple(factors), lengths, precision)
