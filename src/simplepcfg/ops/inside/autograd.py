"""Differentiation of the backends with a hand-written backward pass: the autograd function and what it calls."""

import math
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.autograd import forward_ad

from simplepcfg.ops.arguments import InsideArguments, needs_gradient
from simplepcfg.ops.autocast import launching
from simplepcfg.ops.double_backward import distinct_views
from simplepcfg.ops.graphs import graphs_of
from simplepcfg.ops.inside.graphs import Lease, plain_chart, replayed_forward
from simplepcfg.ops.inside.log_space import log_einsum_exp_inside
from simplepcfg.ops.inside.saved_charts import chart_of, empty_handle, make_handle
from simplepcfg.ops.inside.scaled import TorchChart

Needs = tuple[bool, bool, bool, bool]  # of log_emissions, root, the rules and the span bonus


class Chart(Protocol):
    """The chart of one batch: ``fill`` is the forward pass, and ``backward`` only reads the chart."""

    def __init__(self, arguments: InsideArguments) -> None: ...

    def fill(self) -> Tensor:
        """Run the forward pass and return log Z of each sentence, [B]."""
        ...

    def backward(
        self, grad: Tensor, need_words: bool, need_root: bool, need_rules: bool, marginals: Tensor | None
    ) -> list[Tensor | None]:
        """Compute the gradients that are needed: of log_emissions, of the root, and of the rules [(B,) 2N, N + P].

        The gradients of left and right are stacked. ``marginals`` [B, n + 1, n + 1], if given, is zero and is filled
        with the gradient with respect to the span bonus.
        """
        ...


def chart_class(backend: str) -> type[Chart]:
    """Return the chart of a backend. Triton is imported on first use only, so that "torch" works without it."""
    if backend == "torch":
        return TorchChart
    from simplepcfg.ops.inside.packed_chart import PackedChart

    return PackedChart


def chart_inside(backend: str, arguments: InsideArguments) -> Tensor:
    """Compute log Z of each sentence by the chart of a backend; see ``inside``."""
    if arguments.log_emissions.shape[1] == 1:
        return log_einsum_exp_inside(arguments)
    # torch.func needs a function with a separate set-up, which takes longer to call.
    if torch._C._are_functorch_transforms_active():
        inputs = (*tensors_of(arguments), arguments.precision, backend, needs_gradient(arguments))
        log_z: Tensor = _TransformableInside.apply(*inputs)[0]
        return log_z
    if needs_gradient(arguments) or forward_ad._current_level >= 0:  # forward-mode derivatives are refused there
        return _ChartInside.apply(*tensors_of(arguments), arguments, backend)
    with torch.no_grad():
        return _filled(backend, arguments, False)[0]


def chart_span_marginals(backend: str, arguments: InsideArguments) -> tuple[Tensor, Tensor]:
    """Compute log Z and span marginals without autograd, also in ``torch.inference_mode``."""
    batch, n, _, _ = arguments.sizes
    marginals = arguments.log_emissions.new_zeros(batch, n + 1, n + 1)
    if n == 1:
        return marginals.new_full((batch,), -math.inf), marginals
    log_z, chart = _filled(backend, arguments, True)
    assert chart is not None
    with launching(log_z.device):
        chart.backward(torch.ones_like(log_z), False, False, False, marginals)
    return log_z, marginals


def tensors_of(arguments: InsideArguments) -> tuple[Tensor | None, ...]:
    """Return the tensor arguments in the order in which autograd sees them."""
    return (
        arguments.log_emissions,
        arguments.root,
        arguments.left,
        arguments.right,
        arguments.span_bonus,
        arguments.lengths,
    )


def forward_chart(backend: str, arguments: InsideArguments, save: bool) -> tuple[Tensor, Tensor]:
    """Fill a chart; return log Z [B] and the handle of the chart, an empty one unless ``save``."""
    log_z, chart = _filled(backend, arguments, save)
    return log_z, empty_handle() if chart is None else make_handle(chart)


def _filled(backend: str, arguments: InsideArguments, save: bool) -> tuple[Tensor, Chart | Lease | None]:
    """Fill a chart, by a graph if this shape recurs on a GPU; return log Z [B], and the chart if ``save``."""
    device = arguments.log_emissions.device
    graphs = graphs_of(device) if backend == "triton" else None
    if graphs is not None:
        replayed = replayed_forward(graphs, arguments, save)
        if replayed is not None:
            return replayed
    with launching(device):
        chart: Chart | None = None if graphs is None else plain_chart(graphs, arguments)
        chart = chart or chart_class(backend)(arguments)
        log_z = chart.fill()
    return log_z, chart if save else None


def backward_chart(
    backend: str, arguments: InsideArguments, handle: Tensor, grad: Tensor, needs: Needs
) -> list[Tensor | None]:
    """Compute the gradients that are needed: of log_emissions, root, the stacked rules, and the span bonus.

    The chart is filled again if the handle does not own one: if what autograd saved was copied, for example to the
    host, or if the chart was not saved.
    """
    need_words, need_root, need_rules, need_bonus = needs
    with launching(arguments.log_emissions.device):
        chart = chart_of(handle)
        if chart is None:
            chart = chart_class(backend)(arguments)
            chart.fill()
        bonus = None
        if need_bonus:
            assert arguments.span_bonus is not None
            bonus = torch.zeros_like(arguments.span_bonus, memory_format=torch.contiguous_format)
        return [*chart.backward(grad, need_words, need_root, need_rules, bonus), bonus]


class _ChartInside(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> Tensor:
        *tensors, arguments, backend = inputs
        log_z, chart = _filled(backend, arguments, True)
        ctx.save_for_backward(*tensors, make_handle(chart))
        ctx.precision, ctx.backend = arguments.precision, backend
        return log_z

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return *_gradients(ctx, grads[0]), None, None, None


class _TransformableInside(torch.autograd.Function):
    @staticmethod
    def forward(*inputs: Any) -> tuple[Tensor, Tensor]:
        log_emissions, root, left, right, span_bonus, lengths, precision, backend, save = inputs
        arguments = InsideArguments(log_emissions, root, left, right, lengths, span_bonus, precision)
        return forward_chart(backend, arguments, save)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        ctx.mark_non_differentiable(output[1])
        if any(ctx.needs_input_grad):
            ctx.save_for_backward(*inputs[:6], output[1])
            ctx.precision, ctx.backend = inputs[6:8]

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return *_gradients(ctx, grads[0]), None, None, None, None


def _gradients(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    """Compute the gradients of log_emissions, root, left, right and span_bonus."""
    needs = ctx.needs_input_grad[:5]
    *saved, handle = ctx.saved_tensors
    if torch.is_grad_enabled():  # create_graph: the gradient itself must be differentiable
        return tuple(differentiable_gradients(saved, needs, grad))
    log_emissions, root, left, right, span_bonus, lengths = saved
    needed = (needs[0], needs[1], needs[2] or needs[3], needs[4])
    chart = None if needs[4] else chart_of(handle)
    if isinstance(chart, Lease):
        bonus = None
        words, by_root, rules = chart.backward(grad, *needed[:3], None)
    else:
        arguments = InsideArguments(log_emissions, root, left, right, lengths, span_bonus, ctx.precision)
        words, by_root, rules, bonus = backward_chart(ctx.backend, arguments, handle, grad, needed)
    by_left, by_right = (None, None) if rules is None else rules.chunk(2, -2)
    return words, by_root, by_left, by_right, bonus


def differentiable_gradients(saved: Any, needs: tuple[bool, ...], grad: Tensor) -> list[Tensor | None]:
    """Compute the gradients by autograd through ``log_einsum_exp_inside``, so that they can be differentiated."""
    inputs, lengths = distinct_views(saved[:5]), saved[5]
    log_emissions, root, left, right, span_bonus = inputs
    kind = log_emissions.dtype
    arguments = InsideArguments(log_emissions, root, left.to(kind), right.to(kind), lengths, span_bonus, None)
    wanted = [tensor for tensor, need in zip(inputs, needs, strict=True) if need]
    with launching(log_emissions.device):
        log_z = log_einsum_exp_inside(arguments)
        found = iter(torch.autograd.grad(log_z, wanted, grad, create_graph=True, allow_unused=True))
    return [next(found) if need else None for need in needs]
