"""The torch backend beside log_einsum_exp and beside its own matrix products, on a CPU, all in one run.

    python benchmarks/inside_cpu.py [--repeats 11] [--threads 2]

Forward and backward. Four things are timed in turns: both backends, the matrix products alone in the shapes that the
algorithm makes them, and one large product of as many flops. Appends a row a size to results/inside_cpu.csv.
"""

import argparse
from collections.abc import Callable
from pathlib import Path

import torch

from benchmarking.peak_memory import peak_on_cpu
from benchmarking.report import append_rows, environment
from benchmarking.sizes import Size, forward_backward
from benchmarking.timing import Times
from measuring import measure_in_turns

RESULTS = Path(__file__).parent / "results" / "inside_cpu.csv"
SIZES = ("4,20,128,256", "16,20,512,1024", "4,40,512,1024")
CPU = torch.device("cpu")
# The rule gradient is one product over many spans: rows are collected up to here.
GRADIENT_ROWS = 512


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
        torch_ms, log_ms, products_ms, large_ms = measure_in_turns(
            [
                forward_backward(size, "torch", "fp32", CPU),
                forward_backward(size, "log_einsum_exp", "fp32", CPU),
                products_by_width(size),
                one_large_product(size),
            ],
            arguments.repeats,
        )
        row = {
            **environment(CPU),
            "B": size.batch,
            "n": size.n,
            "N": size.nonterminals,
            "P": size.preterminals,
            **quantiles("torch_ms", torch_ms),
            **quantiles("log_einsum_exp_ms", log_ms),
            "speedup": round(log_ms.p50 / torch_ms.p50, 3),
            "torch_peak_mb": round(peak_on_cpu(size, "torch", "fp32") / 1e6, 2),
            "log_einsum_exp_peak_mb": round(peak_on_cpu(size, "log_einsum_exp", "fp32") / 1e6, 2),
            "products_ms": round(products_ms.p50, 3),
            "large_product_ms": round(large_ms.p50, 3),
            "torch_over_products": round(torch_ms.p50 / products_ms.p50, 3),
        }
        append_rows(arguments.csv, [row])
        print(
            f"{size}: torch {torch_ms.p50:.1f} ms ({row['torch_peak_mb']} MB), "
            f"log_einsum_exp {log_ms.p50:.1f} ms ({row['log_einsum_exp_peak_mb']} MB), {row['speedup']} times faster; "
            f"its matrix products alone {products_ms.p50:.1f} ms (torch: {row['torch_over_products']} times that), "
            f"one large product {large_ms.p50:.1f} ms",
            flush=True,
        )


def quantiles(name: str, times: Times) -> dict[str, float]:
    """Three columns."""
    return {f"{name}_p{part}": round(getattr(times, f"p{part}"), 3) for part in (20, 50, 80)}


def products_by_width(size: Size) -> Callable[[], None]:
    """The products of forward and backward: one a width either way, and for the rules' gradient few, large ones."""
    states, tags = size.nonterminals, size.preterminals
    rules = torch.rand(2 * states, states + tags)
    by_rules = torch.zeros_like(rules)
    widths = [size.batch * (size.n - width + 1) for width in range(2, size.n)]
    most = max([size.words, GRADIENT_ROWS + size.batch * size.n])
    beta, children, emit = torch.rand(most, states), torch.rand(most, 2 * states), torch.rand(size.words, tags)

    def run() -> None:
        torch.mm(emit, rules[:, states:].T)
        for rows in widths:
            torch.mm(beta[:rows], rules[:, :states].T)
        pending = 0
        for rows in reversed(widths):
            torch.mm(children[:rows], rules[:, :states])
            pending += rows
            if pending >= GRADIENT_ROWS:
                by_rules[:, :states].addmm_(children[:pending].T, beta[:pending])
                pending = 0
        if pending:
            by_rules[:, :states].addmm_(children[:pending].T, beta[:pending])
        torch.mm(children[: size.words].T, emit, out=by_rules[:, states:])
        torch.mm(children[: size.words], rules[:, states:])

    return run


def one_large_product(size: Size) -> Callable[[], None]:
    """As many flops in one product with a rule matrix: no algorithm on this machine is faster."""
    states = size.nonterminals
    rows = torch.rand(max(1, round(size.flops / (4 * states * states))), states)
    rules, out = torch.rand(states, 2 * states), torch.empty(rows.shape[0], 2 * states)

    def run() -> None:
        torch.mm(rows, rules, out=out)

    return run


if __name__ == "__main__":
    main()
