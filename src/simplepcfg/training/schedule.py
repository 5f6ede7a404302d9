"""Learning rate and weight decay of a run."""

import math

from simplepcfg.runs.checkpoint import TrainingState
from simplepcfg.runs.config.schema import TrainingConfig

# Weight decay by the epoch shrinks weights to 1 / e in no fewer steps than these, however short an epoch is. Without
# this bound sn-pcfg-128 had a validation perplexity of 299 on 6,011 sentences of GUM, 376 steps an epoch, with it 251.
LEAST_DECAY_STEPS = 1250


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
