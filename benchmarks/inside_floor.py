"""How far the inside algorithm on a GPU is from its floor, with the bytes that each width must read.

    python benchmarks/inside_floor.py

Needs no GPU: takes the times of forward and backward as one CUDA graph from results/plain_call_gpu.csv and
results/inside_gpu.csv, the latest of each size, computes the floor by floors.py, and writes
results/inside_floor.csv anew.
"""

import csv
from pathlib import Path

from benchmarking.report import append_rows
from benchmarking.sizes import Size
from floors import inside_floor

RESULTS = Path(__file__).parent / "results"
SIZES = ("B", "n", "N", "P")
LEAST_STATES = 2048  # smaller grammars wait for launches, about which the floor says nothing
WHERE = ("when", "machine", "torch", "triton", "python", "commit")


def main() -> None:
    """Compute, print and record."""
    target = RESULTS / "inside_floor.csv"
    rows = []
    for key, (milliseconds, measured) in sorted(latest().items()):
        floor = inside_floor(Size(*key))
        row = {name: measured[name] for name in WHERE} | dict(zip(SIZES, key, strict=True))
        row |= {"flops_ms": round(floor.flops_ms, 3), "products_ms": round(floor.products_ms, 3)}
        row |= {"splits_ms": round(floor.splits_ms, 3), "floor_ms": round(floor.total_ms, 3)}
        row |= {"graph_ms": round(milliseconds, 3), "ratio": round(milliseconds / floor.total_ms, 3)}
        rows.append(row)
        print(", ".join(f"{name} {value}" for name, value in row.items() if name not in WHERE))
    target.unlink(missing_ok=True)
    append_rows(target, rows)


def latest() -> dict[tuple[int, ...], tuple[float, dict[str, str]]]:
    """The last measurement of each size, in bf16 with sentences of equal length."""
    latest: dict[tuple[int, ...], tuple[float, dict[str, str]]] = {}
    for name, column in (("inside_gpu.csv", "ms_p50"), ("plain_call_gpu.csv", "graph_ms_p50")):
        with open(RESULTS / name, newline="", encoding="utf-8") as file:
            for row in csv.DictReader(file):
                is_ours = row.get("backend", "triton") == "triton" and row.get("mode", "graph") == "graph"
                is_ours &= row.get("precision", "bf16") == "bf16" and row["lengths"] == "equal" and bool(row[column])
                if is_ours and row["machine"] == "NVIDIA H200" and int(row["N"]) >= LEAST_STATES:
                    latest[tuple(int(row[size]) for size in SIZES)] = (float(row[column]), row)
    return latest


if __name__ == "__main__":
    main()
