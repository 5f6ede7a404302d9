"""Every backend of the inside algorithm on a GPU, forward and backward, and a batch of mixed lengths.

    python benchmarks/inside_gpu.py [--rows 1,2,mixed] [--backends paper,triton] [--precision bf16]

Needs torch and triton alone (PYTHONPATH=src where the package is not installed). Appends to results/inside_gpu.csv.
The mixed row: 64 sentences as a treebank has them against a batch of equal lengths of as many spans, N = 4096.
"""

import argparse
import math
import time
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path

import torch

from benchmarking.inside import PRECISIONS, Result, Variant, bare_result, benchmark_inside, choose_variants
from benchmarking.report import (
    append_and_yield,
    append_rows,
    as_row,
    check_columns,
    describe,
    environment,
    table,
)
from benchmarking.sizes import Size
from benchmarking.timing import Machine
from measuring import equal_lengths_like, mixed_lengths
from simplepcfg.errors import SimplePCFGError
from simplepcfg.ops.inside import BACKENDS

RESULTS = Path(__file__).parent / "results" / "inside_gpu.csv"
ROWS = (
    Size(16, 20, 512, 1024),
    Size(16, 40, 512, 1024),
    Size(16, 20, 4096, 8192),
    Size(16, 40, 4096, 8192),
    Size(16, 20, 8192, 16384),
    Size(16, 40, 8192, 16384),
    Size(64, 40, 4096, 8192),
    Size(16, 20, 32768, 65536),
)
# One result's timing takes about this long, whatever the backend.
BUDGET_S = 1.0


def main() -> None:
    """Measure, print and record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", default="1,2,3,4,5,6,7,8,mixed", help="numbers of rows, counted from 1, and mixed")
    parser.add_argument("--backends", help="only these, separated by commas")
    parser.add_argument("--precision", help="only these, separated by commas")
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=220, help="what is left after this long is not measured")
    parser.add_argument("--commit", help="what was measured, where the tree has no history")
    parser.add_argument("--csv", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        parser.error("torch sees no CUDA GPU here; on a CPU run benchmarks/inside_cpu.py")
    names = arguments.rows.split(",")
    unknown = [name for name in names if name not in ("mixed", *map(str, range(1, len(ROWS) + 1)))]
    if unknown:
        parser.error(f"--rows {unknown[0]} is unknown; take some of 1 … {len(ROWS)} and mixed")
    try:
        measure(arguments, names)
    except SimplePCFGError as error:
        parser.error(str(error))


def measure(arguments: argparse.Namespace, names: list[str]) -> None:
    """The rows that were asked for, then the mixed one, within the time allowed."""
    began = time.monotonic()
    add_paper()
    device = torch.device("cuda")
    backends, precisions = (part and part.split(",") for part in (arguments.backends, arguments.precision))
    variants = choose_variants(device, backends, precisions)
    check_columns(arguments.csv)
    where = environment(device, arguments.commit)
    machine = Machine(device)
    print(describe(machine, [variant.precision for variant in variants]), flush=True)
    sizes = [ROWS[int(name) - 1] for name in names if name != "mixed"]
    reserve = 25.0 if "mixed" in names else 0.0
    until = began + arguments.seconds - reserve
    results = each_result(sizes, variants, machine, arguments.repeats, until)
    for line in table(append_and_yield(results, arguments.csv, where)):
        print(line, flush=True)
    if "mixed" in names:
        for result in mixed_row(machine, arguments.repeats):
            append_rows(arguments.csv, [as_row(result, where)])
    print(f"{time.monotonic() - began:.0f} s", flush=True)


def add_paper() -> None:
    """Add FlashInside as the paper describes it to the backends, and to what is measured, before our own."""
    from paper_chart import paper_inside  # imports Triton

    BACKENDS["paper"] = paper_inside
    ours = {name: PRECISIONS.pop(name) for name in ("torch", "triton")}
    PRECISIONS.update(paper=("fp32", "tf32"), **ours)


def each_result(
    sizes: Sequence[Size], variants: Sequence[Variant], machine: Machine, repeats: int, until: float = math.inf
) -> Iterator[Result]:
    """Measure all variants, size by size; an error is printed and is that variant's failure.

    After the time `until` of `time.monotonic` nothing is measured.
    """
    for size, variant in product(sizes, variants):
        if time.monotonic() > until:
            yield replace(bare_result(size, variant, machine), failure="no time")
            continue
        try:
            yield from benchmark_inside(
                [size], [variant], machine.device, repeats=repeats, budget_s=BUDGET_S, machine=machine
            )
        except Exception as error:
            traceback.print_exc()
            yield replace(bare_result(size, variant, machine), failure=type(error).__name__)


def mixed_row(machine: Machine, repeats: int) -> list[Result]:
    """Mixed against equal lengths, per span; as a graph too, which comes last because it may not be capturable."""
    lengths = mixed_lengths(64)
    mixed = Size(len(lengths), max(lengths), 4096, 8192, lengths)
    equal = equal_lengths_like(mixed)
    print(
        f"\nmixed: {mixed}, {mixed.words} words, {mixed.inner_spans} spans; equal: {equal}, {equal.inner_spans} spans"
    )
    results: list[Result] = []
    for mode in ("eager", "graph"):
        variant = Variant("triton", "bf16", mode)
        pair = list(each_result([equal, mixed], [variant], machine, repeats))
        results += pair
        by_span = [result.times and result.times.p50 / result.size.inner_spans for result in pair]
        shown = ", ".join(f"{result.times.p50:.3f} ms" if result.times else result.failure for result in pair)
        ratio = f"{by_span[1] / by_span[0]:.3f}" if by_span[0] and by_span[1] else "–"
        print(f"triton bf16 {mode}: equal, mixed: {shown}; mixed over equal at the same spans: {ratio}", flush=True)
    return results


if __name__ == "__main__":
    main()
