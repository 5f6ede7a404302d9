"""CUDA graphs: capture the launches of a function once and replay them as one launch."""

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Protocol

import torch

Launch = Callable[[], None]


class Capturer(Protocol):
    """Turns a function without arguments into a replay with the same effect on the same tensors."""

    def capture(self, function: Launch) -> Launch:
        """Capture `function` without running it and return a function that replays it.

        `function` must have run before, so that its kernels are compiled.
        """
        ...


class GraphCapturer:
    """Captures CUDA graphs that share one memory pool.

    A captured function must free whatever it allocates before it returns and write its results into tensors from
    outside. No graph then leaves anything in the pool that another one needs, and graphs may be replayed in any order.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._pool = torch.cuda.graph_pool_handle()

    def capture(self, function: Launch) -> Launch:
        """Capture on the current stream, which must not be the default one (see `side_stream`)."""
        graph = torch.cuda.CUDAGraph()
        index = torch.cuda.current_device() if self.device.index is None else self.device.index
        generator = torch.cuda.default_generators[index]
        random_state = generator.clone_state()
        # torch.cuda.graph would collect garbage and empty the cache before each capture, which is slow with many
        # shapes. A collection during the capture could free another graph, so the collector is off.
        collects = gc.isenabled()
        gc.disable()
        try:
            # Other threads may call CUDA meanwhile: torch.distributed polls its events from one.
            graph.capture_begin(pool=self._pool, capture_error_mode="thread_local")
            try:
                function()
            except BaseException:
                with suppress(RuntimeError):  # An operation that cannot be captured has invalidated the capture.
                    graph.capture_end()
                raise
            graph.capture_end()
        except BaseException:
            # The capture left the generator's state marked as capturing. Graphs captured before keep that state.
            generator.graphsafe_set_state(random_state)
            raise
        finally:
            if collects:
                gc.enable()
        return graph.replay


def is_captured(device: torch.device) -> bool:
    """Return whether the current stream of a device is being captured, so that the host cannot read a number."""
    return device.type == "cuda" and torch.cuda.is_current_stream_capturing()


@contextmanager
def side_stream(device: torch.device) -> Iterator[None]:
    """Compute on a new stream of a GPU, on which functions can be both run and captured; on a CPU do nothing."""
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
