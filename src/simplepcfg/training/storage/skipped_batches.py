"""Which batches were skipped, for a report that somebody else can repeat."""

from collections.abc import Callable, Sequence
from pathlib import Path

from simplepcfg.data.vocabulary import Vocabulary
from simplepcfg.errors import NumericalError
from simplepcfg.training.storage.metrics import JsonLines

# After so many batches nothing more is written: a run whose steps all fail ends soon, and says why.
MOST_BATCHES = 100


class SkippedBatches:
    """Remembers the batches since the sums of training were last looked at, and writes those among which one failed.

    On a CPU that is one batch; on a GPU the sums are looked at every few steps, and late.
    """

    def __init__(
        self, path: Path, text: Sequence[Sequence[int]], vocabulary: Vocabulary, note: Callable[[str], None]
    ) -> None:
        self._path, self._text, self._vocabulary, self._note = path, text, vocabulary, note
        self._earlier: list[tuple[int, Sequence[int]]] = []  # known to be over at the next glance
        self._later: list[tuple[int, Sequence[int]]] = []
        self._written = 0
        self.known = 0  # steps that were skipped so far, of earlier sessions too

    def begin(self, step: int, indices: Sequence[int]) -> None:
        """A step of these sentences is under way."""
        self._later.append((step, indices))

    def glanced(self) -> None:
        """The next look will be at the steps begun so far."""
        self._earlier, self._later = [*self._earlier, *self._later], []

    def look(self, skipped: int, norm: float, *, all_done: bool, write: bool, stop: bool) -> None:
        """Compare the number of skipped steps with the one before; NumericalError where training is to `stop`.

        `all_done` says that the number is of all steps begun, and not of those before the last look alone.
        """
        candidates = [*self._earlier, *(self._later if all_done else ())]
        self._earlier, self._later = ([], []) if all_done else (self._later, [])
        new, self.known = skipped - self.known, skipped
        if new <= 0 or not candidates:
            return
        if write and self._written < MOST_BATCHES:
            self._write(candidates, new, norm)
        steps = f"step {candidates[0][0] + 1}" if len(candidates) == 1 else f"{new} of steps {_range(candidates)}"
        said = f"{steps} skipped: no finite loss and gradient (norm {norm:g}); the sentences are in {self._path.name}"
        if stop:
            raise NumericalError(f"{said}; lower training.learning_rate, or set training.stop_at_skipped=false")
        if write:
            self._note(said)

    def _write(self, candidates: Sequence[tuple[int, Sequence[int]]], new: int, norm: float) -> None:
        with JsonLines(self._path) as lines:
            for step, indices in candidates:
                words = [self._vocabulary.decode(self._text[index]) for index in indices]
                certain = len(candidates) == new
                record = {"step": step + 1, "certain": certain, "gradient_norm": norm, "indices": list(indices)}
                lines.write(record | {"sentences": [" ".join(sentence) for sentence in words]})
        self._written += len(candidates)


def _range(candidates: Sequence[tuple[int, Sequence[int]]]) -> str:
    return f"{candidates[0][0] + 1} to {candidates[-1][0] + 1}"
