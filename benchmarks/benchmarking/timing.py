"""Timing of functions, and measured peak rates of matrix products and copies."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec

import torch

QUANTILES = (0.2, 0.5, 0.8)
DTYPES = {"bf16": torch.bfloat16, "tf32": torch.float32, "fp32": torch.float32}
# What peak rates are measured with: a square product, and a copy of so many numbers, more than caches hold.
PRODUCT_SIZE = {"cpu": 1536, "cuda": 8192}
COPIED_NUMBERS = {"cpu": 1 << 26, "cuda": 1 << 28}


@dataclass(frozen=True, slots=True)
class Times:
    """Quantiles of times in milliseconds."""

    p20: float
    p50: float
    p80: float

    @classmethod
    def of(cls, milliseconds: Sequence[float]) -> "Times":
        """Compute the quantiles of measured times."""
        values = torch.tensor(list(milliseconds), dtype=torch.float64)
        return cls(*torch.quantile(values, torch.tensor(QUANTILES, dtype=torch.float64)).tolist())


def measure(function: Callable[[], object], device: torch.device, repeats: int, budget_s: float) -> Times:
    """Measure a function over up to ``repeats`` runs, or fewer if they would take longer than ``budget_s`` seconds."""
    if device.type == "cuda":
        return _measure_on_gpu(function, repeats, budget_s)
    first = _once(function)
    if first > 500 * budget_s:  # there is no time for a second run
        return Times.of([first])
    count = max(1, min(repeats, int(1000 * budget_s / max(first, 1e-3))))
    return Times.of([_once(function) for _ in range(count)])


def _once(function: Callable[[], object]) -> float:
    began = time.perf_counter()
    function()
    return 1000 * (time.perf_counter() - began)


def _measure_on_gpu(function: Callable[[], object], repeats: int, budget_s: float) -> Times:
    """Measure on a GPU by Triton's benchmark function if its seven extra runs are affordable, else by CUDA events."""
    function()
    first = _by_events(function, 1)[0]
    affordable = int(1000 * budget_s / max(first, 1e-3)) - 7
    if affordable > 3 and find_spec("triton") is not None:
        import triton.testing

        run_ms = min(repeats, affordable) * first
        timing = {"warmup": max(1, round(run_ms / 5)), "rep": max(1, round(run_ms)), "quantiles": list(QUANTILES)}
        return Times(*triton.testing.do_bench(function, **timing))
    return Times.of(_by_events(function, min(repeats, 3)))


def _by_events(function: Callable[[], object], count: int) -> list[float]:
    events = [(torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)) for _ in range(count)]
    for start, end in events:
        start.record()
        function()
        end.record()
    torch.cuda.synchronize()
    return [start.elapsed_time(end) for start, end in events]


def captured(function: Callable[[], object]) -> Callable[[], None]:
    """Capture a function as a CUDA graph after a warm-up on a side stream; return a function that replays it."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(2):
            function()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        function()
    return graph.replay


@contextmanager
def matrix_mode(precision: str) -> Iterator[None]:
    """Let float32 products use TF32 on a GPU if that is measured."""
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before


class Machine:
    """The peak rates of a device, measured on first use."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        if device.type == "cuda" and device.index is not None:
            torch.cuda.set_device(device)  # Triton launches on the current GPU
        self._rates: dict[str, float] = {}

    def flops_per_second(self, precision: str) -> float:
        """Return the rate of one large matrix product in this precision."""
        if precision not in self._rates:
            size = PRODUCT_SIZE["cuda" if self.device.type == "cuda" else "cpu"]
            a = torch.rand(size, size, device=self.device).to(DTYPES[precision])
            out = torch.empty_like(a)
            with matrix_mode(precision):
                times = measure(lambda: torch.mm(a, a, out=out), self.device, 10, 2.0)
            self._rates[precision] = 2 * size**3 / times.p50 * 1000
        return self._rates[precision]

    @cached_property
    def bytes_per_second(self) -> float:
        """The rate of reads and writes when a tensor that exceeds all caches is copied."""
        count = COPIED_NUMBERS["cuda" if self.device.type == "cuda" else "cpu"]
        source = torch.rand(count, device=self.device)
        target = torch.empty_like(source)
        times = measure(lambda: target.copy_(source), self.device, 10, 1.0)
        return 2 * 4 * count / times.p50 * 1000
