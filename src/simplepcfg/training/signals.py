"""SIGINT and SIGTERM: the first signal stops training at the next safe moment, the second at once."""

import signal
import threading
from collections.abc import Callable
from types import FrameType

from simplepcfg.errors import SimplePCFGError

_HANDLED = (signal.SIGINT, signal.SIGTERM)


class Interrupted(SimplePCFGError):
    """Training was stopped by a signal; the message says how to resume, `exit_code` is 130 or 143."""

    def __init__(self, message: str, signal_number: int) -> None:
        super().__init__(message, 128 + signal_number)
        self.signal_number = signal_number


class StopSignals:
    """Context manager that records SIGINT and SIGTERM in `requested`, the number of the signal.

    Until `defer` is called there is nothing to save, so the first signal raises Interrupted at once. Outside the main
    thread, where Python allows no signal handlers, it does nothing.
    """

    def __init__(self) -> None:
        self.requested: int | None = None
        self._deferred = False
        self._previous: dict[int, Callable[[int, FrameType | None], object] | int | None] = {}

    def __enter__(self) -> "StopSignals":
        if threading.current_thread() is threading.main_thread():
            for number in _HANDLED:
                self._previous[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)
        self._previous.clear()

    def defer(self) -> None:
        """Let the first signal from now on only set `requested`, which the loop checks between steps."""
        self._deferred = True

    def _handle(self, number: int, frame: FrameType | None) -> None:
        name, second = signal.Signals(number).name, self.requested is not None
        self.requested = number  # also where it is raised: a library may catch all errors of what it tries
        if not self._deferred:
            raise Interrupted(f"stopped by {name} before the first step", number)
        if second:
            raise Interrupted(f"stopped at once by a second {name}; the last checkpoint stands", number)
