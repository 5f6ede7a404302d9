"""Compile the Triton kernels of a computation on several threads, before it first runs."""

import os
import warnings
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any

import torch

from simplepcfg.ops.backends import has_triton
from simplepcfg.ops.capture import GraphCapturer, Launch

# A kernel takes a core about half a second; more threads than this wait for each other in Python.
MOST_THREADS = 16


def compile_kernels(computations: Iterable[Launch], device: torch.device) -> int:
    """Compile and load the kernels that `computations` launch and that are not compiled yet; return how many.

    Kernels are otherwise compiled where they are first launched, one after the other. Each computation is recorded as
    a CUDA graph that is thrown away: nothing runs, no tensor changes. A computation that cannot be recorded to its end,
    since it waits for the GPU or needs too much memory, counts up to there. A kernel that does not compile is left for
    the launch that needs it, which raises the error. Must be called on a stream other than the default one (see
    `side_stream`).
    """
    if device.type != "cuda" or not has_triton():
        return 0
    capturer = GraphCapturer(device, "relaxed")  # buffers may still have to be allocated
    graphs = []  # kept, since the memory that they share goes with the last of them
    with _collecting_missing_kernels() as missing, warnings.catch_warnings():
        # A computation all of whose kernels are new leaves an empty graph.
        warnings.filterwarnings("ignore", message="The CUDA Graph is empty", category=UserWarning)
        for computation in computations:
            # Whatever fails here fails again, and is reported, when the computation is run for its result.
            with suppress(Exception), _other_random_numbers(device):
                graphs.append(capturer.capture(computation))
    graphs.clear()
    torch.cuda.empty_cache()  # returns their memory to the device
    threads = max(1, min(len(missing), os.cpu_count() or 1, MOST_THREADS))
    with ThreadPoolExecutor(threads, "compile", torch.cuda.set_device, (device,)) as pool:
        for (kernel, _), specialization in missing.items():
            pool.submit(_compile, kernel, specialization)
    return len(missing)


@contextmanager
def _other_random_numbers(device: torch.device) -> Iterator[None]:
    """Draw from a copy of the GPU's random state: a capture that fails leaves the state it used unusable."""
    index = torch.cuda.current_device() if device.index is None else device.index
    generator = torch.cuda.default_generators[index]
    own = generator.graphsafe_get_state()
    generator.graphsafe_set_state(generator.clone_state())
    try:
        yield
    finally:
        generator.graphsafe_set_state(own)


@contextmanager
def _collecting_missing_kernels() -> Iterator[dict[tuple[Any, str], str]]:
    """Make launches of kernels that are not compiled do nothing, and collect the kernels with their specialisations."""
    from triton import knobs

    missing: dict[tuple[Any, str], str] = {}

    def skip(*, key: str, fn: Any, compile: dict[str, Any], **_: object) -> bool:
        missing[fn.jit_function, key] = compile["specialization_data"]
        return True

    previous = knobs.runtime.jit_cache_hook
    knobs.runtime.jit_cache_hook = skip
    try:
        yield missing
    finally:
        knobs.runtime.jit_cache_hook = previous


def _compile(kernel: Any, specialization: str) -> None:
    compiled = kernel.preload(specialization)
    _ = compiled.run  # loads the binary and builds its launcher
