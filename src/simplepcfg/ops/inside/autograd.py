"""Differentiation of the backends with a hand-written backward pass: the autograd function and what it calls.

Operators of ``torch.library`` take and return tensors only. A chart that a backward pass will read is therefore owned
by a handle: a tensor of one byte whose storage refers to the chart. Autograd saves the handle, and the chart is freed
with it: after the backward pass, or when gradient checkpointing discards what was saved.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol
from weakref import WeakValueDictionary

import numpy as np
import torch
from torch import Tensor
from torch.autograd import forward_ad

from simplepcfg.ops.arguments import InsideArguments, Needs, needs_gradient
from simplepcfg.ops.autograd_context import Context, differentiable_gradients
from simplepcfg.ops.cuda_graphs.calls import graphs_of
from simplepcfg.ops.inside.log_space import log_einsum_exp_inside
from simplepcfg.ops.inside.scaled_backward import Backward
from simplepcfg.ops.inside.scaled_chart import ScaledChart
from simplepcfg.ops.modes import launching
from simplepcfg.ops.shards import Shards


class FilledChart(Protocol):
    """A chart after its forward pass. The backward pass only reads it."""

    def backward(self, grad: Tensor, needs: Needs, marginals: Tensor | None) -> list[Tensor | None]:
        """Compute the gradients that are needed: of log_emissions, of the root, and of the rules [(B,) 2N, N + P].

        The gradients of left and right are stacked. ``marginals`` [B, n + 1, n + 1], if given, is zero and is filled
        with the gradient with respect to the span bonus.
        """
        ...


class Chart(FilledChart, Protocol):
    """The chart of one batch."""

    def __init__(self, arguments: InsideArguments) -> None: ...

    def fill(self) -> Tensor:
        """Run the forward pass and return log Z of each sentence, [B]."""
        ...


class DifferentiableChart(ScaledChart):
    """A scaled chart with a backward pass, in inference mode, which takes an eighth less time at small sizes.

    Results are cloned outside of inference mode, so that autograd can use them.
    """

    def __init__(self, arguments: InsideArguments, shards: Shards | None = None) -> None:
        with torch.inference_mode():
            super().__init__(arguments, shards)

    def fill(self) -> Tensor:
        with torch.inference_mode():
            log_z = super().fill()
        return log_z.clone()

    def backward(self, grad: Tensor, needs: Needs, marginals: Tensor | None) -> list[Tensor | None]:
        rules = self.arguments.left.new_zeros(self.all_rules.shape) if needs.rules else None
        with torch.inference_mode():
            words, root = Backward(self, grad).run(needs, rules, marginals)
        return [None if words is None else words.clone(), None if root is None else root.clone(), rules]


class _Owner(np.ndarray):
    """The memory of a handle, which also refers to the chart."""

    chart: FilledChart


# Owners by the address of their memory, which is unique as long as they live.
_owners: "WeakValueDictionary[int, _Owner]" = WeakValueDictionary()


def make_handle(chart: FilledChart) -> Tensor:
    """Return a handle of the chart. Its value is always 0, so that it does not depend on earlier calls."""
    owner = np.zeros(1, np.uint8).view(_Owner)
    owner.chart = chart
    handle = torch.from_numpy(owner)  # the storage refers to the array that it was made from
    _owners[handle.data_ptr()] = owner
    return handle


def empty_handle() -> Tensor:
    """Return a handle of no chart."""
    return torch.zeros(1, dtype=torch.uint8)


def chart_of(handle: Tensor) -> FilledChart | None:
    """Return the chart of a handle, or None if the tensor is a copy of a handle, which does not own the chart."""
    owner = _owners.get(handle.data_ptr()) if handle.device.type == "cpu" else None
    return None if owner is None else owner.chart


def chart_class(backend: str) -> type[Chart]:
    """Return the chart of a backend. Triton is imported on first use only, so that "torch" works without it."""
    if backend == "torch":
        return DifferentiableChart
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
        chart.backward(torch.ones_like(log_z), Needs(False, False, False), marginals)
    return log_z, marginals


class InsideTensors(NamedTuple):
    """The tensors of ``InsideArguments`` in the order in which autograd and the operators take them."""

    log_emissions: Tensor
    root: Tensor
    left: Tensor
    right: Tensor
    span_bonus: Tensor | None
    lengths: Tensor | None

    def arguments(self, precision: str | None) -> InsideArguments:
        """Return the arguments that these tensors are part of."""
        log_emissions, root, left, right, span_bonus, lengths = self
        return InsideArguments(log_emissions, root, left, right, lengths, span_bonus, precision)


def tensors_of(arguments: InsideArguments) -> InsideTensors:
    """Return the tensors of the arguments."""
    sides, bonus = (arguments.left, arguments.right), arguments.span_bonus
    return InsideTensors(arguments.log_emissions, arguments.root, *sides, bonus, arguments.lengths)


def forward_chart(backend: str, arguments: InsideArguments, save: bool) -> tuple[Tensor, Tensor]:
    """Fill a chart; return log Z [B] and the handle of the chart, an empty one unless ``save``."""
    log_z, chart = _filled(backend, arguments, save)
    return log_z, empty_handle() if chart is None else make_handle(chart)


def _filled(backend: str, arguments: InsideArguments, save: bool) -> tuple[Tensor, FilledChart | None]:
    """Fill a chart, by a graph if this shape recurs on a GPU; return log Z [B], and the chart if ``save``."""
    device = arguments.log_emissions.device
    graphs = graphs_of(device) if backend == "triton" else None
    if graphs is not None:
        from simplepcfg.ops.inside.graphed_chart import plain_chart, replayed_forward

        replayed = replayed_forward(graphs, arguments, save)
        if replayed is not None:
            return replayed
    with launching(device):
        chart: Chart | None = None if graphs is None else plain_chart(graphs, arguments)
        chart = chart or chart_class(backend)(arguments)
        log_z = chart.fill()
    return log_z, chart if save else None


def backward_chart(
    backend: str, given: InsideTensors, precision: str | None, handle: Tensor, grad: Tensor, needs: Sequence[bool]
) -> list[Tensor | None]:
    """Compute the gradients that are needed: of log_emissions, root, the stacked rules, and the span bonus.

    The chart is filled again if the handle does not own one: if what autograd saved was copied, for example to the
    host, or if the chart was not saved.
    """
    *others, need_bonus = needs
    with launching(given.log_emissions.device):
        chart = chart_of(handle)
        if chart is None:
            chart = refilled = chart_class(backend)(given.arguments(precision))
            refilled.fill()
        bonus = None
        if need_bonus and given.span_bonus is not None:
            bonus = torch.zeros_like(given.span_bonus, memory_format=torch.contiguous_format)
        return [*chart.backward(grad, Needs(*others), bonus), bonus]


class _ChartInside(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Context, *inputs: Any) -> Tensor:
        *tensors, arguments, backend = inputs
        log_z, handle = forward_chart(backend, arguments, True)
        ctx.save_for_backward(*tensors, handle)
        ctx.precision, ctx.backend = arguments.precision, backend
        return log_z

    @staticmethod
    def backward(ctx: Context, *grads: Tensor) -> tuple[Tensor | None, ...]:
        return *_gradients(ctx, grads[0]), None, None, None


class _TransformableInside(torch.autograd.Function):
    @staticmethod
    def forward(*inputs: Any) -> tuple[Tensor, Tensor]:
        *tensors, precision, backend, save = inputs
        return forward_chart(backend, InsideTensors(*tensors).arguments(precision), save)

    @staticmethod
    def setup_context(ctx: Context, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        ctx.mark_non_differentiable(output[1])
        if any(ctx.needs_input_grad):
            ctx.save_for_backward(*inputs[:6], output[1])
            ctx.precision, ctx.backend = inputs[6:8]

    @staticmethod
    def backward(ctx: Context, *grads: Tensor) -> tuple[Tensor | None, ...]:
        return *_gradients(ctx, grads[0]), None, None, None, None


def _gradients(ctx: Context, grad: Tensor) -> tuple[Tensor | None, ...]:
    """Compute the gradients of log_emissions, root, left, right and span_bonus."""
    needs = ctx.needs_input_grad[:5]
    *tensors, handle = ctx.saved_tensors
    given = InsideTensors(*tensors)
    if torch.is_grad_enabled():  # create_graph: the gradient itself must be differentiable
        return tuple(second_order_gradients(given, needs, grad))
    gradients = backward_chart(ctx.backend, given, ctx.precision, handle, grad, stacked_needs(needs))
    return unstacked_gradients(gradients)


def stacked_needs(needs: Sequence[bool]) -> list[bool]:
    """Return which gradients ``backward_chart`` computes if these of its five tensors are needed."""
    return [needs[0], needs[1], needs[2] or needs[3], needs[4]]


def unstacked_gradients(gradients: Sequence[Tensor | None]) -> tuple[Tensor | None, ...]:
    """Return the gradients of ``backward_chart`` with those of left and right apart."""
    words, root, rules, bonus = gradients
    left, right = (None, None) if rules is None else rules.chunk(2, -2)
    return words, root, left, right, bonus


def second_order_gradients(given: InsideTensors, needs: Sequence[bool], grad: Tensor) -> list[Tensor | None]:
    """Compute the gradients by autograd through ``log_einsum_exp_inside``, so that they can be differentiated."""

    def log_z(log_emissions: Tensor, root: Tensor, left: Tensor, right: Tensor, span_bonus: Tensor | None) -> Tensor:
        rules = (root, left.to(log_emissions.dtype), right.to(log_emissions.dtype))
        return log_einsum_exp_inside(InsideArguments(log_emissions, *rules, given.lengths, span_bonus, None))

    with launching(grad.device):
        return differentiable_gradients(log_z, given[:5], needs, [grad])
