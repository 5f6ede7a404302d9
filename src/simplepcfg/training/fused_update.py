"""The second half of a step on a card: three kernels, whatever the number of parameters."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from simplepcfg.ops.backends import has_triton
from simplepcfg.training.averaging import WeightAverage
from simplepcfg.training.capture import Capturer
from simplepcfg.training.config import TrainingConfig
from simplepcfg.training.gradients import Gradients
from simplepcfg.training.tally import LARGEST_EXCESS, StepTally
from simplepcfg.training.update import CLIP_EPSILON, CapturedUpdate, RateGroup

BLOCK = 2048  # weights of a program
PARTS = 1024  # sums of squares, a power of two
SQUARES_AT_ONCE = 2048


def can_fuse(parameters: Sequence[nn.Parameter]) -> bool:
    """Whether the kernels know these weights."""
    return has_triton() and all(weight.is_cuda and weight.dtype == torch.float32 for weight in parameters)


class FusedUpdate(CapturedUpdate):
    """Norm, tally and clipping, then AdamW and the average of the weights in one pass over them.

    Torch's fused Adam takes few large pieces of each parameter, too few to fill a card, and the average is another
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
        self._settings, self._groups, self._tally, self._average = settings, groups, tally, average
        self.optimizer = torch.optim.AdamW(
            [{"params": group.parameters} for group in groups],
            lr=settings.learning_rate,
            betas=settings.betas,
            weight_decay=settings.weight_decay,
            fused=True,
        )
        self._sums = self._flat.new_zeros(PARTS)
        self._scalars = self._flat.new_zeros(4)
        self._rates = self._flat.new_zeros(2)
        self._lay_out()

    def restored(self) -> None:
        """See Update: other moments, at other addresses."""
        super().restored()
        self._lay_out()

    def _set_rates(self, rate: float, average: float) -> None:
        self._rates[0].fill_(rate)
        self._rates[1].fill_(average)

    def _lay_out(self) -> None:
        """Which program moves what: a table of addresses, with moments that exist from the start."""
        state = self.optimizer.state
        steps = [held["step"] for held in state.values() if "step" in held]
        self._steps = steps[0].clone() if steps else self._flat.new_zeros(())
        means = self._average.means if self._average is not None else {}
        self._has_mean = bool(means)
        rows, shares = [], []
        for group in self._groups:
            for weight in group.parameters:
                held = state[weight]
                first, second = (held.get(name) for name in ("exp_avg", "exp_avg_sq"))
                first = torch.zeros_like(weight) if first is None else first
                second = torch.zeros_like(weight) if second is None else second
                state[weight] = {"step": self._steps, "exp_avg": first, "exp_avg_sq": second}
                gradient, mean = weight.grad, means.get(weight, weight)
                assert gradient is not None
                tensors = (weight, gradient, first, second, mean)
                assert all(tensor.is_contiguous() and tensor.data_ptr() % 16 == 0 for tensor in tensors)
                for start in range(0, weight.numel(), BLOCK):
                    addresses = [tensor.data_ptr() + start * tensor.element_size() for tensor in tensors]
                    rows.append([*addresses, min(BLOCK, weight.numel() - start)])
                    shares.append(group.share)
        self._table = torch.tensor(rows, dtype=torch.int64).to(self._flat.device)
        self._shares = torch.tensor(shares, dtype=torch.float32).to(self._flat.device)

    def _update(self) -> None:
        from simplepcfg.training.step_kernels import adam_kernel, settle_kernel, square_sums_kernel

        settings, size = self._settings, self._flat.numel()
        each = -(-size // (PARTS * SQUARES_AT_ONCE)) * SQUARES_AT_ONCE
        square_sums_kernel[(PARTS,)](self._flat, self._sums, size, each, BLOCK=SQUARES_AT_ONCE, num_warps=4)
        beta1, beta2 = settings.betas
        logs = [math.log(beta) if beta else -math.inf for beta in (beta1, beta2)]
        settle_kernel[(1,)](
            self._sums, self._tally.batch, self._tally.values, self._steps, self._scalars, settings.clip or 0.0,
            CLIP_EPSILON, -LARGEST_EXCESS, *logs, PARTS=PARTS, num_warps=4,
        )  # fmt: skip
        adam_kernel[(len(self._table),)](
            self._table, self._shares, self._scalars, self._rates, 1 - beta1, beta2, 1 - beta2,
            settings.weight_decay, self.optimizer.defaults["eps"], HAS_MEAN=self._has_mean, BLOCK=BLOCK, num_warps=4,
        )  # fmt: skip
