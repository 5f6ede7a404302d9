"""Writes files in a background thread, so that training does not wait for the disk."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Abandoned(Exception):
    """Raised inside a job that was abandoned, before its file replaces the old one."""


class BackgroundWriter:
    """Runs one job at a time, in order; the error of a job is raised once, by the next call.

    The thread is a daemon and does not keep the process alive: call `wait` before the process ends.
    """

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None
        self._turn = threading.Lock()
        self._abandoned = False

    def write(self, job: Callable[[], None]) -> None:
        """Start `job` after waiting for the one before; the job may only read data that no longer changes."""
        self.wait()

        def run() -> None:
            try:
                job()
            except BaseException as error:  # The next call of the main thread raises it.
                self._error = error

        self._thread = threading.Thread(target=run, name="checkpoint", daemon=True)
        self._thread.start()

    def check(self) -> None:
        """Raise the error of a finished job, without waiting for one in progress."""
        if self._thread is not None and not self._thread.is_alive():
            self.wait()

    def wait(self) -> None:
        """Wait until the job is done and raise its error; a signal that interrupts the wait abandons the job."""
        if self._thread is None:
            return
        try:
            self._thread.join()
        except BaseException:
            self.abandon()
            raise
        self._thread, error, self._error = None, self._error, None
        if error is not None:
            raise error

    def abandon(self) -> None:
        """Let no file change from now on; the file that is being written is discarded."""
        with self._turn:
            self._abandoned = True
        self._thread = None

    @contextmanager
    def renaming(self) -> Iterator[None]:
        """Guard the renaming of a finished file; raise Abandoned inside a job that was abandoned."""
        with self._turn:
            if self._abandoned:
                raise Abandoned
            yield
