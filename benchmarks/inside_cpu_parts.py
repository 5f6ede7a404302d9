"""What the inside algorithm on a CPU spends its time with: the shares of matrix products, split sums and the rest.

    python benchmarks/inside_cpu_parts.py [--threads 1] [--sizes 16,20,512,1024]

Forward and backward of the torch backend under torch's profiler. Split sums are multiplications and sums of rows; what
is neither these, a product nor a copy is mostly the time of Python and of starting operations. The last column is how
many times as fast everything would be if split sums took no time: the most that a compiled one could give. Appends a
row a size to results/inside_cpu_parts.csv.
"""

import argparse
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity, profile

from simplepcfg.benchmarking.report import append_rows, environment
from simplepcfg.benchmarking.sizes import Size, forward_backward

RESULTS = Path(__file__).parent / "results" / "inside_cpu_parts.csv"
SIZES = ("4,20,128,256", "16,20,512,1024", "4,40,512,1024")
CPU = torch.device("cpu")
PARTS = {
    "products": ("aten::mm", "aten::addmm_", "aten::addmm", "aten::bmm", "aten::baddbmm_"),
    "split_sums": ("aten::mul", "aten::mul_", "aten::addcmul_", "aten::addcmul", "aten::sum"),
    "copies": ("aten::copy_", "aten::cat", "aten::fill_", "aten::zero_"),
}


def main() -> None:
    """Measure, print and record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", nargs="*", default=SIZES, metavar="B,n,N,P")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--csv", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    for size in map(Size.parse, arguments.sizes):
        shares = measured_shares(size, arguments.repeats)
        row = dict(zip(("B", "n", "N", "P"), (size.batch, size.n, size.nonterminals, size.preterminals), strict=True))
        row |= {f"{name}_percent": round(100 * share, 1) for name, share in shares.items()}
        row["most_by_split_sums"] = round(1 / (1 - shares["split_sums"]), 3)
        print(", ".join(f"{name} {value}" for name, value in row.items()))
        append_rows(arguments.csv, [environment(CPU) | row])


def measured_shares(size: Size, repeats: int) -> dict[str, float]:
    """The share of each part in the time of all operations, and of what is left."""
    run = forward_backward(size, "torch", "fp32", CPU)
    run()
    with profile(activities=[ProfilerActivity.CPU]) as recorded:
        for _ in range(repeats):
            run()
    times = {item.key: item.self_cpu_time_total for item in recorded.key_averages()}
    total = sum(times.values())
    shares = {part: sum(times.get(name, 0.0) for name in names) / total for part, names in PARTS.items()}
    return shares | {"rest": 1 - sum(shares.values())}


if __name__ == "__main__":
    main()
