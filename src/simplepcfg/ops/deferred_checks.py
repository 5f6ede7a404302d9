"""Deferred checks: conditions of a CUDA graph that the host looks at after the replay.

A CUDA graph cannot stop to ask whether a batch needs the more careful algorithm. While a graph is captured, such a
condition is recorded in a flag on the device and the plain algorithm is taken. Whoever replays the graph then reads the
flag once, and runs the batch again without the graph if a condition was true.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch
from torch import Tensor


class DeferredChecks:
    """One flag on the device: whether any of the recorded conditions was true."""

    def __init__(self, device: torch.device) -> None:
        self.recorded = False  # whether any condition was recorded
        self._flag = torch.zeros((), dtype=torch.bool, device=device)

    def record(self, condition: Tensor) -> None:
        """Add a condition, a tensor with one element."""
        self.recorded = True
        self._flag.logical_or_(condition)

    def clear(self) -> None:
        """Reset the flag before a replay."""
        self._flag.zero_()

    def any_true(self) -> bool:
        """Return whether a recorded condition was true; the host waits for the device."""
        return self.recorded and bool(self._flag)


_current: ContextVar[DeferredChecks | None] = ContextVar("deferred_checks", default=None)


@contextmanager
def deferring_checks(checks: DeferredChecks) -> Iterator[None]:
    """Within this context operations record their conditions in ``checks`` instead of reading them."""
    token = _current.set(checks)
    try:
        yield
    finally:
        _current.reset(token)


def current_checks() -> DeferredChecks | None:
    """Return where conditions are recorded at present, or None where the host may read them.

    Backward may run in another thread, so forward asks once for both.
    """
    return _current.get()


def holds(condition: Tensor, checks: DeferredChecks | None) -> bool:
    """Return whether a condition holds; where checks are deferred, record it and return False."""
    if checks is None:
        return bool(condition)
    checks.record(condition)
    return False
