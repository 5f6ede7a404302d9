"""Branching bias: a prior for left- or right-branching trees in the first steps of training.

The likelihood alone does not tell ((a b) c) from (a (b c)): grammars of either kind explain a text equally well.
Without a bias chance decides in the first steps, and the whole grammar is learned around that decision.
"""

from simplepcfg.errors import InputError
from simplepcfg.models import ModelConfig
from simplepcfg.runs.config.schema import TrainingConfig


class BranchingBias:
    """Schedule of the bias: `training.branching_bias` for the first `training.branching_bias_steps`, then 0.

    Raises InputError if a bias is set for a model without trees.
    """

    def __init__(self, model: ModelConfig, settings: TrainingConfig) -> None:
        self._weight, self._steps = settings.branching_bias, settings.branching_bias_steps
        if self._weight and getattr(model, "states", None):
            raise InputError(
                f"training.branching_bias = {self._weight}: a model of kind {model.kind} has no trees; set it to 0"
            )

    def at(self, step: int) -> float:
        """Return the bias of the step with this number, counted from 0."""
        return self._weight if step < self._steps else 0.0


def bias_note(settings: TrainingConfig, sentences: int) -> str | None:
    """Return a remark if more than half of all steps have the branching bias, so that trees remain biased, or None."""
    steps = settings.epochs * -(-sentences // settings.batch_size)
    if not settings.branching_bias or 2 * settings.branching_bias_steps <= steps:
        return None
    side = "right" if settings.branching_bias > 0 else "left"
    biased = min(steps, settings.branching_bias_steps)
    return (
        f"training.branching_bias is on for {biased:,} of {steps:,} steps: trees may do little but branch to the {side}"
        "; raise training.epochs, lower training.branching_bias_steps, or train one without it, such as sn-pcfg-128"
    )
