"""Files written beside training: a GPU does not wait for a disk."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Abandoned(Exception):
    """Ends a write that nobody waits for any more, before its file counts."""


class BackgroundWriter:
    """One job at a time, in the order given; what goes wrong in one is raised by whichever call comes next, once.

    The thread does not keep a process alive: who wants its files must wait.
    """

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None
        self._turn = threading.Lock()
        self._abandoned = False

    def write(self, job: Callable[[], None]) -> None:
        """Begin `job`, when the one before is over. It may only read what nobody changes any more."""
        self.wait()
        self._thread = threading.Thread(target=self._run, args=(job,), name="checkpoint", daemon=True)
        self._thread.start()

    def check(self) -> None:
        """Raise what went wrong so far, without waiting."""
        if self._thread is not None and not self._thread.is_alive():
            self.wait()

    def wait(self) -> None:
        """Until all that was given is on the disk. Whoever is torn away from here, by a signal, abandons it."""
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
        """From now on no file changes any more; what is being written is thrown away when it is done."""
        with self._turn:
            self._abandoned = True
        self._thread = None

    @contextmanager
    def renaming(self) -> Iterator[None]:
        """To be held by a job while it puts a finished file in its place."""
        with self._turn:
            if self._abandoned:
                raise Abandoned
            yield

    def _run(self, job: Callable[[], None]) -> None:
        try:
            job()
        except BaseException as error:  # it is raised where somebody waits
            self._error = error
