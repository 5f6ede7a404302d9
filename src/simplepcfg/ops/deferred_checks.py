"""Questions that only the host can answer, in programs that are recorded ahead.

A CUDA graph cannot stop to ask whether a batch needs a more careful way. While one is recorded, such a question is
noted as a doubt and the plain way taken; whoever replays the graph then looks once whether any doubt came true, and if
so runs the batch again without the graph.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch
from torch import Tensor


class Doubts:
    """Whether any of the conditions noted during a run holds: one flag on the device."""

    def __init__(self, device: torch.device) -> None:
        self.noted = False  # whether there is anything to look at
        self._flag = torch.zeros((), dtype=torch.bool, device=device)

    def note(self, condition: Tensor) -> None:
        """Add a condition, a tensor with one element."""
        self.noted = True
        self._flag.logical_or_(condition)

    def clear(self) -> None:
        """Before a run."""
        self._flag.zero_()

    def came_true(self) -> bool:
        """The host's look, which waits for the device."""
        return self.noted and bool(self._flag)


_present: ContextVar[Doubts | None] = ContextVar("doubts", default=None)


@contextmanager
def noting(doubts: Doubts) -> Iterator[None]:
    """Within, operations note their questions instead of asking them."""
    token = _present.set(doubts)
    try:
        yield
    finally:
        _present.reset(token)


def present_doubts() -> Doubts | None:
    """Where to note now, or None: then one may ask. Backward may run in another thread, so forward asks for both."""
    return _present.get()


def holds(condition: Tensor, doubts: Doubts | None) -> bool:
    """Whether a condition holds, as far as the host may look; where doubts are noted it is noted and taken as false."""
    if doubts is None:
        return bool(condition)
    doubts.note(condition)
    return False
