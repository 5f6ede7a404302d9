"""Programs that are launched as one: recorded once as a CUDA graph and then replayed."""

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Protocol

import torch

Program = Callable[[], None]


class Capturer(Protocol):
    """Turns a function of no arguments into a program with the same effect on the same tensors."""

    def capture(self, function: Program) -> Program:
        """Record `function`, which must have run before, without its effect; calling the result has it."""
        ...


class GraphCapturer:
    """CUDA graphs that share one pool of memory: none of them leaves anything in it that another one needs.

    Whatever a function allocates is free again when it returns, and what it gives back it writes into tensors from
    outside, so the graphs may be replayed in any order, one after the other.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._pool: Any = torch.cuda.graph_pool_handle()

    def capture(self, function: Program) -> Program:
        """Record on the current stream, which must not be the default one (see `side_stream`)."""
        graph = torch.cuda.CUDAGraph()
        # torch.cuda.graph would collect garbage and empty the cache before each capture: slow with many shapes. A
        # collection in the middle could free another graph, so there is none.
        collects = gc.isenabled()
        gc.disable()
        try:
            # Other threads may go on as they like: torch.distributed watches its events from one.
            graph.capture_begin(pool=self._pool, capture_error_mode="thread_local")
            try:
                function()
            except BaseException:
                with suppress(RuntimeError):  # an operation that cannot be recorded has spoilt the recording already
                    graph.capture_end()
                raise
            graph.capture_end()
        finally:
            if collects:
                gc.enable()
        return graph.replay


@contextmanager
def side_stream(device: torch.device) -> Iterator[None]:
    """On a GPU, compute on a stream of its own, on which programs can be both run and recorded."""
    if device.type != "cuda":
        yield
        return
    outer = torch.cuda.current_stream(device)
    stream = torch.cuda.Stream(device)
    stream.wait_stream(outer)
    try:
        with torch.cuda.device(device), torch.cuda.stream(stream):
            yield
    finally:
        outer.wait_stream(stream)
