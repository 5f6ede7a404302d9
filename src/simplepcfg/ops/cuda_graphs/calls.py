"""CUDA graphs of operations: calls whose shapes recur are replayed by one launch instead of hundreds.

Up to some thousand nonterminals a call is bound by the time in which the host launches kernels. The kernels of a shape
that recurs are therefore captured as a CUDA graph in its second call and replayed from then on. Graphs are bounded by
their number and by their memory. ``inside/graphed_chart.py`` decides which calls gain from a graph.
"""

import atexit
import os
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import Any, Protocol

import torch

from simplepcfg.errors import ResourceError
from simplepcfg.ops.cuda_graphs.cache import CacheEntry, GraphCache, Key
from simplepcfg.ops.cuda_graphs.capture import Capturer, GraphCapturer, Launch, is_captured

PATIENCE = 4  # see GraphCache
ENTRIES_PER_SHAPE = 2  # calls of one shape that may wait for their backward pass at once
SHAPES = 64
MEMORY_FRACTION = 0.125  # of the memory of the GPU
LARGE = 64 * 2**20  # bytes of an entry for which cached memory is returned to the device
SWITCH = "SIMPLEPCFG_CUDA_GRAPHS"


class Captured(CacheEntry, Protocol):
    """Buffers of one shape, and the graphs that compute in them."""

    def run(self) -> None:
        """Compute once on what the buffers hold and keep no result, so that all kernels are compiled."""
        ...

    def capture(self, capture: Callable[[Launch], Launch]) -> None:
        """Capture the computation that ``run`` has done before."""
        ...


class _InOrder:
    """A context in which work on the current stream begins after the last replay, and before the next one."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._stream: torch.cuda.Stream | None = None
        self._pointer: int | None = None
        self._last_use = torch.cuda.Event()

    def __enter__(self) -> None:
        # The pointer tells streams apart, and making a Stream object takes the host longer than asking for it.
        pointer = torch._C._cuda_getCurrentRawStream(self._device.index)
        if pointer == self._pointer:
            return
        stream = torch.cuda.current_stream(self._device)
        if self._stream is not None:
            stream.wait_event(self._last_use)
        self._stream, self._pointer = stream, pointer

    def __exit__(self, *_: object) -> None:
        assert self._stream is not None
        self._last_use.record(self._stream)


class DeviceGraphs(GraphCache[Any]):
    """The graphs of one device, for calls from all threads and streams.

    Replays follow one another, because graphs share the memory in which they compute: a caller holds ``lock`` from
    ``find`` until the results have been copied, and computes within ``in_order``. After ``close`` all calls are
    launched kernel by kernel.
    """

    def __init__(self, device: torch.device, capturer: Capturer, shapes: int, memory: float) -> None:
        super().__init__(device, shapes, memory, PATIENCE)
        self._capturer = capturer
        self.lock = threading.RLock()
        self.has_replayed = False
        # Entered with the lock held, and never within a capture of the caller.
        self.in_order: AbstractContextManager[None] = _InOrder(device) if self._on_gpu else nullcontext()
        self._pool_holder: Launch | None = None
        if self._on_gpu:
            # Graphs are captured on a stream on which nothing else runs, so that the workspaces of cuBLAS that they
            # use are part of their memory.
            self._warm_up_stream, self._capture_stream = torch.cuda.Stream(device), torch.cuda.Stream(device)

    @property
    def is_usable(self) -> bool:
        """Whether calls can be captured and replayed: not after ``close``, nor within a capture of the caller."""
        return self.is_open and not self.is_captured_outside

    @property
    def is_captured_outside(self) -> bool:
        """Whether the caller captures a graph itself, of which these launches become a part."""
        return is_captured(self.device)

    def find(self, key: Key, needed: int, make: Callable[[], Captured]) -> Any | None:
        """Return a captured entry of a shape whose buffers are free; None if the call has to be launched plainly.

        ``make`` creates an entry with the inputs of the present call in its buffers, and ``needed`` is its estimated
        memory. It is called, and the entry is captured, if the shape has occurred often enough and there is room.
        """
        entry = self.ready(key)
        if entry is not None:
            return entry
        if len(self._entries.get(key, ())) >= ENTRIES_PER_SHAPE or not self.is_time(key):
            return None
        if not self.make_room(key, needed):
            return None
        made: list[Captured] = []

        def build() -> None:
            made.append(make())
            made[0].run()

        if not self.extend(build, lambda capture: made[0].capture(capture), needed):
            return None
        self.add(key, made[0])
        return made[0]

    def extend(
        self, run: Callable[[], object], capture: Callable[[Callable[[Launch], Launch]], None], needed: int
    ) -> bool:
        """Run a computation for the first time and capture it; return whether that was possible.

        ``capture`` gets a function that captures a launch. ``needed`` is the estimated memory.
        """
        if not self.is_open:
            return False
        try:
            with self.on_device(), self._building(needed):
                run()  # compiles kernels, which is not possible during capture
            with self.on_device(), self._capturing():
                if self._on_gpu and self._pool_holder is None:
                    # The memory pool that graphs share cannot be used again once all of them have been freed.
                    self._pool_holder = self._capturer.capture(self._do_little)
                capture(self._capturer.capture)
        except (RuntimeError, ResourceError) as error:
            said = "calls are launched kernel by kernel from now on, because a CUDA graph could not be captured"
            warnings.warn(f"{said}: {self.give_up(error)}", RuntimeWarning, stacklevel=2)
            return False
        return True

    def on_device(self) -> AbstractContextManager[object]:
        """Return a context in which this GPU is the current one, on which Triton launches its kernels."""
        if not self._on_gpu or self.device.index == torch.cuda.current_device():
            return nullcontext()
        return torch.cuda.device(self.device)

    def close(self) -> None:
        """Free all entries and capture no more; see ``GraphCache.close``."""
        with self.lock:
            super().close()
            self._pool_holder = None

    def _do_little(self) -> None:
        torch.zeros(1, device=self.device)

    @contextmanager
    def _building(self, needed: int) -> Iterator[None]:
        """Allocate and compute outside of autograd and, on a GPU, on a stream of its own between two waits.

        What evicted entries had allocated on that stream is free only because the host waits for the device first. The
        allocator keeps what was freed for the stream it was allocated on, where neither the graph nor later calls can
        use it. So much is therefore returned to the device that large graphs do not add to it.
        """
        with torch.inference_mode(False), torch.no_grad():
            if not self._on_gpu:
                yield
                return
            self._synchronize()
            self._release(needed)
            with torch.cuda.stream(self._warm_up_stream):
                yield
            self._warm_up_stream.synchronize()
            self._release(needed)

    @contextmanager
    def _capturing(self) -> Iterator[None]:
        """Launch on the stream of captures, within which the host waits for nothing."""
        stream = torch.cuda.stream(self._capture_stream) if self._on_gpu else nullcontext()
        with torch.inference_mode(False), torch.no_grad(), stream:
            yield

    def _release(self, needed: int) -> None:
        """Return cached memory to the device before a large allocation; for small graphs it would take too long."""
        if needed >= LARGE:
            with torch.cuda.device(self.device):
                torch.cuda.empty_cache()


_enabled: ContextVar[bool] = ContextVar("cuda_graphs", default=True)
_by_device: dict[torch.device, DeviceGraphs] = {}
_making = threading.Lock()


def graphs_of(device: torch.device) -> DeviceGraphs | None:
    """Return the graphs of a GPU; None on other devices, or if graphs are switched off."""
    if not _enabled.get():
        return None
    graphs = _by_device.get(device)
    if graphs is None and device.type == "cuda":
        with _making:
            if device not in _by_device:
                memory = MEMORY_FRACTION * torch.cuda.get_device_properties(device).total_memory
                _by_device[device] = DeviceGraphs(device, GraphCapturer(device), _shapes(), memory)
            graphs = _by_device[device]
    return graphs


@atexit.register
def clear_graphs() -> None:
    """Free the memory of all CUDA graphs. Shapes that recur are captured again."""
    while _by_device:
        _, graphs = _by_device.popitem()
        graphs.close()


def graph_memory() -> int:
    """Return the estimated number of bytes that the CUDA graphs hold on all GPUs."""
    return sum(graphs.bytes for graphs in list(_by_device.values()))


@contextmanager
def without_graphs() -> Iterator[None]:
    """Launch kernels one by one within this context, without capturing or replaying graphs."""
    token = _enabled.set(False)
    try:
        yield
    finally:
        _enabled.reset(token)


def _shapes() -> int:
    """Return the largest number of shapes: the value of the environment variable if it is a number."""
    value = os.environ.get(SWITCH, "").strip()
    return int(value) if value.isdecimal() else SHAPES
