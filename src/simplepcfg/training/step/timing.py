"""Milliseconds of single steps, measured on the device itself and read when all is over."""

import time
from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True, slots=True)
class StepTime:
    """One step and how long the device worked on it."""

    batch: int  # sentences
    n: int  # words of the longest
    words: int
    replayed: bool
    begin: float  # milliseconds since the first step began
    milliseconds: float


class StepTimer:
    """Given to `train`, keeps the time of every step: by events on a GPU, by the clock elsewhere."""

    def __init__(self) -> None:
        self._marks: list[tuple[Any, Any, tuple[int, int, int, bool]]] = []
        self._start: Any = None
        self._on_gpu = False

    def start(self, device: torch.device) -> None:
        """A step begins."""
        self._on_gpu = device.type == "cuda"
        self._start = self._mark()

    def stop(self, batch: int, n: int, words: int, replayed: bool) -> None:
        """It is done, or launched."""
        self._marks.append((self._start, self._mark(), (batch, n, words, replayed)))

    def results(self) -> list[StepTime]:
        """Every step so far; waits for a GPU to be done with them."""
        if self._on_gpu:
            torch.cuda.synchronize()
        return [
            StepTime(*what, self._milliseconds(self._marks[0][0], start), self._milliseconds(start, end))
            for start, end, what in self._marks
        ]

    def _mark(self) -> Any:
        if not self._on_gpu:
            return time.perf_counter()
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def _milliseconds(self, start: Any, end: Any) -> float:
        return float(start.elapsed_time(end)) if self._on_gpu else 1000 * (end - start)
