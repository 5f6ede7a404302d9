"""Triton's timer. It stands here because Triton is imported nowhere else, and, like the kernels, on first use."""

from collections.abc import Callable, Sequence

import triton.testing


def bench_quantiles(function: Callable[[], object], run_ms: float, quantiles: Sequence[float]) -> list[float]:
    """Quantiles in milliseconds of a function's time on the GPU, over runs that fill ``run_ms``, caches cleared."""
    warmup = max(1, round(run_ms / 5))
    return triton.testing.do_bench(function, warmup=warmup, rep=max(1, round(run_ms)), quantiles=list(quantiles))
