"""The rows of an inside chart that prefix probabilities read, for every backend."""

from typing import Protocol

from torch import Tensor

from simplepcfg.errors import InputError
from simplepcfg.ops.arguments import InsideArguments
from simplepcfg.ops.backends import check_kernels, default_backend
from simplepcfg.ops.prefix.scaled_rows import ScaledRows

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
    chosen = default_backend(like) if backend == "auto" else backend
    if chosen not in BACKENDS:
        raise InputError(f"backend {backend!r} gives no prefix probabilities; take one of auto, {', '.join(BACKENDS)}")
    check_kernels(chosen, like)
    return chosen


def inside_rows(arguments: InsideArguments, backend: str) -> InsideRows:
    """Run the inside algorithm and return its chart, without spans that end with the last word of a sentence."""
    if chosen_backend(backend, arguments.log_emissions) == "torch":
        return ScaledRows(arguments)
    from simplepcfg.ops.inside.packed_chart import PackedChart
    from simplepcfg.ops.prefix.packed_rows import PackedRows

    return PackedRows(PackedChart(arguments))
