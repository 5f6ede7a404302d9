"""CUDA graphs of the inside algorithm: one launch instead of several for each width.

Up to some thousand nonterminals a call is bound by the time in which the host launches kernels. The passes of a shape
that recurs are therefore captured as CUDA graphs in its second call and replayed from then on. Each graphed chart has
its own buffers, so a call whose backward pass is still to come keeps its chart to itself; if all charts of a shape are
kept, the call is launched kernel by kernel. Graphs are bounded by their number and by their memory.
"""

import atexit
import os
import threading
import warnings
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from simplepcfg.errors import ResourceError
from simplepcfg.ops.capture import Capturer, GraphCapturer, Launch
from simplepcfg.ops.inside.arguments import InsideArguments
from simplepcfg.ops.inside.saved_charts import empty_handle, make_handle

if TYPE_CHECKING:
    from simplepcfg.ops.inside.graphed_chart import GraphedChart

# A shape is captured when it occurs for the second time: the first call compiles kernels, and may be the only one.
CAPTURE_AT = 2
# After each eviction a shape must occur this many times as often until it is captured again. If more shapes recur than
# are kept, most calls are then plain, instead of each capturing a graph that is evicted before its next use.
PATIENCE = 4
CHARTS_PER_SHAPE = 2  # calls of one shape that may wait for their backward pass at once
SHAPES = 64
MEMORY_FRACTION = 0.125  # of the memory of the GPU
SHAPES_SEEN = 1024  # shapes of which the number of calls is remembered
SWITCH = "SIMPLEPCFG_CUDA_GRAPHS"

Key = tuple[object, ...]


class Lease:
    """The chart of one forward pass, which has a graphed chart to itself for as long as this object lives."""

    def __init__(self, graphs: "DeviceGraphs", chart: "GraphedChart") -> None:
        self._graphs, self._chart = graphs, chart
        chart.hold(self)

    def backward(
        self, grad: Tensor, need_words: bool, need_root: bool, need_rules: bool, marginals: Tensor | None
    ) -> list[Tensor | None]:
        """Compute the gradients that are needed; see ``Chart.backward``."""
        return self._graphs.backward(self._chart, grad, need_words, need_root, need_rules, marginals)


class DeviceGraphs:
    """The graphed charts of one device, the least recently used first.

    ``shapes`` is the largest number of shapes, ``memory`` the largest number of bytes of all charts together. Replays
    of all threads and streams follow one another, because graphs share the memory in which they compute. After
    ``close`` all calls are plain.
    """

    def __init__(self, device: torch.device, capturer: Capturer, shapes: int, memory: float) -> None:
        self.device, self._capturer, self._shapes, self._memory = device, capturer, shapes, memory
        self._lock = threading.RLock()
        # By shape: the number of plain calls since it was captured last, and how many it takes to be captured.
        self._seen: OrderedDict[Key, tuple[int, int]] = OrderedDict()
        self._charts: OrderedDict[Key, list[GraphedChart]] = OrderedDict()
        self.has_replayed = False
        self._on_gpu = device.type == "cuda"
        if self._on_gpu:
            # Graphs are captured on a stream on which nothing else runs, so that the workspaces of cuBLAS that they
            # use are part of their memory.
            self._warm_up_stream, self._capture_stream = torch.cuda.Stream(device), torch.cuda.Stream(device)
            self._last_stream: torch.cuda.Stream | None = None
            self._last_use = torch.cuda.Event()
            self._pool_holder: Launch | None = None

    @property
    def bytes(self) -> int:
        """Estimated memory of all charts."""
        with self._lock:
            return sum(chart.bytes for charts in self._charts.values() for chart in charts)

    @property
    def count(self) -> int:
        """Number of captured charts."""
        with self._lock:
            return sum(map(len, self._charts.values()))

    def forward(self, arguments: InsideArguments, save: bool) -> tuple[Tensor, Tensor] | None:
        """Compute log Z and the handle of its chart by a graph; None if the call has to be launched plainly."""
        with self._lock:
            chart = self._chart(arguments)
            if chart is None:
                return None
            with self._in_order():
                chart.load(arguments)
                log_z = chart.forward()
            self.has_replayed = True
            return log_z, make_handle(Lease(self, chart)) if save else empty_handle()

    def backward(
        self,
        chart: "GraphedChart",
        grad: Tensor,
        need_words: bool,
        need_root: bool,
        need_rules: bool,
        marginals: Tensor | None,
    ) -> list[Tensor | None]:
        """Compute gradients from a chart that was filled by ``forward``."""
        with self._lock:
            kind = (need_words or need_rules, marginals is not None)
            replays = not self._is_captured_outside() and self._has_backward(chart, kind)
            run = chart.backward if replays else chart.backward_without_graph
            with self._in_order():
                return run(grad, need_words, need_root, need_rules, marginals)

    def close(self) -> None:
        """Free all charts and capture no more. A chart that waits for its backward pass lives until then."""
        with self._lock:
            self._synchronize()
            self._shapes = 0
            self._charts.clear()
            self._seen.clear()
            self._pool_holder = None

    def _chart(self, arguments: InsideArguments) -> "GraphedChart | None":
        """Return a chart for these arguments that no other call needs, captured now if it is time to."""
        from simplepcfg.ops.inside.graphed_chart import graph_key, is_launch_bound
        from simplepcfg.ops.inside.padded_chart import is_worth_padding

        if not self._shapes or self._is_captured_outside() or not is_launch_bound(arguments):
            return None
        if arguments.lengths is not None and not is_worth_padding(arguments):
            return None
        key = graph_key(arguments)
        charts = self._charts.get(key, [])
        if charts:
            self._charts.move_to_end(key)
        for chart in charts:
            if chart.is_free:
                return chart
        if len(charts) >= CHARTS_PER_SHAPE or not self._is_time(key):
            return None
        if not self._make_room(key, arguments):
            self._postpone(key)
            return None
        try:
            chart = self._captured(arguments)
        except (RuntimeError, ResourceError) as error:
            self._give_up(error)
            return None
        self._charts.setdefault(key, []).append(chart)
        return chart

    def _is_time(self, key: Key) -> bool:
        """Count a call of a shape and return whether to capture it."""
        count, needed = self._seen.pop(key, (0, CAPTURE_AT))
        self._seen[key] = (count + 1, needed)
        if len(self._seen) > SHAPES_SEEN:
            self._seen.popitem(last=False)
        return count + 1 >= needed

    def _postpone(self, key: Key) -> None:
        """Let a shape occur more often than before until it is captured."""
        self._seen[key] = (0, PATIENCE * self._seen.get(key, (0, CAPTURE_AT))[1])

    def _make_room(self, key: Key, arguments: InsideArguments) -> bool:
        """Evict the least recently used charts until another one is within the bounds; return whether it is."""
        from simplepcfg.ops.inside.graphed_chart import graph_bytes

        needed = graph_bytes(arguments)
        if needed > self._memory:
            return False
        if self._on_gpu and 2 * needed > self._free_memory():
            return False
        for old in list(self._charts):
            new_shape = key not in self._charts
            if self.bytes + needed <= self._memory and len(self._charts) + new_shape <= self._shapes:
                break
            if old == key or not all(chart.is_free for chart in self._charts[old]):
                continue
            self._synchronize()  # the graphs may still be running
            del self._charts[old]
            self._postpone(old)
        new_shape = key not in self._charts
        return self.bytes + needed <= self._memory and len(self._charts) + new_shape <= self._shapes

    def _captured(self, arguments: InsideArguments) -> "GraphedChart":
        from simplepcfg.ops.inside.graphed_chart import GraphedChart

        with self._building():
            chart = GraphedChart(arguments)
            chart.load(arguments)
            chart.run_forward()  # compiles kernels, which is not possible during capture
        with self._capturing():
            if self._on_gpu and self._pool_holder is None:
                # The memory pool that graphs share cannot be used again once all of them have been freed.
                self._pool_holder = self._capturer.capture(self._do_little)
            chart.capture_forward(self._capturer.capture)
        return chart

    def _do_little(self) -> None:
        torch.zeros(1, device=self.device)

    def _has_backward(self, chart: "GraphedChart", kind: tuple[bool, bool]) -> bool:
        """Return whether the backward pass of a chart can be replayed, after capturing it if it is new."""
        if chart.has_backward(kind):
            return True
        if not self._shapes:
            return False
        try:
            with self._building():
                chart.run_backward(kind)
            with self._capturing():
                chart.capture_backward(kind, self._capturer.capture)
        except (RuntimeError, ResourceError) as error:
            self._give_up(error)
            return False
        return True

    def _give_up(self, error: Exception) -> None:
        """Free all graphs and capture no more, because one could not be captured."""
        self.close()
        short = isinstance(error, ResourceError | torch.OutOfMemoryError)
        reason = "too little memory" if short else str(error).strip().partition("\n")[0]
        warnings.warn(
            f"inside is launched kernel by kernel from now on, because a CUDA graph could not be captured: {reason}",
            RuntimeWarning,
            stacklevel=2,
        )

    @contextmanager
    def _building(self) -> Iterator[None]:
        """Allocate and compute outside of autograd and, on a GPU, on a stream of its own between two waits.

        What evicted charts had allocated on that stream is free only because the host waits for the device first.
        """
        with torch.inference_mode(False), torch.no_grad():
            if not self._on_gpu:
                yield
                return
            self._synchronize()
            with torch.cuda.stream(self._warm_up_stream):
                yield
            self._warm_up_stream.synchronize()

    @contextmanager
    def _capturing(self) -> Iterator[None]:
        """Launch on the stream of captures, within which the host waits for nothing."""
        stream = torch.cuda.stream(self._capture_stream) if self._on_gpu else nullcontext()
        with torch.inference_mode(False), torch.no_grad(), stream:
            yield

    @contextmanager
    def _in_order(self) -> Iterator[None]:
        """Let work on the current stream begin after the last replay, and the next replay after this work."""
        if not self._on_gpu or self._is_captured_outside():
            yield
            return
        stream = torch.cuda.current_stream(self.device)
        if self._last_stream is not None and stream != self._last_stream:
            stream.wait_event(self._last_use)
        yield
        self._last_use.record(stream)
        self._last_stream = stream

    def _is_captured_outside(self) -> bool:
        """Whether the caller captures a graph itself, of which these launches become a part."""
        return self._on_gpu and torch.cuda.is_current_stream_capturing()

    def _free_memory(self) -> int:
        free = torch.cuda.mem_get_info(self.device)[0]
        return free + torch.cuda.memory_reserved(self.device) - torch.cuda.memory_allocated(self.device)

    def _synchronize(self) -> None:
        if self._on_gpu:
            torch.cuda.synchronize(self.device)


_enabled: ContextVar[bool] = ContextVar("cuda_graphs", default=True)
_by_device: dict[torch.device, DeviceGraphs] = {}
_making = threading.Lock()


def graphs_of(device: torch.device) -> DeviceGraphs | None:
    """Return the graphs of a GPU; None on other devices, or if graphs are switched off."""
    if device.type != "cuda" or not _enabled.get():
        return None
    found = _by_device.get(device)
    if found is None:
        with _making:
            if device not in _by_device:
                memory = MEMORY_FRACTION * torch.cuda.get_device_properties(device).total_memory
                _by_device[device] = DeviceGraphs(device, GraphCapturer(device), _shapes(), memory)
            found = _by_device[device]
    return found


@atexit.register
def clear_graphs() -> None:
    """Free the memory of all CUDA graphs of ``inside``. Shapes that recur are captured again."""
    while _by_device:
        _, graphs = _by_device.popitem()
        graphs.close()


def graph_memory() -> int:
    """Return the estimated number of bytes that the CUDA graphs of ``inside`` hold on all GPUs."""
    return sum(graphs.bytes for graphs in list(_by_device.values()))


@contextmanager
def without_graphs() -> Iterator[None]:
    """Launch the kernels of ``inside`` one by one within this context, without capturing or replaying graphs."""
    token = _enabled.set(False)
    try:
        yield
    finally:
        _enabled.reset(token)


def _shapes() -> int:
    """Return the largest number of shapes: the value of the environment variable if it is a number."""
    value: Any = os.environ.get(SWITCH, "").strip()
    return int(value) if value.isdecimal() else SHAPES
