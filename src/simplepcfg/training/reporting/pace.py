"""How fast training goes, though a GPU is always some steps behind the host."""

import time


class Pace:
    """Words a second of training alone, as of the last moment when it was known how far the device had come."""

    def __init__(self) -> None:
        self._seconds, self._words, self._begun = 0.0, 0, 0
        self._since = time.monotonic()

    def go_on(self) -> None:
        """Training begins, or goes on after something else."""
        self._since = time.monotonic()

    def begun(self, words: int) -> None:
        """A step has been launched."""
        self._begun += words

    def reached(self) -> None:
        """What was begun is done."""
        now = time.monotonic()
        self._seconds, self._since = self._seconds + now - self._since, now
        self._words, self._begun = self._words + self._begun, 0

    @property
    def words_per_second(self) -> float:
        """0 as long as nothing is known."""
        return self._words / self._seconds if self._seconds else 0.0
