"""A stand-in for CUDA graphs on a CPU, which repeats what it captured and destroys what earlier replays returned."""

import threading
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from simplepcfg.ops.cuda_graphs import calls
from simplepcfg.ops.cuda_graphs.calls import DeviceGraphs
from simplepcfg.ops.inside.packed_chart import PackedChart

CPU = torch.device("cpu")
Launch = Callable[[], None]


class Repeating:
    """A capturer whose replays run the function again, after everything that earlier replays returned is destroyed.

    On a GPU the memory in which graphs compute is shared by all of them.
    """

    def __init__(self) -> None:
        self.replays = self.captures = 0
        self.replaying: int | None = None  # the thread
        self.returned: list[Tensor] = []

    def capture(self, function: Launch) -> Launch:
        self.captures += 1

        def replay() -> None:
            self.replays += 1
            for tensor in self.returned:
                tensor.fill_(torch.nan if tensor.is_floating_point() else -77)
            self.returned.clear()
            self.replaying = threading.get_ident()
            with torch.inference_mode(False), torch.no_grad():
                function()
            self.replaying = None

        return replay


class Failing:
    def capture(self, function: Launch) -> Launch:
        raise RuntimeError("operation not permitted when stream is capturing\nmore of it")


class Harness:
    """Graphs on the CPU, as the operations use them there while a test runs."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, shapes: int = 4, memory: float = 1e9) -> None:
        self.capturer = Repeating()
        self.graphs = DeviceGraphs(CPU, self.capturer, shapes, memory)
        monkeypatch.setitem(calls._by_device, CPU, self.graphs)
        for name in ("fill", "adjoints", "emission_gradients", "rule_gradients"):
            self._watch(monkeypatch, name)

    def _watch(self, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
        method = getattr(PackedChart, name)

        def watched(owner: object, *given: object) -> object:
            results = method(owner, *given)
            if self.capturer.replaying == threading.get_ident():
                self.capturer.returned += [results] if isinstance(results, Tensor) else results
            return results

        monkeypatch.setattr(PackedChart, name, watched)
