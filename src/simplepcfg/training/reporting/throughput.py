"""Training throughput, measured although a GPU always runs some steps behind the host."""

import time


class Throughput:
    """Words per second of training alone, up to the last moment when the device was known to be idle."""

    def __init__(self) -> None:
        self._seconds, self._words, self._launched = 0.0, 0, 0
        self._since = time.monotonic()

    def resume(self) -> None:
        """Start the clock, at the beginning or after validation or a checkpoint."""
        self._since = time.monotonic()

    def add_words(self, words: int) -> None:
        """Count the words of a step that has been launched."""
        self._launched += words

    def finish_words(self) -> None:
        """Count the words launched so far as done."""
        now = time.monotonic()
        self._seconds, self._since = self._seconds + now - self._since, now
        self._words, self._launched = self._words + self._launched, 0

    @property
    def words_per_second(self) -> float:
        """Words per second; 0 as long as no step is known to be done."""
        return self._words / self._seconds if self._seconds else 0.0
