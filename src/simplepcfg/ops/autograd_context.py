"""Derivatives by autograd: also where the caller has switched recording off, and those that can be differentiated."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any, Protocol, TypeVar, cast

import torch
from torch import Tensor

from simplepcfg.ops.tensor_fields import with_tensors

Given = TypeVar("Given", Tensor, Tensor | None)
Arguments = TypeVar("Arguments")


class Context(Protocol):
    """The context of an autograd function, with attributes that its forward pass sets for the backward pass."""

    saved_tensors: tuple[Any, ...]
    needs_input_grad: tuple[bool, ...]

    def save_for_backward(self, *tensors: Tensor | None) -> None: ...
    def set_materialize_grads(self, value: bool) -> None: ...
    def mark_non_differentiable(self, *tensors: Tensor) -> None: ...
    def __getattr__(self, name: str) -> Any: ...
    def __setattr__(self, name: str, value: Any) -> None: ...


def recording() -> ExitStack:
    """Return a context in which autograd records operations, also within ``torch.no_grad`` or inference mode."""
    stack = ExitStack()
    if torch.is_inference_mode_enabled():
        stack.enter_context(torch.inference_mode(False))
    stack.enter_context(torch.enable_grad())
    return stack


def recordable(tensor: Given) -> Given:
    """Return the tensor, or a copy if it was made in inference mode: autograd cannot save such a tensor.

    Called within ``recording``.
    """
    return tensor if tensor is None or not tensor.is_inference() else tensor.clone()


def leaf(tensor: Tensor, in_graph: bool) -> Tensor:
    """Return a tensor to differentiate by: itself if it is part of the caller's graph and ``in_graph``, else a leaf."""
    return tensor if in_graph and tensor.requires_grad else tensor.detach().requires_grad_()


def value_and_gradients(
    function: Callable[[Arguments], Tensor], arguments: Arguments, names: Sequence[str], *, create_graph: bool
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """Compute a function of a dataclass of tensors, and the gradients of its sum with respect to some fields.

    ``create_graph`` says whether both can be differentiated; the gradients are also computed under ``torch.no_grad``
    and in inference mode. They are 0 where the value does not depend on a field.
    """
    with recording():
        given = with_tensors(arguments, recordable if create_graph else lambda tensor: recordable(tensor).detach())
        leaves = {name: leaf(getattr(given, name), create_graph) for name in names}
        value = function(replace(cast(Any, given), **leaves))
        wanted = list(leaves.values())
        if not value.requires_grad:
            return value, tuple(torch.zeros_like(tensor) for tensor in wanted)
        slopes = torch.autograd.grad(value.sum(), wanted, create_graph=create_graph, materialize_grads=True)
    return value if create_graph else value.detach(), slopes


def requires_graph(*tensors: Tensor | None) -> bool:
    """Return whether results that are computed from these tensors must be differentiable."""
    return torch.is_grad_enabled() and any(tensor is not None and tensor.requires_grad for tensor in tensors)


def differentiable_gradients(
    function: Callable[..., Tensor | tuple[Tensor, ...]],
    inputs: Sequence[Tensor | None],
    needs: Sequence[bool],
    grads: Sequence[Tensor | None],
) -> list[Tensor | None]:
    """Compute vector-Jacobian products of ``function`` of ``inputs`` by autograd, where ``needs`` asks for them.

    ``grads`` has the gradient of the loss with respect to each output, or None. The results, one for each input, can be
    differentiated if gradients are enabled; None where the output does not depend on the input.
    """
    create_graph = torch.is_grad_enabled()
    # A tensor that was passed as two arguments becomes two views: ``torch.autograd.grad`` would otherwise give
    # the sum of both gradients for each of the two arguments.
    with torch.enable_grad():
        inputs = [None if tensor is None else tensor.view_as(tensor) for tensor in inputs]
        results = function(*inputs)
        outputs = (results,) if isinstance(results, Tensor) else results
        pairs = [(out, grad.to(out.dtype)) for out, grad in zip(outputs, grads, strict=True) if grad is not None]
    wanted = [tensor for tensor, need in zip(inputs, needs, strict=True) if need and tensor is not None]
    if not pairs or not wanted:
        return [None] * len(inputs)
    tops, slopes = zip(*pairs, strict=True)
    given = iter(torch.autograd.grad(tops, wanted, slopes, create_graph=create_graph, allow_unused=True))
    return [next(given) if need else None for need in needs]
