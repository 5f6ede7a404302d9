"""A prior over trees, as log-weights of their spans: from biases of the first steps, from punctuation, from teachers.

The likelihood alone does not tell ((a b) c) from (a (b c)): grammars of either kind explain a text equally well.
Without a bias chance decides in the first steps, and the whole grammar is learned around that decision.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from simplepcfg.data.batching import Batch, pinned, to_device
from simplepcfg.data.encoded_text import EncodedText
from simplepcfg.data.separators import crossing_spans
from simplepcfg.errors import InputError
from simplepcfg.models import ModelConfig
from simplepcfg.runs.config.schema import TrainingConfig


@dataclass(frozen=True, slots=True)
class SpanPrior:
    """Log-weights of the spans of a batch, and a bound of what a tree can gain by them.

    The loss of a sentence is −log Σ p(x, t) exp(Σ bonus of the spans of t) + most, which is at least −log p(x).
    """

    bonus: Tensor  # [B, n + 1, n + 1]
    most: Tensor  # [B]: at least the largest sum of bonuses that a tree of the sentence has

    def __add__(self, other: SpanPrior) -> SpanPrior:
        """Return the product of both priors."""
        return SpanPrior(self.bonus + other.bonus, self.most + other.most)

    def to(self, device: torch.device, dtype: torch.dtype | None = None) -> SpanPrior:
        """Return the prior on a device, without waiting for the copy; None keeps the dtype."""
        tensors = (self.bonus, self.most) if dtype is None else (self.bonus.to(dtype), self.most.to(dtype))
        return SpanPrior(*(to_device(tensor, device) for tensor in tensors))

    def copy_(self, other: SpanPrior) -> None:
        """Overwrite the tensors by those of another prior of the same shape, without waiting for the copy."""
        for tensor, new in ((self.bonus, other.bonus), (self.most, other.most)):
            tensor.copy_(pinned(new, tensor.device), non_blocking=True)


def branching_prior(weight: float, n: int, lengths: Tensor, *, shortest: int = 2, pairs: float = 0.0) -> SpanPrior:
    """Return the prior of a branching bias for sentences with lengths [B] in a batch of width n, on the CPU.

    A positive `weight` is given to spans of `shortest` words or more that end the sentence; the absolute value of a
    negative one to spans that begin it. A purely right- or left-branching tree has one such span of each width. Spans
    of two words have the log-weight `pairs` besides.
    """
    bonus = torch.zeros(len(lengths), n + 1, n + 1)
    if weight > 0:
        bonus.scatter_(2, lengths.view(-1, 1, 1).expand(-1, n + 1, 1), weight)
    else:
        bonus[:, 0] = -weight
    bonus.triu_(shortest)
    torch.diagonal(bonus, 2, 1, 2).add_(pairs)
    return SpanPrior(bonus, abs(weight) * (lengths - shortest + 1).clamp(min=0) + pairs * (lengths // 2))


def punctuation_prior(weight: float, breaks: Sequence[Sequence[int]] | None, batch: Batch) -> SpanPrior | None:
    """Return the prior of dropped punctuation for a batch of the text, on the CPU; None where nothing has a weight.

    `breaks` are the places of separators in each sentence of the text. A span that crosses one has the log-weight
    −`weight`.
    """
    if breaks is None or not weight or not len(batch):
        return None
    places = [breaks[index] for index in batch.indices]
    crossing = crossing_spans(places, batch.words.shape[1], batch.lengths)
    return SpanPrior(-weight * crossing.float(), torch.zeros(len(batch)))


def span_prior(
    settings: TrainingConfig, step: int, breaks: Sequence[Sequence[int]] | None, batch: Batch
) -> SpanPrior | None:
    """Return the prior of the step with this number, counted from 0, on the CPU; None where no span has a weight.

    It combines the biases of the first steps with the prior of dropped punctuation, whose places are `breaks`.
    """
    punctuation = punctuation_prior(settings.punctuation_weight, breaks, batch)
    weights = settings.branching_bias, settings.pair_bias
    if step >= settings.branching_bias_steps or not any(weights):
        return punctuation
    shortest = settings.branching_bias_words
    bias = branching_prior(weights[0], batch.words.shape[1], batch.lengths, shortest=shortest, pairs=weights[1])
    return bias if punctuation is None else bias + punctuation


def require_trees(model: ModelConfig, settings: TrainingConfig) -> None:
    """Raise InputError for a setting about trees or rules if the model has none."""
    if model.has_trees:
        return
    for asked, setting, lacking in (
        (settings.branching_bias, f"branching_bias = {settings.branching_bias}", "trees; set it to 0"),
        (settings.pair_bias, f"pair_bias = {settings.pair_bias}", "trees; set it to 0"),
        (settings.punctuation_weight, f"punctuation_weight = {settings.punctuation_weight}", "trees; set it to 0"),
        (settings.teacher, f"teacher = {next(iter(settings.teacher), None)}", "trees; leave it out"),
        (settings.check_identity, "check_identity", "rules to count; set it to false"),
    ):
        if asked:
            raise InputError(f"training.{setting}: a model of kind {model.kind} has no {lacking}")


def punctuation_note(settings: TrainingConfig, breaks: EncodedText | None) -> str | None:
    """Return a remark if there is no punctuation for the prior that the configuration asks for, or None."""
    if not settings.punctuation_weight or breaks is None or breaks.lengths.any():
        return None
    return "training.punctuation_weight has no effect: the training text has no punctuation inside sentences"


def bias_note(settings: TrainingConfig, sentences: int) -> str | None:
    """Return a remark if more than half of all steps have a bias, so that trees remain biased, or None."""
    steps = settings.epochs * -(-sentences // settings.batch_size)
    keys = [key for key in ("branching_bias", "pair_bias") if getattr(settings, key)]
    if not keys or 2 * settings.branching_bias_steps <= steps:
        return None
    biased = min(steps, settings.branching_bias_steps)
    return (
        f"training.{' and '.join(keys)}: on for {biased:,} of {steps:,} steps, so that trees may do little but follow "
        "them; raise training.epochs, lower training.branching_bias_steps, or train one without a bias, as sn-pcfg-128"
    )
