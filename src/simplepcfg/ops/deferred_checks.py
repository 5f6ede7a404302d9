"""Deferred checks: conditions that are evaluated inside a CUDA graph and read by the host after its replay.

Some operations choose between a fast and a more robust algorithm by a condition on the data. A CUDA graph cannot
branch on the host. While a graph is captured, the condition is therefore accumulated in a flag on the device and the
fast algorithm is captured. The caller reads the flag after each replay, and repeats the batch without the graph if any
condition was true.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch
from torch import Tensor


class DeferredChecks:
    """One flag on the device: whether any condition that was added is true."""

    def __init__(self, device: torch.device) -> None:
        self.has_conditions = False  # whether any condition was added
        self._flag = torch.zeros((), dtype=torch.bool, device=device)

    def add(self, condition: Tensor) -> None:
        """Add a condition, a boolean tensor with one element."""
        self.has_conditions = True
        self._flag.logical_or_(condition)

    def clear(self) -> None:
        """Reset the flag before a replay."""
        self._flag.zero_()

    def any_true(self) -> bool:
        """Return whether any condition was true. The host waits for the device."""
        return self.has_conditions and bool(self._flag)


_current: ContextVar[DeferredChecks | None] = ContextVar("deferred_checks", default=None)


@contextmanager
def deferring_checks(checks: DeferredChecks) -> Iterator[None]:
    """Make operations within this context add their conditions to ``checks`` instead of reading them."""
    token = _current.set(checks)
    try:
        yield
    finally:
        _current.reset(token)


def current_checks() -> DeferredChecks | None:
    """Return the checks of the enclosing ``deferring_checks``, or None if the host may read conditions.

    An operation calls this in its forward pass and keeps the result for its backward pass, which autograd may run in
    another thread.
    """
    return _current.get()


def condition_holds(condition: Tensor, checks: DeferredChecks | None) -> bool:
    """Return whether a condition is true, or add it to ``checks`` and return False if checks are deferred."""
    if checks is None:
        return bool(condition)
    checks.add(condition)
    return False
