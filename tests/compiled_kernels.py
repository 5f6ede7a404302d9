"""Compile the Triton kernels of the inside algorithm for a GPU that is not there, and print what each needs.

    python tests/compiled_kernels.py 80 bf16    # compute capability 8.0; a line a kernel: name and shared memory

Runs in a process of its own: the tests run kernels in Triton's interpreter, which does not compile.
"""

import os
import sys

os.environ["TRITON_INTERPRET"] = "0"

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.runtime import driver
from triton.runtime.jit import KernelInterface

from simplepcfg.ops.inside import packed_chart
from simplepcfg.ops.inside.arguments import check_arguments


class AbsentGPU:
    """As much of Triton's driver as compiling asks for."""

    def __init__(self, capability: int) -> None:
        self.target = GPUTarget("cuda", capability, 32)

    def get_current_target(self) -> GPUTarget:
        return self.target

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: int) -> int:
        return 0


def compile_all(capability: int, precision: str) -> dict[str, int]:
    """Compile every kernel of both passes; return the shared memory in bytes that each needs at most."""
    driver.set_active(AbsentGPU(capability))
    shared: dict[str, int] = {}

    def compile_only(kernel: KernelInterface, grid: object) -> object:
        def call(*given: object, **options: object) -> None:
            compiled = kernel.run(*given, grid=grid, warmup=True, **options)
            name = kernel.__name__
            shared[name] = max(shared.get(name, 0), compiled.metadata.shared)

        return call

    KernelInterface.__getitem__ = compile_only  # type: ignore[method-assign]
    packed_chart.LEAST_TILES = 1  # so that two widths are summed at once
    dtype = torch.float64 if precision == "fp64" else torch.float32
    for states in (2048, 100):  # more than a block of states, and less than one
        for lengths in (None, torch.tensor([7, 6])):
            left, right = torch.full((2, states, states + 32), 1.0 / (states + 32), dtype=dtype)
            root, emissions = torch.full((states,), 1.0 / states, dtype=dtype), torch.zeros(2, 7, 32, dtype=dtype)
            asked = None if precision == "fp64" else precision
            chart = packed_chart.PackedChart(check_arguments(emissions, root, left, right, lengths, None, asked))
            chart.fill()
            marginals = torch.zeros(2, 8, 8, dtype=dtype)
            chart.backward(torch.ones(2, dtype=dtype), True, True, True, marginals)
    return shared


if __name__ == "__main__":
    for name, size in compile_all(int(sys.argv[1]), sys.argv[2]).items():
        print(name, size)
    print("triton", triton.__version__)
