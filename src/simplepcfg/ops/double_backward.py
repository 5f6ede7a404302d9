"""Gradients that can be differentiated in turn: through autograd over the naive form of an operation."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor


def differentiable_gradients(
    function: Callable[..., Tensor | tuple[Tensor, ...]],
    inputs: Sequence[Tensor],
    needs: Sequence[bool],
    grads: Sequence[Tensor | None],
) -> list[Tensor | None]:
    """What backward would give for ``function`` of ``inputs``, as part of a graph; None where it is not needed."""
    inputs = apart(inputs)
    found = function(*inputs)
    outputs = (found,) if isinstance(found, Tensor) else found
    pairs = [(output, grad.to(output.dtype)) for output, grad in zip(outputs, grads, strict=True) if grad is not None]
    wanted = [tensor for tensor, need in zip(inputs, needs, strict=True) if need]
    if not pairs or not wanted:
        return [None] * len(inputs)
    given = iter(
        torch.autograd.grad(
            [output for output, _ in pairs], wanted, [grad for _, grad in pairs], create_graph=True, allow_unused=True
        )
    )
    return [next(given) if need else None for need in needs]


def apart(tensors: Sequence[Any]) -> list[Any]:
    """The same tensors (or None), but one that was given twice is two: else each place got the gradient of both."""
    return [None if tensor is None else tensor.view_as(tensor) for tensor in tensors]
