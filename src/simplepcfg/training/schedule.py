"""Learning rate and weight decay of a run, and the length curriculum: the sentences of each epoch."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from simplepcfg.data.batching import training_batches
from simplepcfg.errors import InputError
from simplepcfg.runs.checkpoint import TrainingState
from simplepcfg.runs.config.schema import TrainingConfig

# Weight decay by the epoch shrinks weights to 1 / e in no fewer steps than these, however short an epoch is. Without
# this bound sn-pcfg-128 had a validation perplexity of 299 on 6,011 sentences of GUM, 376 steps an epoch, with it 251.
LEAST_DECAY_STEPS = 1250
NEVER = 2**31  # the number of an epoch that does not come


def learning_rate(settings: TrainingConfig, state: TrainingState, batches_per_epoch: int) -> float:
    """Return the learning rate of the next step, by `training.schedule` and `training.warmup_steps`."""
    rate = settings.learning_rate
    if settings.schedule == "linear":
        done = (state.epoch + state.batch / batches_per_epoch) / settings.epochs
        rate *= 1 - done
    elif settings.schedule == "plateau":
        rate *= settings.plateau_factor**state.rate_reductions
    if state.step < settings.warmup_steps:
        rate *= (state.step + 1) / settings.warmup_steps
    return rate


def with_weight_decay(settings: TrainingConfig, sentences: int) -> TrainingConfig:
    """Return the settings with the `weight_decay` that `weight_decay_per_epoch` means for so many sentences."""
    if not settings.weight_decay_per_epoch:
        return settings
    steps = math.ceil(sentences / settings.batch_size)
    share = min(settings.weight_decay_per_epoch / max(1, steps), 1 / LEAST_DECAY_STEPS)
    return settings.model_copy(update={"weight_decay": share / settings.learning_rate, "weight_decay_per_epoch": 0.0})


class Curriculum:
    """Batches of each epoch, determined by its number and the seed, so that a resumed run makes the same ones.

    In epoch e (from 0) sentences of up to start + e · growth words take part, each once; longer ones wait. With a
    start of 0 all take part from the beginning. `lengths` are those of the training sentences. Raises InputError if
    no sentence is short enough for the first epoch.
    """

    def __init__(self, lengths: Sequence[int] | Tensor, settings: TrainingConfig, seed: int) -> None:
        self._lengths, self._settings, self._seed = torch.as_tensor(lengths, dtype=torch.int64), settings, seed
        start, growth, shortest = settings.curriculum_start, settings.curriculum_growth, int(self._lengths.min())
        if start and shortest > start:
            raise InputError(
                f"training.curriculum_start = {start}, but the shortest training sentence has {shortest} words; "
                "raise it"
            )
        missing = (self._lengths - start).clamp(min=0) if start else torch.zeros_like(self._lengths)
        # The epoch in which each sentence first takes part.
        self._first = -(-missing // growth) if growth else torch.where(missing > 0, NEVER, 0)

    def batches(self, epoch: int) -> list[list[int]]:
        """Return the batches of an epoch as lists of sentence indices, each index exactly once."""
        chosen = (self._first <= epoch).nonzero()[:, 0]
        batches = training_batches(self._lengths[chosen], self._settings.batch_size, self._seed, epoch)
        return [chosen[places].tolist() for places in batches]

    def tokens(self, epoch: int) -> int:
        """Return the number of words in an epoch."""
        return int(self._lengths[self._first <= epoch].sum())

    def tokens_after(self, epoch: int) -> int:
        """Return the number of words in all epochs after this one, if patience ends none of them."""
        epochs_left = (self._settings.epochs - self._first.clamp(min=epoch + 1)).clamp(min=0)
        return int((self._lengths * epochs_left).sum())

    @property
    def note(self) -> str | None:
        """One line for the user; None if all sentences take part from the beginning."""
        start, growth, epochs = self._settings.curriculum_start, self._settings.curriculum_growth, self._settings.epochs
        complete = int(self._first.max())
        if complete == 0:
            return None
        text = f"curriculum: sentences of up to {start} words in the first epoch"
        if complete >= epochs:
            left = int((self._first >= epochs).sum())
            longest = start + (epochs - 1) * growth
            return f"{text}, up to {longest} in the last; {left:,} longer sentences never take part"
        return f"{text}, {growth} more each epoch, all from epoch {complete + 1}"
