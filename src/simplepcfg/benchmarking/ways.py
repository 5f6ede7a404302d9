"""Three ways to make a call on a GPU: launched kernel by kernel, replayed from the cache of graphs, or as one graph."""

from collections.abc import Callable
from contextlib import nullcontext

import torch

from simplepcfg.benchmarking.memory import release
from simplepcfg.benchmarking.timing import Times, captured, measure
from simplepcfg.ops.graphs import clear_graphs, graphs_of, without_graphs

WAYS = ("plain", "call", "graph")
QUANTITIES = ("ms_p20", "ms_p50", "ms_p80", "peak_mb")
FIGURES = (*(f"{way}_{quantity}" for way in WAYS for quantity in QUANTITIES), "speedup", "over_graph", "replayed")


def measure_ways(
    step: Callable[[], object], device: torch.device, repeats: int, budget_s: float, has_graph: bool = True
) -> dict[str, object]:
    """Measure a call in all ways: milliseconds, and the memory that the allocator reserves beside the inputs.

    ``has_graph`` is false if the caller cannot capture the call as one graph, because it reads something on the host;
    these figures are then empty. ``speedup`` and ``over_graph`` compare the medians.
    """
    row: dict[str, object] = dict.fromkeys(FIGURES, "")
    times = {
        way: _measure_way(way, step, device, repeats, budget_s, row) for way in WAYS if has_graph or way != "graph"
    }
    row["speedup"] = round(times["plain"].p50 / times["call"].p50, 4)
    if has_graph:
        row["over_graph"] = round(times["call"].p50 / times["graph"].p50, 4)
    return row


def _measure_way(
    way: str, step: Callable[[], object], device: torch.device, repeats: int, budget_s: float, row: dict[str, object]
) -> Times:
    """Time one way and write its figures into the row."""
    clear_graphs()
    with without_graphs():
        step()  # compiles kernels
    torch.cuda.synchronize()
    release()
    reserved = torch.cuda.memory_reserved()
    torch.cuda.reset_peak_memory_stats()
    with nullcontext() if way == "call" else without_graphs():
        run = captured(step) if way == "graph" else step
        for _ in range(3):  # the second call captures, the third replays
            run()
        torch.cuda.synchronize()
        peak = (torch.cuda.max_memory_reserved() - reserved) / 1e6
        found = measure(run, device, repeats, budget_s)
    if way == "call":
        graphs = graphs_of(device)
        row["replayed"] = int(graphs is not None and graphs.has_replayed)
    figures = (found.p20, found.p50, found.p80, peak)
    row |= {f"{way}_{quantity}": round(figure, 4) for quantity, figure in zip(QUANTITIES, figures, strict=True)}
    return found
