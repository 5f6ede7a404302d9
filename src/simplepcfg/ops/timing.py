"""Timing on a GPU by Triton. This module is in ops because Triton is imported nowhere else; import it on first use."""

from collections.abc import Callable, Sequence

import triton.testing


def bench_quantiles(function: Callable[[], object], run_ms: float, quantiles: Sequence[float]) -> list[float]:
    """Measure quantiles of the GPU time of a function in milliseconds, with a cold cache, for about ``run_ms``."""
    warmup = max(1, round(run_ms / 5))
    return triton.testing.do_bench(function, warmup=warmup, rep=max(1, round(run_ms)), quantiles=list(quantiles))
