"""A lean to one side while training begins: trees that branch to the right, or to the left, count for more.

Nothing in the likelihood says whether phrases are strung together ((a b) c) or (a (b c)): grammars that do either
explain a text equally well, so chance decides, early, and the whole grammar is learned around it.
"""

from typing import Any

import torch
from torch import Tensor

from simplepcfg.errors import InputError
from simplepcfg.training.config.schema import TrainingConfig


class Branching:
    """How much each step leans: `training.branching` for the first `training.branching_steps`, then not at all."""

    def __init__(self, model: Any, settings: TrainingConfig) -> None:
        self._weight, self._steps = settings.branching, settings.branching_steps
        if self._weight and getattr(model.config, "states", None):
            raise InputError(
                f"training.branching = {self._weight}: a model of kind {model.config.kind} has no trees; set it to 0"
            )

    def at(self, step: int) -> float:
        """Of the step with this number, counted from 0."""
        return self._weight if step < self._steps else 0.0


def lean(weight: float, batch: int, n: int, lengths: Tensor | None, device: torch.device) -> tuple[Tensor, Tensor]:
    """Log-weights of spans [B, n + 1, n + 1], and the most that a tree of each sentence gathers by them, [B].

    A positive weight goes to the spans that end the sentence, a negative one's size to those that begin it. A tree that
    branches to that side alone has one of each width.
    """
    ends = torch.full((batch,), n) if lengths is None else lengths.cpu()
    if weight > 0:
        bonus = torch.zeros(batch, n + 1, n + 1).scatter_(2, ends.view(-1, 1, 1).expand(-1, n + 1, 1), weight)
    else:
        bonus = torch.zeros(batch, n + 1, n + 1)
        bonus[:, 0] = -weight
    return bonus.to(device), (abs(weight) * (ends - 1)).to(device)
