"""Speed and memory of the inside algorithm on this machine, forward and backward, for each backend.

    python benchmarks/inside.py [--quick] [--sizes 16,20,512,1024] [--backends log_einsum_exp,torch] [--csv FILE]
    python benchmarks/inside.py --paper reproduction/speed

Times are medians in milliseconds; peak memory is what comes on top of the inputs (on a CPU: growth of the resident set
of a process that runs it once). Speed × and memory × are relative to the first row that ran. The floor is the time of
the matrix products alone at this machine's own rate for large ones; "splits ms" is what the sums over split points
would take at its copying bandwidth. OOM: more memory than there is. With --paper, table.md and table.csv in that folder
set the ratios beside those of the paper's table 1; on a GPU the sizes are then the paper's.
"""

import argparse
import sys
from pathlib import Path

from benchmarking import inside, report
from benchmarking.paper_speed import speed_table
from benchmarking.sizes import Size
from benchmarking.timing import Machine
from simplepcfg.errors import SimplePCFGError
from simplepcfg.runs.device import resolve_device


def main(given: list[str] | None = None) -> None:
    """Measure, print and record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", nargs="+", metavar="B,n,N,P", help="sentences, words, nonterminals, preterminals")
    parser.add_argument("--backends", help="only these, separated by commas")
    parser.add_argument("--precision", help="only these, separated by commas")
    parser.add_argument("--repeats", type=int, default=20, help="runs to take the median of")
    parser.add_argument("--csv", type=Path, help="append the rows to this file, too")
    parser.add_argument("--paper", type=Path, metavar="DIR", help="write the table beside the paper's figures")
    parser.add_argument("--quick", action="store_true", help="one small size and few repeats")
    parser.add_argument("--device", default="auto")
    arguments = parser.parse_args(given)
    try:
        measure(arguments)
    except SimplePCFGError as error:
        sys.exit(f"inside.py: {error}")


def measure(arguments: argparse.Namespace) -> None:
    """Measure what is asked for; raise InputError for sizes, backends or a file that cannot be."""
    device = resolve_device(arguments.device)
    sizes = [Size.parse(text) for text in arguments.sizes or ()]
    if not sizes and arguments.paper is not None and device.type == "cuda":
        sizes = list(inside.PAPER_SIZES)
    names = [None if text is None else text.split(",") for text in (arguments.backends, arguments.precision)]
    variants = inside.choose_variants(device, *names)
    if arguments.csv is not None:
        report.check_columns(arguments.csv)
    machine = Machine(device)
    print(report.describe(machine, [variant.precision for variant in variants]), file=sys.stderr)
    if device.type != "cuda" and arguments.backends is None:
        print(f"no GPU: {', '.join(inside.GPU_ONLY)} are left out", file=sys.stderr)
    repeats = min(arguments.repeats, 5) if arguments.quick else arguments.repeats
    chosen = sizes or inside.default_sizes(device, arguments.quick)
    results, where = [], report.environment(device)
    measured = inside.benchmark_inside(chosen, variants, device, repeats=repeats, machine=machine)
    if arguments.csv is not None:
        measured = report.append_and_yield(measured, arguments.csv, where)
    for line in report.table(results.append(result) or result for result in measured):
        print(line, flush=True)
    if arguments.paper is not None:
        arguments.paper.mkdir(parents=True, exist_ok=True)
        speed_table(results, where).write(arguments.paper)


if __name__ == "__main__":
    main()
