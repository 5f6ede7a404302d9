"""What a command says of itself while it computes: a line that changes on a terminal, elsewhere one now and then."""

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import wraps
from shutil import get_terminal_size

from simplepcfg.progress import heard_by

SECONDS_BEFORE = 2.0  # what takes less says nothing
SECONDS_BETWEEN = (10.0, 20.0, 30.0)  # lines; the last holds for all that follow
TICK = 0.2
CLEARED = "\r\x1b[K"  # the line, for a terminal

_display: "ContextVar[Display | None]" = ContextVar("display", default=None)


def shows_progress(command: Callable[..., None]) -> Callable[..., None]:
    """Make a command show the stages of what it computes, unless it is called with --quiet."""

    @wraps(command)
    def shown(**options: object) -> None:
        if options.get("quiet"):
            command(**options)
            return
        display = Display()
        before = _display.set(display)
        try:
            with heard_by(display):
                command(**options)
        finally:
            _display.reset(before)
            display.close()

    return shown


@contextmanager
def hidden() -> Iterator[None]:
    """Hide the line while something is printed, since both may go to one terminal."""
    display = _display.get()
    if display is None:
        yield
        return
    with display.lock:
        display.hide()
        yield


@dataclass(slots=True)
class _Stage:
    what: str
    total: float | None
    began: float
    done: float = 0.0

    def text(self) -> str:
        """Return what is computed, how much of it is done and how long the rest will take."""
        from simplepcfg.runs.history import duration

        share = self.done / self.total if self.total else 0.0
        if not 0 < share < 1:
            return f"{self.what} …"
        left = (time.monotonic() - self.began) * (1 - share) / share
        return f"{self.what}: {100 * share:.0f} %, about {duration(left)} left"


class Display:
    """Shows the innermost stage, from another thread, since a single batch may take long."""

    def __init__(self) -> None:
        self._stages: list[_Stage] = []
        self._over = threading.Event()
        self.lock = threading.RLock()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._drawn = False
        self._thread.start()

    def begin(self, what: str, total: float | None) -> None:
        """Show another stage from now on."""
        with self.lock:
            self._stages.append(_Stage(what, total, time.monotonic()))

    def advance(self, amount: float) -> None:
        """Count what is done of the last stage."""
        with self.lock:
            self._stages[-1].done += amount

    def end(self) -> None:
        """Show the stage before the last one again; the line goes, as results may be printed now."""
        with self.lock:
            self._stages.pop()
            self.hide()

    def close(self) -> None:
        """Stop showing stages."""
        self._over.set()
        self._thread.join()
        with self.lock:
            self.hide()

    def _watch(self) -> None:
        # Where a line can be drawn again.
        on_terminal = sys.stderr.isatty() and os.environ.get("TERM", "dumb") != "dumb"
        began, lines = time.monotonic(), 0
        due = began + SECONDS_BEFORE
        while not self._over.wait(TICK):
            with self.lock:
                now = time.monotonic()
                if not self._stages:
                    continue
                if on_terminal and now - self._stages[-1].began > SECONDS_BEFORE:
                    self._draw(self._stages[-1])
                elif not on_terminal and now >= due:
                    print(self._stages[-1].text(), file=sys.stderr, flush=True)
                    due = now + SECONDS_BETWEEN[min(lines, len(SECONDS_BETWEEN) - 1)]
                    lines += 1

    def _draw(self, stage: _Stage) -> None:
        text = stage.text()[: get_terminal_size().columns - 1]
        print(CLEARED + text, end="", file=sys.stderr, flush=True)
        self._drawn = True

    def hide(self) -> None:
        """Clear the line, until it is drawn again."""
        if self._drawn:
            print(CLEARED, end="", file=sys.stderr, flush=True)
            self._drawn = False
