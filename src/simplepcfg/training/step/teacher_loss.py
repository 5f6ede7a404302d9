"""Distillation: the part of the loss that comes from the span marginals of teachers.

Two forms. As a prior, a span (i, j) has the log-weight w q_ij, where q_ij is the teachers' marginal: trees that the
teachers expect count for more. As soft targets, the loss has w Σ KL(q_ij ‖ p_ij) over spans, where p_ij is the model's
own marginal and each span is a variable that is there or not.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from simplepcfg.data.batching import Batch
from simplepcfg.runs.config.schema import TrainingConfig
from simplepcfg.training.step.span_prior import SpanPrior
from simplepcfg.training.teachers import TeacherMarginals


@dataclass(frozen=True, slots=True)
class TeacherSignal:
    """The teachers' span marginals of one batch, and how much they count."""

    form: str
    weight: float
    marginals: Tensor  # [B, n + 1, n + 1]
    best: Tensor  # [B], the largest sum of marginals that a tree of each sentence has

    def prior(self) -> SpanPrior:
        """Return the signal as a prior over trees."""
        return SpanPrior(self.weight * self.marginals, self.weight * self.best)


def teacher_weight(settings: TrainingConfig, step: int) -> float:
    """Return the weight of teachers in the step with this number, counted from 0."""
    left = 1 - step / settings.teacher_steps if settings.teacher_steps else 1.0
    return settings.teacher_weight * max(left, 0.0)


def teacher_signal(
    settings: TrainingConfig, marginals: TeacherMarginals | None, step: int, batch: Batch
) -> TeacherSignal | None:
    """Return the signal for the sentences of a batch; None without teachers, or where their weight is 0."""
    weight = teacher_weight(settings, step)
    if marginals is None or not weight or not len(batch):
        return None
    tables = marginals.of(batch.indices, batch.words.shape[1])
    return TeacherSignal(settings.teacher_form, weight, tables, marginals.best[batch.indices])


def span_divergence(marginals: Tensor, targets: Tensor) -> Tensor:
    """Return Σ KL(q ‖ p) of each sentence [B] for marginals p and targets q [B, n + 1, n + 1], spans taken one by one.

    Logarithms are bounded from below by −100, as in torch's binary cross-entropy.
    """
    cross = functional.binary_cross_entropy(marginals.clamp(0, 1), targets, reduction="none")
    entropy = torch.special.entr(targets) + torch.special.entr(1 - targets)
    return (cross - entropy).sum((1, 2))
