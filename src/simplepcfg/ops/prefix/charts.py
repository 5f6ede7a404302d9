"""The rows of an inside chart that prefix probabilities read, for every backend."""

from typing import Protocol

import torch
from torch import Tensor

from simplepcfg.errors import InputError
from simplepcfg.ops.backends import check_kernels, default_backend
from simplepcfg.ops.inside.arguments import InsideArguments
from simplepcfg.ops.inside.scaled_chart import ScaledChart
from simplepcfg.ops.inside.scales import DEAD

BACKENDS = ("torch", "triton")


class InsideRows(Protocol):
    """Rows of a filled chart in float64, relative to each word's largest emission, where value = row · 2^exponent."""

    def left_children(self, j: int) -> tuple[Tensor, Tensor]:
        """Return η(i, j) for i = 0 … j − 1: [B, j, N] and exponents [B, j]; 0 and DEAD for missing spans."""
        ...

    def word_children(self) -> tuple[Tensor, Tensor]:
        """Return η(j, j + 1) and ζ(j, j + 1) of every word: [B, n, 2, N] and exponents [B, n, 2]."""
        ...

    def prefix(self, m: int) -> tuple[Tensor, Tensor]:
        """Return β(0, m) for m ≥ 2: [B, N] and exponents [B]."""
        ...


def chosen_backend(backend: str, like: Tensor) -> str:
    """Return the name of the backend of the inside chart; InputError if there is none of this name."""
    found = default_backend(like) if backend == "auto" else backend
    if found not in BACKENDS:
        raise InputError(f"backend {backend!r} gives no prefix probabilities; take one of auto, {', '.join(BACKENDS)}")
    check_kernels(found, like)
    return found


def inside_rows(arguments: InsideArguments, backend: str) -> InsideRows:
    """Run the inside algorithm and return its chart."""
    if chosen_backend(backend, arguments.log_emissions) == "torch":
        return _ScaledRows(arguments)
    from simplepcfg.ops.inside.packed_chart import PackedChart
    from simplepcfg.ops.prefix.packed_rows import PackedRows

    return PackedRows(PackedChart(arguments))


class _ScaledRows(ScaledChart):
    """The scaled chart, in whose square η(i, j) is at [i, j].

    The last word of each sentence is the one that stands for any next word: no span that ends with it is asked for.
    """

    def __init__(self, arguments: InsideArguments) -> None:
        super().__init__(arguments)
        self.beta_exponents: dict[int, Tensor] = {}  # by width: [B, spans]
        self.fill()

    def split_sums(self, width: int) -> Tensor:
        # This tensor is updated in place if a span is recomputed in log space.
        self.beta_exponents[width] = super().split_sums(width)
        return self.beta_exponents[width]

    def have_parents(self, width: int, lengths: Tensor) -> Tensor:
        return torch.arange(width, self.n + 1, device=self.device) < lengths[:, None]

    def left_children(self, j: int) -> tuple[Tensor, Tensor]:
        return self.square.cells[:, :j, j].double(), self.exponents.cells[:, :j, j].double()

    def word_children(self) -> tuple[Tensor, Tensor]:
        return self.square.rows(1).double(), self.exponents.rows(1).double()

    def prefix(self, m: int) -> tuple[Tensor, Tensor]:
        exponents = self.beta_exponents[m][:, 0].double()
        return self.beta[m][:, 0].double(), exponents.masked_fill(exponents < DEAD / 2, DEAD)
