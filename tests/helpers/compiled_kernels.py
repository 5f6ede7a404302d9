"""Compile the Triton kernels of inside, Viterbi and emissions for a GPU that is not there; print what each needs.

    python tests/helpers/compiled_kernels.py 80 bf16  # compute capability 8.0; a line a kernel: name and shared memory

Runs in a process of its own: the tests run kernels in Triton's interpreter, which does not compile.
"""

import os
import sys

from random_grammars import rules_and_sentences

os.environ["TRITON_INTERPRET"] = "0"

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.runtime import driver
from triton.runtime.jit import KernelInterface

from simplepcfg.ops.arguments import InsideArguments, Needs, check_arguments
from simplepcfg.ops.inside import packed_chart
from simplepcfg.ops.inside.padded_chart import make_padded_chart
from simplepcfg.ops.neural import batch_words, emissions
from simplepcfg.ops.viterbi.fused import FusedViterbiChart


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
    asked = None if precision == "fp64" else precision
    for states in (2048, 100):  # more than a block of states, and less than one
        equal, mixed = (case(states, lengths, dtype, asked) for lengths in (None, torch.tensor([7, 6])))
        for chart in (packed_chart.PackedChart(equal), packed_chart.PackedChart(mixed), make_padded_chart(mixed)):
            chart.fill()
            chart.backward(torch.ones(2, dtype=dtype), Needs(True, True, True), torch.zeros(2, 8, 8, dtype=dtype))
        if precision != "tf32":
            trees = FusedViterbiChart(mixed)
            trees.trees(trees.fill())
    if precision == "bf16":
        compile_emissions()
    return shared


def case(states: int, lengths: torch.Tensor | None, dtype: torch.dtype, precision: str | None) -> InsideArguments:
    """Two sentences of seven words, or of fewer."""
    left, right = torch.full((2, states, states + 32), 1.0 / (states + 32), dtype=dtype)
    root, log_emissions = torch.full((states,), 1.0 / states, dtype=dtype), torch.zeros(2, 7, 32, dtype=dtype)
    return check_arguments(*rules_and_sentences(log_emissions, root, left, right, lengths=lengths, precision=precision))


def compile_emissions() -> None:
    """Those of one table of features, and of one for each sentence, forward and backward."""
    for own in (False, True):
        features = torch.zeros(*([2] if own else []), 40, 64, requires_grad=True)
        embeddings = torch.zeros(90, 64, requires_grad=True)
        rows = torch.zeros(2, 7, dtype=torch.int64) if own else torch.zeros(14, dtype=torch.int64)
        found = emissions._EmissionLogProbabilities.apply(features, embeddings, rows, "bf16", True, True)
        torch.autograd.grad(found.sum(), (features, embeddings))
        # On a CPU the backward pass does without these.
        links, sums = batch_words.word_links(rows), torch.zeros((*rows.shape[:-1], 40))
        batch_words.by_linked_words(links, found.detach(), found.detach(), sums, sums, 0.1, torch.bfloat16)
    batch_words.add_occurrences(
        torch.zeros(90, 64), torch.zeros(14, 64), rows.flatten(), batch_words.word_links(rows.flatten())
    )


if __name__ == "__main__":
    for name, size in compile_all(int(sys.argv[1]), sys.argv[2]).items():
        print(name, size)
    print("triton", triton.__version__)
