"""Record of skipped batches, so that a numerical error can be reproduced, and advice on what to try."""

from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

import torch
from torch import nn

from simplepcfg.errors import NumericalError
from simplepcfg.runs.config.schema import RunConfig
from simplepcfg.runs.corpus import Corpus
from simplepcfg.runs.metrics import JsonLines

# At most so many batches are written; a run whose steps are all skipped ends soon with an error.
MOST_BATCHES = 100


class SkippedBatches:
    """Keeps the batches since the counters were last read and writes them to a file if one of them was skipped.

    On a CPU that is one batch. On a GPU the counters are read every few steps and with a delay, so that the skipped
    batch is one of several candidates. `note` is called with each remark.
    """

    def __init__(self, path: Path, corpus: Corpus, note: Callable[[str], None]) -> None:
        self._path, self._corpus, self._note = path, corpus, note
        self._earlier: list[tuple[int, Sequence[int]]] = []  # counted in the next delayed read
        self._later: list[tuple[int, Sequence[int]]] = []
        self._written = 0
        self.known = 0  # number of skipped steps so far, earlier sessions included

    def add(self, step: int, indices: Sequence[int]) -> None:
        """Add a step, counted from 0, on the sentences with these indices."""
        self._later.append((step, indices))

    def start_delayed_read(self) -> None:
        """Mark that the next delayed read of the counters covers the steps so far."""
        self._earlier, self._later = [*self._earlier, *self._later], []

    def check(self, skipped: int, norm: float, *, all_done: bool, write: bool, stop: bool) -> None:
        """Compare the number of skipped steps with the one before and write the candidates if it has grown.

        `norm` is the last gradient norm. `all_done` says that `skipped` counts all steps, not only those before the
        last read; `write` that this process writes the file. Raises NumericalError if `stop` is set and a step was
        skipped.
        """
        candidates = [*self._earlier, *(self._later if all_done else ())]
        self._earlier, self._later = ([], []) if all_done else (self._later, [])
        new, self.known = skipped - self.known, skipped
        if new <= 0 or not candidates:
            return
        if write and self._written < MOST_BATCHES:
            self._write(candidates, norm, certain=len(candidates) == new)
        first, last = candidates[0][0] + 1, candidates[-1][0] + 1
        steps = f"step {first}" if first == last else f"{new} of steps {first} to {last}"
        said = f"{steps} skipped: no finite loss and gradient (norm {norm:g}); the sentences are in {self._path.name}"
        if stop:
            advice = "resume with training.stop_at_skipped=false, or begin a run with a lower training.learning_rate"
            raise NumericalError(f"{said}; {advice}")
        if write:
            self._note(said)

    def _write(self, candidates: Sequence[tuple[int, Sequence[int]]], norm: float, certain: bool) -> None:
        with closing(JsonLines(self._path)) as lines:
            for step, indices in candidates:
                record = {"step": step + 1, "certain": certain, "gradient_norm": norm, "indices": list(indices)}
                sentences = [" ".join(self._corpus.vocabulary.decode(self._corpus.train[index])) for index in indices]
                lines.write(record | {"sentences": sentences})
        self._written += len(candidates)


SAFE_NETWORK_LR_MULTIPLIER = 0.1


def stability_advice(config: RunConfig, model: nn.Module, device: torch.device) -> str:
    """Return what to change in the configuration; large updates of the networks are the likeliest cause."""
    advice = "lower training.learning_rate"
    too_fast = config.training.network_lr_multiplier > SAFE_NETWORK_LR_MULTIPLIER
    if too_fast and not getattr(config.model, "rms_norm", False):
        advice = f"set training.network_lr_multiplier={SAFE_NETWORK_LR_MULTIPLIER} or {advice}"
    if device.type != "cpu" and getattr(model, "precision", "fp32") != "fp32":
        advice += " or set training.precision=fp32"
    return advice
