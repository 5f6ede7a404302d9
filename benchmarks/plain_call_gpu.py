"""A plain call of `inside` with its gradients: launched kernel by kernel, replayed from its cache, and as one graph.

    python benchmarks/plain_call_gpu.py [--rows 1,2,mixed]

Needs torch and triton alone (PYTHONPATH=src where the package is not installed). Appends to results/plain_call_gpu.csv.
The third way is the least time there can be: the caller captures forward and backward together as one CUDA graph by
hand. Rules are in bfloat16. Memory is what the allocator reserves at most beside the inputs, graphs included.
"""

import argparse
import time
from pathlib import Path

import torch

from benchmarking.peak_memory import release
from benchmarking.report import append_rows, check_columns, environment
from benchmarking.sizes import Size, forward_backward
from measuring import FIGURES, WAYS, measure_ways, mixed_lengths
from simplepcfg.errors import is_out_of_memory
from simplepcfg.ops.inside import clear_graphs

RESULTS = Path(__file__).parent / "results" / "plain_call_gpu.csv"
MIXED = mixed_lengths(16)
ROWS = {
    "1": Size(16, 20, 512, 1024),
    "2": Size(16, 40, 512, 1024),
    "3": Size(16, 20, 4096, 8192),
    "4": Size(16, 40, 4096, 8192),
    "5": Size(16, 20, 8192, 16384),
    "6": Size(16, 40, 8192, 16384),
    "7": Size(64, 40, 4096, 8192),
    "mixed": Size(len(MIXED), max(MIXED), 512, 1024, MIXED),
}
COLUMNS = (
    *("when", "machine", "threads", "torch", "triton", "python", "commit", "B", "n", "N", "P", "lengths"),
    *FIGURES,
    "failure",
)
BUDGET_S = 1.0  # one timing takes about this long


def main() -> None:
    """Measure, print and record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", default=",".join(ROWS), help="some of 1 … 7 and mixed, separated by commas")
    parser.add_argument("--repeats", type=int, default=50)
    parser.add_argument("--commit", help="what was measured, where the tree has no history")
    parser.add_argument("--csv", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    names = arguments.rows.split(",")
    unknown = [name for name in names if name not in ROWS]
    if unknown:
        parser.error(f"--rows {unknown[0]} is unknown; take some of {', '.join(ROWS)}")
    if not torch.cuda.is_available():
        parser.error("torch sees no CUDA GPU here")
    began = time.monotonic()
    check_columns(arguments.csv, COLUMNS)
    where = environment(torch.device("cuda"), arguments.commit)
    print(f"{where['machine']}, torch {where['torch']}, triton {where['triton']}, commit {where['commit']}")
    print("forward + backward in bf16: milliseconds (median) and MB reserved")
    heads = ("plain", "call", "graph", "plain/call", "call/graph", "plain MB", "call MB", "graph MB")
    print(f"{'B, n, N, P':<24}" + "".join(f"{head:>12}" for head in heads), flush=True)
    for name in names:
        row = measured(ROWS[name], arguments.repeats)
        append_rows(arguments.csv, [{**where, **row}])
        print(line(row), flush=True)
    print(f"{time.monotonic() - began:.0f} s", flush=True)


def measured(size: Size, repeats: int) -> dict[str, object]:
    """One row: times and memory of the three ways, and their ratios."""
    device = torch.device("cuda", torch.cuda.current_device())
    lengths = "equal" if size.lengths is None else "mixed"
    row: dict[str, object] = dict.fromkeys(COLUMNS[7:], "")
    row |= {"B": size.batch, "n": size.n, "N": size.nonterminals, "P": size.preterminals, "lengths": lengths}
    try:
        step = forward_backward(size, "triton", "bf16", device)
        return row | measure_ways(step, device, repeats, BUDGET_S)
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        return row | {"failure": "OOM"}
    finally:
        clear_graphs()
        release()


def line(row: dict[str, object]) -> str:
    """A line of the table."""
    size = ", ".join(str(row[name]) for name in ("B", "n", "N", "P"))
    start = f"{size + (' mixed' if row['lengths'] == 'mixed' else ''):<24}"
    if row["failure"]:
        return f"{start}{row['failure']:>12}"
    figures = [row[f"{way}_ms_p50"] for way in WAYS] + [row["speedup"], row["over_graph"]]
    peaks = [row[f"{way}_peak_mb"] for way in WAYS]
    return start + "".join(f"{figure:>12.3f}" for figure in figures) + "".join(f"{peak:>12.0f}" for peak in peaks)


if __name__ == "__main__":
    main()
