"""Duration of single training steps, measured on the device and read after training."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from unittest import mock

import torch

from simplepcfg.data.batching import Batch
from simplepcfg.training.step.step import Step

Mark = float | torch.cuda.Event  # by the clock, or on a GPU


@dataclass(frozen=True, slots=True)
class StepTime:
    """Size of one step and the time that the device spent on it."""

    batch: int  # sentences
    n: int  # words of the longest
    words: int
    replayed: bool
    begin: float  # milliseconds since the first step began
    milliseconds: float


class StepTimer:
    """Measures steps: by CUDA events on a GPU, by the clock on a CPU.

    >>> timer = StepTimer()
    >>> timer.start(torch.device("cpu"))
    >>> timer.stop(batch=16, n=20, words=320, replayed=False)
    >>> timer.results()[0].words
    320
    """

    def __init__(self) -> None:
        self._marks: list[tuple[Mark, Mark, tuple[int, int, int, bool]]] = []
        self._start: Mark = 0.0
        self._on_gpu = False

    def start(self, device: torch.device) -> None:
        """Mark the beginning of a step on `device`."""
        self._on_gpu = device.type == "cuda"
        self._start = self._mark()

    def stop(self, batch: int, n: int, words: int, replayed: bool) -> None:
        """Mark the end of a step, or of its launches, with the size of its batch."""
        self._marks.append((self._start, self._mark(), (batch, n, words, replayed)))

    def results(self) -> list[StepTime]:
        """Return the times of all steps so far; on a GPU this waits for the last of them."""
        if self._on_gpu:
            torch.cuda.synchronize()
        return [
            StepTime(*what, self._milliseconds(self._marks[0][0], start), self._milliseconds(start, end))
            for start, end, what in self._marks
        ]

    def _mark(self) -> Mark:
        if not self._on_gpu:
            return time.perf_counter()
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    @staticmethod
    def _milliseconds(start: Mark, end: Mark) -> float:
        if isinstance(start, float) or isinstance(end, float):
            assert isinstance(start, float)
            assert isinstance(end, float)
            return 1000 * (end - start)
        return float(start.elapsed_time(end))


@contextmanager
def timed_steps() -> Iterator[StepTimer]:
    """Measure every training step within this context."""
    timer, call, compute, replayed = StepTimer(), Step.__call__, Step._compute_gradients, [False]

    def timed(step: Step, batch: Batch, *args: object, **options: object) -> None:
        timer.start(step.device)
        call(step, batch, *args, **options)  # type: ignore[arg-type]
        timer.stop(len(batch), batch.words.shape[1], int(batch.lengths.sum()), replayed[0])

    def gradients(step: Step, *args: object) -> bool:
        replayed[0] = compute(step, *args)  # type: ignore[arg-type]
        return replayed[0]

    with mock.patch.object(Step, "__call__", timed), mock.patch.object(Step, "_compute_gradients", gradients):
        yield timer
