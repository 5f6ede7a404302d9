"""Stages of a long computation, of which a listener is told, if there is one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol


class Listener(Protocol):
    """Whoever shows how far a computation is."""

    def begin(self, what: str, total: float | None) -> None:
        """Begin a stage in which `total` is to be done; None where that is not known."""

    def advance(self, amount: float) -> None:
        """Count more of the stage as done."""

    def end(self) -> None:
        """End the stage."""


# Who is told of stages, if anyone, and what they are computed for.
_heard: ContextVar[tuple[Listener | None, str]] = ContextVar("heard", default=(None, ""))


@contextmanager
def heard_by(listener: Listener) -> Iterator[None]:
    """Tell this listener of all stages inside the `with` statement."""
    before = _heard.set((listener, _heard.get()[1]))
    try:
        yield
    finally:
        _heard.reset(before)


@contextmanager
def stage(what: str, total: float | None = None) -> Iterator[Callable[[float], None]]:
    """Tell of a stage, and provide a function that is called with what has been done of `total` since the last call.

    A stage within one of known total is part of it and is not told. One without a total is told by what is computed
    within it: "evaluating english" by the sentences of each of its questions.
    """
    listener, purpose = _heard.get()
    if listener is None:
        yield lambda amount: None
        return
    named = f"{purpose}: {what}" if purpose else what
    before = _heard.set((None if total is not None else listener, named))
    listener.begin(named, total)
    try:
        yield listener.advance
    finally:
        listener.end()
        _heard.reset(before)
