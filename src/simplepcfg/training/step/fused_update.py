"""The second half of a step on a GPU: three kernels, whatever the number of parameters."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from simplepcfg.ops.backends import has_triton
from simplepcfg.ops.update import AdamTable, ParameterState, adam, finish_step, square_sums
from simplepcfg.training.config.schema import TrainingConfig
from simplepcfg.training.step.capture import Capturer
from simplepcfg.training.step.ema import WeightAverage
from simplepcfg.training.step.gradients import Gradients
from simplepcfg.training.step.tally import LARGEST_EXCESS, StepTally
from simplepcfg.training.step.update import CLIP_EPSILON, CapturedUpdate, RateGroup


def can_fuse(parameters: Sequence[nn.Parameter]) -> bool:
    """Whether the kernels know these weights."""
    return has_triton() and all(weight.is_cuda and weight.dtype == torch.float32 for weight in parameters)


class FusedUpdate(CapturedUpdate):
    """Norm, tally and clipping, then AdamW and the average of the weights in one pass over them.

    Torch's fused Adam takes few large pieces of each parameter, too few to fill a GPU, and the average is another
    pass. Torch's optimiser remains as the place of the moments, so that a checkpoint is the same on every device.
    """

    def __init__(
        self,
        settings: TrainingConfig,
        groups: Sequence[RateGroup],
        gradients: Gradients,
        tally: StepTally,
        capturer: Capturer | None = None,
        average: WeightAverage | None = None,
    ) -> None:
        super().__init__(capturer)
        assert gradients.flat is not None
        self._flat: Tensor = gradients.flat
        self._settings, self._groups, self._tally = settings, groups, tally
        self._means = average.means if average is not None else {}
        self.optimizer = torch.optim.AdamW(
            [{"params": group.parameters} for group in groups],
            lr=settings.learning_rate,
            betas=settings.betas,
            weight_decay=settings.weight_decay,
            fused=True,
        )
        self._rates = self._flat.new_zeros(2)
        self._lay_out()

    def restored(self) -> None:
        """See Update: other moments, at other addresses."""
        super().restored()
        self._lay_out()

    def _lay_out(self) -> None:
        """Give every parameter moments, if it has none, and note where all of it lies."""
        state = self.optimizer.state
        # On a CPU a parameter that had no part in a batch was not counted; here all are, so that one count serves all.
        counts = [held["step"] for held in state.values() if "step" in held]
        self._steps = torch.stack(counts).amax() if counts else self._flat.new_zeros(())
        states = []
        for group in self._groups:
            for weight in group.parameters:
                first, second = (state[weight].get(name) for name in ("exp_avg", "exp_avg_sq"))
                first = torch.zeros_like(weight) if first is None else first
                second = torch.zeros_like(weight) if second is None else second
                state[weight] = {"step": self._steps, "exp_avg": first, "exp_avg_sq": second}
                assert weight.grad is not None
                states.append(ParameterState(weight, weight.grad, first, second, self._means.get(weight), group.share))
        self._table = AdamTable(states)

    def _set_rates(self, rate: float, average: float) -> None:
        self._rates[0].fill_(rate)
        self._rates[1].fill_(average)

    def _update(self) -> None:
        settings, tally = self._settings, self._tally
        scalars = finish_step(
            square_sums(self._flat),
            tally.batch,
            tally.values,
            self._steps,
            clip=settings.clip,
            epsilon=CLIP_EPSILON,
            least_loss=-LARGEST_EXCESS,
            betas=settings.betas,
        )
        adam(
            self._table,
            scalars,
            self._rates,
            betas=settings.betas,
            decay=settings.weight_decay,
            epsilon=self.optimizer.defaults["eps"],
        )
