"""The inside algorithm of an ordinary PCFG beside the textbook's log-sum-exp, and torch-struct where it is installed.

    python benchmarks/dense_cpu.py [--repeats 11] [--threads 2]

Forward and backward on a CPU, timed in turns in one run. Appends a row a size to results/dense_cpu.csv.
"""

import argparse
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import torch
from torch import Tensor

from benchmarking.report import append_rows, environment
from benchmarking.sizes import Size
from benchmarking.timing import Times
from measuring import measure_in_turns
from simplepcfg.ops.dense import dense_inside

RESULTS = Path(__file__).parent / "results" / "dense_cpu.csv"
SIZES = ("4,20,30,60",)
CPU = torch.device("cpu")


def main() -> None:
    """Measure, print and record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", nargs="*", default=SIZES, metavar="B,n,N,P")
    parser.add_argument("--repeats", type=int, default=11)
    parser.add_argument("--threads", type=int, default=0, help="0 leaves the choice to torch")
    parser.add_argument("--csv", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    for size in map(Size.parse, arguments.sizes):
        inputs = random_inputs(size)
        functions = [ours(inputs, "torch"), ours(inputs, "log_sum_exp")]
        if find_spec("torch_struct") is not None:
            functions.append(torch_struct(inputs))
        names = ("torch", "log_sum_exp", "torch_struct")[: len(functions)]
        times = dict(zip(names, measure_in_turns(functions, arguments.repeats), strict=True))
        row = {**environment(CPU), "B": size.batch, "n": size.n, "N": size.nonterminals, "P": size.preterminals}
        for name in ("torch", "log_sum_exp", "torch_struct"):
            row |= quantiles(f"{name}_ms", times.get(name))
        faster = {
            name: round(measured.p50 / times["torch"].p50, 2) for name, measured in times.items() if name != "torch"
        }
        row |= {"times_faster": faster["log_sum_exp"], "times_torch_struct": faster.get("torch_struct", "")}
        append_rows(arguments.csv, [row])
        shown = ", ".join(f"{name} {measured.p50:.1f} ms" for name, measured in times.items())
        than = " and ".join(f"{times} times faster than {name}" for name, times in faster.items())
        print(f"{size}: {shown}; {than}", flush=True)


def random_inputs(size: Size) -> list[Tensor]:
    """Log-emissions, root and rules, leaves that can be differentiated by."""
    generator = torch.Generator().manual_seed(0)
    states, symbols = size.nonterminals, size.nonterminals + size.preterminals
    emissions = torch.randn(size.batch, size.n, size.preterminals, generator=generator).log_softmax(-1)
    root = torch.randn(states, generator=generator).softmax(-1)
    rules = torch.randn(states, symbols**2, generator=generator).softmax(-1).view(states, symbols, symbols)
    return [tensor.requires_grad_() for tensor in (emissions, root, rules)]


def ours(inputs: list[Tensor], backend: str) -> Callable[[], object]:
    """log Z and its gradients by all inputs."""
    return lambda: torch.autograd.grad(dense_inside(*inputs, backend=backend).sum(), inputs)


def torch_struct(inputs: list[Tensor]) -> Callable[[], object]:
    """The same by torch-struct's SentCFG, which wants rules of each sentence's own, in logs."""
    from torch_struct import SentCFG

    emissions, root, rules = inputs
    batch = emissions.shape[0]

    def run() -> object:
        own = (rules.log().expand(batch, -1, -1, -1), root.log().expand(batch, -1))
        return torch.autograd.grad(SentCFG((emissions, *own)).partition.sum(), inputs)

    return run


def quantiles(name: str, times: Times | None) -> dict[str, float | str]:
    """Three columns, empty where nothing was measured."""
    return {f"{name}_p{part}": "" if times is None else round(getattr(times, f"p{part}"), 3) for part in (20, 50, 80)}


if __name__ == "__main__":
    main()
