"""A branching bias for the first steps of training: trees that branch to one side count for more.

Nothing in the likelihood says whether phrases are strung together ((a b) c) or (a (b c)): grammars that do either
explain a text equally well, so chance decides, early, and the whole grammar is learned around it.
"""

from typing import Any

import torch
from torch import Tensor

from simplepcfg.errors import InputError
from simplepcfg.training.config.schema import TrainingConfig


class BranchingBias:
    """The bias of each step: `training.branching_bias` for the first `training.branching_bias_steps`, then 0."""

    def __init__(self, model: Any, settings: TrainingConfig) -> None:
        self._weight, self._steps = settings.branching_bias, settings.branching_bias_steps
        if self._weight and getattr(model.config, "states", None):
            raise InputError(
                f"training.branching_bias = {self._weight}: a model of kind {model.config.kind} has no trees; set it "
                "to 0"
            )

    def at(self, step: int) -> float:
        """Return the bias of the step with this number, counted from 0."""
        return self._weight if step < self._steps else 0.0


def branching_bonus(
    weight: float, batch: int, n: int, lengths: Tensor | None, device: torch.device
) -> tuple[Tensor, Tensor]:
    """Return log-weights of spans [B, n + 1, n + 1], and the largest sum of them that a tree of each sentence has, [B].

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
