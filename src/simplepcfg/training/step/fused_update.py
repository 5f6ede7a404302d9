"""The optimiser update on a GPU in three kernels, whatever the number of parameters."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from simplepcfg.ops.backends import has_triton
from simplepcfg.ops.capture import Capturer
from simplepcfg.ops.update import AdamTable, ParameterState, adam, finish_step, square_sums
from simplepcfg.runs.config.schema import TrainingConfig
from simplepcfg.training.step.counters import LARGEST_EXCESS, StepCounters
from simplepcfg.training.step.ema import WeightEMA
from simplepcfg.training.step.gradients import Gradients
from simplepcfg.training.step.update import CLIP_EPSILON, CapturedUpdate, LearningRateGroup


def can_fuse(parameters: Sequence[nn.Parameter]) -> bool:
    """Return whether the kernels support these parameters: float32 on a GPU, with Triton installed."""
    return has_triton() and all(weight.is_cuda and weight.dtype == torch.float32 for weight in parameters)


class FusedUpdate(CapturedUpdate):
    """Update that computes the norm, the counters and clipping, then AdamW and the EMA in one pass over the weights.

    Torch's fused Adam splits each parameter into few large pieces, too few to fill a GPU, and needs another pass for
    the EMA. Torch's optimiser still holds the moments, so that a checkpoint is the same on every device.
    """

    def __init__(
        self,
        settings: TrainingConfig,
        groups: Sequence[LearningRateGroup],
        gradients: Gradients,
        counters: StepCounters,
        capturer: Capturer | None = None,
        ema: WeightEMA | None = None,
    ) -> None:
        super().__init__(capturer)
        assert gradients.flat is not None
        self._flat: Tensor = gradients.flat
        self._settings, self._groups, self._counters = settings, groups, counters
        self._means = ema.means if ema is not None else {}
        self.optimizer = torch.optim.AdamW(
            [{"params": group.parameters} for group in groups],
            lr=settings.learning_rate,
            betas=settings.betas,
            weight_decay=settings.weight_decay,
            fused=True,
        )
        self._rates = self._flat.new_zeros(2)
        self._build_table()

    def reset(self) -> None:
        """See `Update.reset`: the new moments have other addresses."""
        super().reset()
        self._build_table()

    def _build_table(self) -> None:
        """Create missing moments and collect the addresses of all weights, gradients, moments and averages."""
        state = self.optimizer.state
        # Torch does not count a step for a parameter without a gradient; here one count serves all parameters.
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
                states.append(
                    ParameterState(weight, weight.grad, first, second, self._means.get(weight), group.multiplier)
                )
        self._table = AdamTable(states)

    def _set_rates(self, rate: float, ema_weight: float) -> None:
        self._rates[0].fill_(rate)
        self._rates[1].fill_(ema_weight)

    def launch(self) -> None:
        """Launch the kernels of an update with the rates of the last one."""
        self._update()

    def _update(self) -> None:
        settings, counters = self._settings, self._counters
        scalars = finish_step(
            square_sums(self._flat),
            counters.batch,
            counters.values,
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
