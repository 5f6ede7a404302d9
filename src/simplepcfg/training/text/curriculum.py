"""Length curriculum: the training sentences of each epoch, short ones first."""

from collections.abc import Sequence

from simplepcfg.data.batching import training_batches
from simplepcfg.errors import InputError
from simplepcfg.training.config.schema import TrainingConfig


class Curriculum:
    """Batches of each epoch, determined by its number and the seed, so that a resumed run makes the same ones.

    In epoch e (from 0) sentences of up to start + e · growth words take part, each once; longer ones wait. With a
    start of 0 all take part from the beginning. `lengths` are those of the training sentences. Raises InputError if
    no sentence is short enough for the first epoch.
    """

    def __init__(self, lengths: Sequence[int], settings: TrainingConfig, seed: int) -> None:
        self._lengths, self._settings, self._seed = list(lengths), settings, seed
        self._longest = max(self._lengths, default=0)
        shortest = min(self._lengths, default=0)
        if settings.curriculum_start and shortest > settings.curriculum_start:
            raise InputError(
                f"training.curriculum_start = {settings.curriculum_start}, but the shortest training sentence has "
                f"{shortest} words; raise it"
            )

    def limit(self, epoch: int) -> int:
        """Return the length of the longest sentence that may take part in an epoch."""
        settings = self._settings
        if not settings.curriculum_start:
            return self._longest
        return min(settings.curriculum_start + epoch * settings.curriculum_growth, self._longest)

    def batches(self, epoch: int) -> list[list[int]]:
        """Return the batches of an epoch as lists of sentence indices, each index exactly once."""
        limit = self.limit(epoch)
        chosen = [index for index, length in enumerate(self._lengths) if length <= limit]
        lengths = [self._lengths[index] for index in chosen]
        batches = training_batches(lengths, self._settings.batch_size, self._seed, epoch)
        return [[chosen[place] for place in places] for places in batches]

    def tokens(self, epoch: int) -> int:
        """Return the number of words in an epoch."""
        limit = self.limit(epoch)
        return sum(length for length in self._lengths if length <= limit)

    @property
    def complete_at(self) -> int | None:
        """The first epoch (from 0) with all sentences; None if that never comes."""
        settings = self._settings
        missing = self._longest - self.limit(0)
        if missing <= 0:
            return 0
        return -(-missing // settings.curriculum_growth) if settings.curriculum_growth else None

    def tokens_after(self, epoch: int) -> int:
        """Return the number of words in all epochs after this one, if patience ends none of them."""
        last, complete = self._settings.epochs, self.complete_at
        growing = epoch + 1 if complete is None else min(last, max(epoch + 1, complete))  # from there on all are equal
        ahead = sum(self.tokens(number) for number in range(epoch + 1, growing))
        return ahead + max(0, last - growing) * self.tokens(growing)

    @property
    def note(self) -> str | None:
        """One line for the user; None if all sentences take part from the beginning."""
        settings, complete = self._settings, self.complete_at
        if complete == 0:
            return None
        text = f"curriculum: sentences of up to {settings.curriculum_start} words in the first epoch"
        if complete is None or complete >= settings.epochs:
            longest = self.limit(settings.epochs - 1)
            left = sum(length > longest for length in self._lengths)
            return f"{text}, up to {longest} in the last; {left:,} longer sentences never take part"
        return f"{text}, {settings.curriculum_growth} more each epoch, all from epoch {complete + 1}"
