"""Gradients that can themselves be differentiated, by autograd through a plain PyTorch form of an operation."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor


def differentiable_gradients(
    function: Callable[..., Tensor | tuple[Tensor, ...]],
    inputs: Sequence[Tensor | None],
    needs: Sequence[bool],
    grads: Sequence[Tensor | None],
) -> list[Tensor | None]:
    """Compute vector-Jacobian products of ``function`` with ``create_graph=True``.

    Args:
        function: the operation in plain PyTorch; returns a tensor or a tuple of tensors.
        inputs: its arguments.
        needs: for each input, whether its gradient is wanted.
        grads: for each output, the gradient of the loss with respect to it, or None.

    Returns:
        One gradient for each input; None where it is not wanted or where the output does not depend on the input.
    """
    inputs = _distinct_views(inputs)
    results = function(*inputs)
    outputs = (results,) if isinstance(results, Tensor) else results
    pairs = [(output, grad.to(output.dtype)) for output, grad in zip(outputs, grads, strict=True) if grad is not None]
    wanted = [tensor for tensor, need in zip(inputs, needs, strict=True) if need and tensor is not None]
    if not pairs or not wanted:
        return [None] * len(inputs)
    given = iter(
        torch.autograd.grad(
            [output for output, _ in pairs], wanted, [grad for _, grad in pairs], create_graph=True, allow_unused=True
        )
    )
    return [next(given) if need else None for need in needs]


def _distinct_views(tensors: Sequence[Tensor | None]) -> list[Tensor | None]:
    """Return a new view of each tensor; None stays None.

    A tensor that was passed as two arguments becomes two views. Otherwise ``torch.autograd.grad`` would return the sum
    of both gradients for each of the two arguments.
    """
    return [None if tensor is None else tensor.view_as(tensor) for tensor in tensors]
