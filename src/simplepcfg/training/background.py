"""Files written beside training: a card does not wait for a disk."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor


class BackgroundWriter:
    """One job at a time, in the order given; what goes wrong in one is raised where the next is given or waited for."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(max_workers=1, thread_name_prefix="writer")
        self._last: Future[None] | None = None

    def write(self, job: Callable[[], None]) -> None:
        """Begin `job`, when the one before is over. It may only read what nobody changes any more."""
        self.wait()
        self._last = self._threads.submit(job)

    def wait(self) -> None:
        """Until all that was given is on the disk; raises what went wrong, once."""
        last, self._last = self._last, None
        if last is not None:
            last.result()
