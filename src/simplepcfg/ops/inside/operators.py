"""The inside algorithm as operators of ``torch.library``, each of which is one node for ``torch.compile``.

The operators check values, choose the backend and read the lengths when they run, so that none of this is traced.
``inside`` calls them while a compiler traces it. Other calls go to the autograd function of ``autograd.py``, which
computes the same and costs less on the host.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.library import CustomOpDef

from simplepcfg.ops.arguments import InsideArguments, check_lengths, check_values, needs_gradient
from simplepcfg.ops.autograd_context import Context
from simplepcfg.ops.backends import resolve_backend
from simplepcfg.ops.inside.autograd import (
    InsideTensors,
    backward_chart,
    chart_span_marginals,
    empty_handle,
    forward_chart,
    second_order_gradients,
    stacked_needs,
    tensors_of,
    unstacked_gradients,
)
from simplepcfg.ops.inside.log_space import log_einsum_exp_inside

# The handle of the chart is hidden state, which a CUDA graph that a compiler captures would not keep alive.
_TAGS = (torch.Tag.cudagraph_unsafe,)
_BACKENDS = ("torch", "triton")
# The arguments that all operators have, in the order of InsideTensors.
_GIVEN = (
    "Tensor log_emissions, Tensor root, Tensor left, Tensor right, Tensor? span_bonus, Tensor? lengths, "
    "str? precision, str backend"
)


def _operator(
    name: str, schema: str, tags: tuple[torch.Tag, ...] = ()
) -> Callable[[Callable[..., object]], CustomOpDef]:
    return torch.library.custom_op(f"simplepcfg::{name}", mutates_args=(), schema=schema, tags=tags)


def operator_inside(backend: str, arguments: InsideArguments) -> Tensor:
    """Compute log Z of each sentence by the operator; ``arguments`` come from ``check_shapes``."""
    if arguments.log_emissions.shape[1] == 1:
        return log_einsum_exp_inside(arguments)
    log_z, _ = inside_forward(*tensors_of(arguments), arguments.precision, backend, needs_gradient(arguments))
    return log_z


def operator_span_marginals(backend: str, arguments: InsideArguments) -> tuple[Tensor, Tensor]:
    """Compute log Z and span marginals by an operator, without derivatives; ``arguments`` as above."""
    given = [None if tensor is None else tensor.detach() for tensor in tensors_of(arguments)]
    log_z, marginals = span_marginals_forward(*given, arguments.precision, backend)
    return log_z, marginals


@_operator("inside", f"({_GIVEN}, bool save) -> (Tensor, Tensor)", tags=_TAGS)
def inside_forward(*inputs: Any) -> tuple[Tensor, Tensor]:
    """Compute log Z [B] and the handle of the chart; InputError if a value is wrong."""
    *tensors, precision, backend, save = inputs
    given = check_values(InsideTensors(*tensors).arguments(precision))
    return forward_chart(resolve_backend(backend, given.log_emissions, _BACKENDS), given, save)


@_operator("inside_backward", f"(Tensor grad, Tensor handle, {_GIVEN}, bool[] needs) -> Tensor[]", tags=_TAGS)
def inside_backward(*inputs: Any) -> list[Tensor]:
    """Compute those gradients of log_emissions, root, the stacked rules and span_bonus that ``needs`` asks for."""
    grad, handle, *tensors, precision, backend, needs = inputs
    given = InsideTensors(*tensors)
    given = given._replace(lengths=check_lengths(given.lengths, *given.log_emissions.shape[:2]))
    name = resolve_backend(backend, given.log_emissions, _BACKENDS)
    gradients = backward_chart(name, given, precision, handle, grad, needs)
    return [gradient for gradient in gradients if gradient is not None]


@_operator("span_marginals", f"({_GIVEN}) -> (Tensor, Tensor)")
def span_marginals_forward(*inputs: Any) -> tuple[Tensor, Tensor]:
    """Compute log Z [B] and the marginal of each span [B, n + 1, n + 1]; InputError if a value is wrong."""
    *tensors, precision, backend = inputs
    given = check_values(InsideTensors(*tensors).arguments(precision))
    return chart_span_marginals(resolve_backend(backend, given.log_emissions, _BACKENDS), given)


@span_marginals_forward.register_fake
def _(log_emissions: Tensor, *_: object) -> tuple[Tensor, Tensor]:
    batch, n = log_emissions.shape[:2]
    return log_emissions.new_empty(batch), log_emissions.new_empty(batch, n + 1, n + 1)


@inside_forward.register_fake
def _(log_emissions: Tensor, *_: object) -> tuple[Tensor, Tensor]:
    return log_emissions.new_empty(log_emissions.shape[0]), empty_handle()


@inside_backward.register_fake
def _(*arguments: Any) -> list[Tensor]:
    log_emissions, root, left, _, span_bonus = arguments[2:7]
    *batch, nonterminals, symbols = left.shape
    rules = left.new_empty((*batch, 2 * nonterminals, symbols))
    likes = (log_emissions, root, rules, log_emissions if span_bonus is None else span_bonus)
    return [like.new_empty(like.shape) for like, need in zip(likes, arguments[-1], strict=True) if need]


def _setup_context(ctx: Context, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    ctx.save_for_backward(*inputs[:6], output[1])
    ctx.precision, ctx.backend = inputs[6:8]


def _backward(ctx: Context, grad: Tensor, _: Tensor | None) -> tuple[Tensor | None, ...]:
    needs = ctx.needs_input_grad[:5]
    nothing = (None,) * 4  # lengths, precision, backend, save
    *saved, handle = ctx.saved_tensors
    if torch.is_grad_enabled():  # create_graph: the gradient itself must be differentiable
        return *second_order_gradients(InsideTensors(*saved), needs, grad), *nothing
    needed = stacked_needs(needs)
    gradients = iter(inside_backward(grad, handle, *saved, ctx.precision, ctx.backend, needed))
    return *unstacked_gradients([next(gradients) if need else None for need in needed]), *nothing


inside_forward.register_autograd(_backward, setup_context=_setup_context)
