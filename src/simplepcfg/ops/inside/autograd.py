"""The autograd function that is shared by the backends with a hand-written backward pass."""

import math
from typing import Any, Protocol

import torch
from torch import Tensor

from simplepcfg.ops.double_backward import distinct_views
from simplepcfg.ops.inside.arguments import InsideArguments
from simplepcfg.ops.inside.log_space import log_einsum_exp_inside


class Chart(Protocol):
    """The chart of one batch: ``fill`` is the forward pass, and ``backward`` only reads the chart."""

    def __init__(self, arguments: InsideArguments) -> None: ...

    def fill(self) -> Tensor:
        """Run the forward pass and return log Z of each sentence, [B]."""
        ...

    def backward(self, grad: Tensor, needs: tuple[bool, ...], marginals: Tensor | None) -> list[Tensor | None]:
        """Compute the gradients with respect to log_emissions, root, left and right that ``needs`` asks for.

        ``marginals`` [B, n + 1, n + 1], if given, is filled with the gradient with respect to the span bonus.
        """
        ...


def chart_inside(kind: type[Chart], arguments: InsideArguments) -> Tensor:
    """Compute log Z of each sentence by a chart of this class; see ``inside``."""
    if arguments.log_emissions.shape[1] == 1:
        return log_einsum_exp_inside(arguments)
    return _ChartInside.apply(
        arguments.log_emissions,
        arguments.root,
        arguments.left,
        arguments.right,
        arguments.span_bonus,
        arguments.lengths,
        arguments.precision,
        kind,
    )


def chart_span_marginals(kind: type[Chart], arguments: InsideArguments) -> tuple[Tensor, Tensor]:
    """Compute log Z and span marginals without autograd, also in ``torch.inference_mode``."""
    batch, n, _, _ = arguments.sizes
    marginals = arguments.log_emissions.new_zeros(batch, n + 1, n + 1)
    if n == 1:
        return marginals.new_full((batch,), -math.inf), marginals
    chart = kind(arguments)
    log_z = chart.fill()
    chart.backward(torch.ones_like(log_z), (False,) * 4, marginals)
    return log_z, marginals


class _ChartInside(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> Tensor:
        log_emissions, root, left, right, span_bonus, lengths, precision, kind = inputs
        chart = kind(InsideArguments(log_emissions, root, left, right, lengths, span_bonus, precision))
        log_z: Tensor = chart.fill()
        if any(ctx.needs_input_grad):
            ctx.save_for_backward(log_emissions, root, left, right, span_bonus, lengths)
            ctx.chart = chart
        return log_z

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        needs = ctx.needs_input_grad[:5]
        if torch.is_grad_enabled():  # create_graph: the gradient itself must be differentiable
            return *_differentiable_gradients(ctx.saved_tensors, needs, grads[0]), None, None, None
        given = ctx.saved_tensors[4]
        bonus = torch.zeros_like(given, memory_format=torch.contiguous_format) if needs[4] else None
        return *ctx.chart.backward(grads[0], needs[:4], bonus), bonus, None, None, None


def _differentiable_gradients(saved: Any, needs: tuple[bool, ...], grad: Tensor) -> list[Tensor | None]:
    """Compute the gradients by autograd through ``log_einsum_exp_inside``, so that they can be differentiated."""
    inputs, lengths = distinct_views(saved[:5]), saved[5]
    log_emissions, root, left, right, span_bonus = inputs
    kind = log_emissions.dtype
    arguments = InsideArguments(log_emissions, root, left.to(kind), right.to(kind), lengths, span_bonus, None)
    wanted = [tensor for tensor, need in zip(inputs, needs, strict=True) if need]
    log_z = log_einsum_exp_inside(arguments)
    found = iter(torch.autograd.grad(log_z, wanted, grad, create_graph=True, allow_unused=True))
    return [next(found) if need else None for need in needs]
