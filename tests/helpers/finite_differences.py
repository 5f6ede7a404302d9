"""Derivatives against central differences along random directions, in float64.

`torch.autograd.gradcheck` moves every element of every input by itself, two calls of the function each. A random
direction moves all of them at once: a few calls, and one wrong element is enough to be seen. What else gradcheck looks
at, gradients that are undefined or change from call to call, its fast mode does, too.
"""

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

DIRECTIONS = 3
STEP = 1e-4
# Of what the derivative along a direction of length 1 is in the mean square; gradcheck allows 1e-3 of each element.
TOLERANCE = 1e-6

Function = Callable[..., Tensor | tuple[Tensor, ...]]


def check_derivatives(function: Function, inputs: Sequence[Tensor]) -> None:
    """First derivatives of all outputs by all inputs."""
    assert torch.autograd.gradcheck(function, tuple(inputs), fast_mode=True)
    _check_along_directions(function, inputs)


def check_second_derivatives(function: Function, inputs: Sequence[Tensor]) -> None:
    """Derivatives of the gradient, by the inputs and by what the outputs are weighted with."""
    assert torch.autograd.gradgradcheck(function, tuple(inputs), fast_mode=True)
    weights = [torch.randn_like(output).requires_grad_() for output in _outputs(function, inputs)]

    def gradient(*given: Tensor) -> tuple[Tensor, ...]:
        outputs = _outputs(function, given[len(weights) :])
        total = sum((output * weight).sum() for output, weight in zip(outputs, given, strict=False))
        return torch.autograd.grad(total, given[len(weights) :], create_graph=True, materialize_grads=True)

    _check_along_directions(gradient, [*weights, *inputs])


def _outputs(function: Function, inputs: Sequence[Tensor]) -> tuple[Tensor, ...]:
    found = function(*inputs)
    return (found,) if isinstance(found, Tensor) else tuple(found)


def _check_along_directions(function: Function, inputs: Sequence[Tensor]) -> None:
    generator = torch.Generator().manual_seed(0)

    def drawn(like: Tensor) -> Tensor:
        return torch.randn(like.shape, generator=generator, dtype=torch.float64)

    assert {tensor.dtype for tensor in inputs} == {torch.float64}
    inputs = [tensor.detach().requires_grad_() for tensor in inputs]
    outputs = _outputs(function, inputs)
    weights = [drawn(output) for output in outputs]

    def total(outputs: Sequence[Tensor]) -> Tensor:
        return sum(((output * weight).sum() for output, weight in zip(outputs, weights, strict=True)), torch.zeros(()))

    gradient = torch.autograd.grad(total(outputs), inputs, materialize_grads=True)
    elements = sum(tensor.numel() for tensor in inputs)
    norm = math.sqrt(sum(float(part.square().sum()) for part in gradient))
    assert 0 < norm < math.inf
    for _ in range(DIRECTIONS):
        direction = [drawn(tensor) for tensor in inputs]
        length = math.sqrt(sum(float(part.square().sum()) for part in direction))

        def moved(by: float, direction: list[Tensor] = direction, length: float = length) -> float:
            pairs = zip(inputs, direction, strict=True)
            changed = [x.detach().add(d, alpha=by / length).requires_grad_() for x, d in pairs]
            return float(total(_outputs(function, changed)).detach())

        # Of four points, so that the third derivative does not matter.
        found = (8 * (moved(STEP) - moved(-STEP)) - (moved(2 * STEP) - moved(-2 * STEP))) / (12 * STEP)
        expected = sum(float((g * d).sum()) for g, d in zip(gradient, direction, strict=True)) / length
        assert abs(found - expected) <= TOLERANCE * norm / math.sqrt(elements)
