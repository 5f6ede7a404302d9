"""What several benchmarks share: batches of mixed lengths, timing in turns, and three ways to make a call on a GPU."""

import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext

import torch

from benchmarking.peak_memory import release
from benchmarking.sizes import Size
from benchmarking.timing import Times, captured, measure
from simplepcfg.ops.cuda_graphs.calls import clear_graphs, graphs_of, without_graphs

# A call is launched kernel by kernel, replayed from the cache of graphs, or captured as one graph by the caller.
WAYS = ("plain", "call", "graph")
QUANTITIES = ("ms_p20", "ms_p50", "ms_p80", "peak_mb")
FIGURES = (*(f"{way}_{quantity}" for way in WAYS for quantity in QUANTITIES), "speedup", "over_graph", "replayed")


def measure_in_turns(functions: Sequence[Callable[[], object]], repeats: int) -> list[Times]:
    """Measure several functions on the CPU in turns, so that other load on the machine affects all of them alike."""
    times: list[list[float]] = [[] for _ in functions]
    for turn in range(repeats + 1):
        for function, milliseconds in zip(functions, times, strict=True):
            began = time.perf_counter()
            function()
            if turn:  # the first run is a warm-up
                milliseconds.append(1000 * (time.perf_counter() - began))
    return [Times.of(milliseconds) for milliseconds in times]


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
        times = measure(run, device, repeats, budget_s)
    if way == "call":
        graphs = graphs_of(device)
        row["replayed"] = int(graphs is not None and graphs.has_replayed)
    figures = (times.p20, times.p50, times.p80, peak)
    row |= {f"{way}_{quantity}": round(figure, 4) for quantity, figure in zip(QUANTITIES, figures, strict=True)}
    return times


def mixed_lengths(batch: int, seed: int = 0) -> tuple[int, ...]:
    """Draw lengths as in a treebank: mean about 21, from 2 to 60, the longest always 60."""
    generator = torch.Generator().manual_seed(seed)
    # A gamma distribution of shape 4 has a standard deviation of half its mean, like sentence lengths of a corpus.
    draws = -torch.rand(batch, 4, generator=generator).clamp(min=1e-9).log().sum(1) * (21 / 4)
    lengths = [min(60, max(2, round(value))) for value in draws.tolist()]
    lengths[0] = 60
    return tuple(lengths)


def equal_lengths_like(size: Size) -> Size:
    """Return the batch of equal lengths that has nearly as many spans and words as one of mixed lengths."""
    per_word = size.inner_spans / size.words
    n = min(range(3, size.n + 1), key=lambda n: abs((n * (n - 1) // 2 - 1) / n - per_word))
    batch = max(1, round(size.inner_spans / (n * (n - 1) // 2 - 1)))
    return Size(batch, n, size.nonterminals, size.preterminals)
