"""Whether an answer is that of the reference."""

import math

import torch
from torch import Tensor


class Differs(Exception):
    """An answer is not the reference's."""


def exact(value: float) -> Tensor:
    return torch.tensor(value, dtype=torch.float64)


def same(what: str, found: Tensor | float, expected: Tensor | float, tolerance: float | Tensor = 1e-8) -> None:
    """Raise Differs where the two are farther apart than the tolerance and a relative 1e-9; infinities are equal."""
    found, expected = (torch.as_tensor(value, dtype=torch.float64).detach() for value in (found, expected))
    if found.shape != expected.shape:
        raise Differs(f"{what}: shape {list(found.shape)} instead of {list(expected.shape)}")
    both = (found == expected) | ((found - expected).abs() <= tolerance + 1e-9 * expected.abs())
    if not bool(both.all()):
        worst = (found - expected).abs().nan_to_num(math.inf).max()
        raise Differs(
            f"{what}: {found.flatten()[:4].tolist()} instead of {expected.flatten()[:4].tolist()} ({worst:.3g})"
        )
