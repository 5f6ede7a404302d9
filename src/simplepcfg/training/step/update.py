"""The second half of a step: gradient norm, clipping, Adam, and the tally; nothing moves if they are not finite."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor, nn

from simplepcfg.errors import ResourceError
from simplepcfg.training.config.schema import TrainingConfig
from simplepcfg.training.step.capture import Capturer, Program
from simplepcfg.training.step.ema import WeightAverage
from simplepcfg.training.step.gradients import Gradients
from simplepcfg.training.step.tally import StepTally

# As torch's clip_grad_norm_ has it.
CLIP_EPSILON = 1e-6


@dataclass(frozen=True, slots=True)
class RateGroup:
    """Parameters that take the same share of the learning rate."""

    parameters: list[nn.Parameter]
    share: float


def rate_groups(model: nn.Module, network_lr_multiplier: float) -> list[RateGroup]:
    """A model's own parameters, its embeddings, take all of the rate, those of its networks this share.

    Gains take all of it, too: they alone set how large scores are, and nothing multiplies them. So do a linear layer
    that is no part of a network, since its rows are the embeddings of what it scores, and the encoder of a compound
    model, which makes no rules.
    """
    trained = [(name, parameter) for name, parameter in model.named_parameters() if parameter.requires_grad]
    if network_lr_multiplier == 1:
        return [RateGroup([parameter for _, parameter in trained], 1.0)]
    tables = {name for name, module in model.named_children() if isinstance(module, nn.Linear)}
    first = {name: name.partition(".")[0] for name, _ in trained}
    whole = {
        name
        for name, part in first.items()
        if part == name or part in tables or part == "encoder" or name.endswith(".gains")
    }
    embeddings = [parameter for name, parameter in trained if name in whole]
    networks = [parameter for name, parameter in trained if name not in whole]
    return [
        group for group in (RateGroup(embeddings, 1.0), RateGroup(networks, network_lr_multiplier)) if group.parameters
    ]


class Update(Protocol):
    """Changes the weights by the gradients that lie in their buffers."""

    @property
    def optimizer(self) -> torch.optim.Optimizer:
        """Holds the moments."""
        ...

    def __call__(self, rate: float, average: float = 0.0) -> None:
        """One update with this learning rate, counted in the tally; or none, if it would not be finite.

        `average` is the share of the weights, moved or not, in their average of now.
        """
        ...

    def restored(self) -> None:
        """The optimiser's state has been replaced."""
        ...


class HostUpdate:
    """On a CPU, where looking at a number costs nothing: the host decides. Adam would move even on zeros."""

    def __init__(
        self,
        settings: TrainingConfig,
        groups: Sequence[RateGroup],
        tally: StepTally,
        average: WeightAverage | None = None,
    ) -> None:
        self.optimizer = torch.optim.AdamW(
            [{"params": group.parameters} for group in groups],
            lr=settings.learning_rate,
            betas=settings.betas,
            weight_decay=settings.weight_decay,
            fused=True,
        )
        self._parameters = [parameter for group in groups for parameter in group.parameters]
        self._shares = [group.share for group in groups]
        self._clip, self._tally, self._average = settings.clip or math.inf, tally, average

    def __call__(self, rate: float, average: float = 0.0) -> None:
        """See Update."""
        norm = torch.nn.utils.clip_grad_norm_(self._parameters, self._clip)
        if not self._tally.add(norm).item():
            for group, share in zip(self.optimizer.param_groups, self._shares, strict=True):
                group["lr"] = rate * share
            self.optimizer.step()
        if self._average is not None:
            self._average.follow(average)

    def restored(self) -> None:
        """See Update; nothing here remembers the old state."""


class CapturedUpdate:
    """On a GPU: one program without a look from the host, captured at its second run if there is a capturer."""

    def __init__(self, capturer: Capturer | None) -> None:
        self._capturer = capturer
        self._runs = 0
        self._program: Program = self._update

    def __call__(self, rate: float, average: float = 0.0) -> None:
        """See Update."""
        self._set_rates(rate, average)
        self._runs += 1
        if self._runs == 2 and self._capturer is not None:
            self._program = self._captured(self._capturer)
        self._program()

    def restored(self) -> None:
        """See Update; what was recorded knows the old moments."""
        self._runs, self._program = 0, self._update

    def _captured(self, capturer: Capturer) -> Program:
        try:
            return capturer.capture(self._update)
        except (RuntimeError, ResourceError):  # the batches' programs say why nothing is captured
            return self._update

    def _set_rates(self, rate: float, average: float) -> None:
        """Put what the next run is told where its program reads it."""
        raise NotImplementedError

    def _update(self) -> None:
        raise NotImplementedError


class DeviceUpdate(CapturedUpdate):
    """By torch alone, for what `FusedUpdate` has no kernels for.

    Torch's fused Adam divides the gradient by `grad_scale` (here: clipping) and neither moves nor counts a step while
    `found_inf` is 1; both are tensors on the GPU, as the learning rate is.
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
        self._clip, self._tally, self._average = settings.clip, tally, average
        self._shares = [group.share for group in groups]
        self._rates = [torch.zeros((), device=self._flat.device) for _ in groups]
        self._skipped, self._scale = torch.zeros_like(self._rates[0]), torch.ones_like(self._rates[0])
        self.optimizer = torch.optim.AdamW(
            [{"params": group.parameters, "lr": rate} for group, rate in zip(groups, self._rates, strict=True)],
            betas=settings.betas,
            weight_decay=settings.weight_decay,
            fused=True,
            capturable=True,
        )
        self.optimizer.found_inf = self._skipped  # type: ignore[attr-defined]
        self.optimizer.grad_scale = self._scale  # type: ignore[attr-defined]
        # Torch would warn that the first step, which is not captured, is not captured.
        self.optimizer._warned_capturable_if_run_uncaptured = True

    def __call__(self, rate: float, average: float = 0.0) -> None:
        """See Update."""
        super().__call__(rate, average)
        if self._average is not None:
            self._average.follow(average)

    def restored(self) -> None:
        """Adam's load_state_dict copies the learning rate and brings other moments: record anew."""
        for group, rate in zip(self.optimizer.param_groups, self._rates, strict=True):
            group["lr"] = rate
        super().restored()

    def _set_rates(self, rate: float, average: float) -> None:
        for own, share in zip(self._rates, self._shares, strict=True):
            own.fill_(rate * share)

    def _update(self) -> None:
        norm = torch.linalg.vector_norm(self._flat)
        self._skipped.copy_(self._tally.add(norm))
        if self._clip:
            self._scale.copy_(((norm + CLIP_EPSILON) / self._clip).clamp(min=1.0))
        self.optimizer.step()
