"""What autograd itself costs a small call of `inside` on a GPU, which as one CUDA graph takes a third of a millisecond.

    python benchmarks/plain_call_host.py

Needs torch and triton alone (PYTHONPATH=src where the package is not installed). Appends a row to
results/plain_call_host.csv.
Forward and backward in four ways, in microseconds, the median of runs of 200 calls that follow one another:

- graph: the caller captures both as one CUDA graph;
- call: a plain call;
- in_this_thread: a plain call within `torch.autograd.set_multithreading_enabled(False)`; otherwise autograd hands every
  backward pass on a GPU to a thread of its own;
- empty_function: an autograd function with the same inputs and gradients that computes nothing.
"""

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch import Tensor

from simplepcfg.benchmarking.report import append_rows, environment
from simplepcfg.benchmarking.sizes import Size, forward_backward
from simplepcfg.benchmarking.timing import captured
from simplepcfg.ops.inside import without_graphs

RESULTS = Path(__file__).parent / "results" / "plain_call_host.csv"
SIZE = Size(16, 20, 512, 1024)
CALLS, RUNS = 200, 7


class Nothing(torch.autograd.Function):
    """Returns and receives tensors of the right shapes."""

    @staticmethod
    def forward(ctx: Any, *inputs: Tensor) -> Tensor:
        """Allocate log Z."""
        ctx.save_for_backward(*inputs)
        return inputs[0].new_empty(inputs[0].shape[0])

    @staticmethod
    def backward(ctx: Any, *_: Any) -> Any:
        """Allocate gradients."""
        return tuple(torch.empty_like(tensor) for tensor in ctx.saved_tensors)


def main() -> None:
    """Measure, print and record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--commit", help="what was measured, where the tree has no history")
    parser.add_argument("--csv", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        parser.error("torch sees no CUDA GPU here")
    device = torch.device("cuda", torch.cuda.current_device())
    call = forward_backward(SIZE, "triton", "bf16", device)
    shapes = ((SIZE.batch, SIZE.n, SIZE.preterminals), (SIZE.nonterminals,))
    rules = (SIZE.nonterminals, SIZE.nonterminals + SIZE.preterminals)
    inputs = [torch.zeros(shape, device=device, requires_grad=True) for shape in (*shapes, rules, rules)]

    def nothing() -> object:
        return torch.autograd.grad(Nothing.apply(*inputs).sum(), inputs)

    def in_this_thread() -> object:
        with torch.autograd.set_multithreading_enabled(False):
            return call()

    with without_graphs():
        graph = captured(call)
    ways = {"graph": graph, "call": call, "in_this_thread": in_this_thread, "empty_function": nothing}
    micros = {name: microseconds(way) for name, way in ways.items()}
    row: dict[str, object] = {"B": SIZE.batch, "n": SIZE.n, "N": SIZE.nonterminals, "P": SIZE.preterminals}
    row |= {f"{name}_us": round(value, 1) for name, value in micros.items()}
    row |= {f"{name}_over_graph": round(micros[name] / micros["graph"], 3) for name in ("call", "in_this_thread")}
    print(", ".join(f"{name} {value}" for name, value in row.items()))
    append_rows(arguments.csv, [{**environment(device, arguments.commit), **row}])


def microseconds(function: Callable[[], object]) -> float:
    """The median time of a call."""
    for _ in range(5):
        function()
    times = []
    for _ in range(RUNS):
        torch.cuda.synchronize()
        began = time.perf_counter()
        for _ in range(CALLS):
            function()
        torch.cuda.synchronize()
        times.append(1e6 * (time.perf_counter() - began) / CALLS)
    return median(times)


if __name__ == "__main__":
    main()
