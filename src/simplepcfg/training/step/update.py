"""Gradient buffers and the update by them: norm, clipping, Adam; a step that is not finite changes no weights."""

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from simplepcfg.errors import ResourceError
from simplepcfg.ops.cuda_graphs.capture import Capturer, Launch
from simplepcfg.ops.shards import Shards
from simplepcfg.runs.config.schema import TrainingConfig
from simplepcfg.training.step.counters import StepCounters
from simplepcfg.training.step.ema import WeightEMA

# The gradient of every parameter begins at a multiple of this many elements, so that kernels can use vector loads.
ALIGNMENT = 64


class Gradients:
    """Gradients of the parameters; with `flat`, views of one buffer, which one call can reduce or take the norm of.

    The last parameters, `sharded` of them, belong to this process's symbols alone, and so do their gradients.
    """

    def __init__(
        self, parameters: Sequence[nn.Parameter], flat: bool, sharded: int = 0, shards: Shards | None = None
    ) -> None:
        self.parameters = list(parameters)
        self.flat: Tensor | None = None
        self.shared: Tensor | None = None  # the part of `flat` of parameters that all processes have
        self.own: Tensor | None = None  # the part of `flat` of this process's symbols
        self._shards = shards
        self._views: list[Tensor] = []
        if flat:
            starts = [0]
            for parameter in self.parameters:
                starts.append(starts[-1] + -(-parameter.numel() // ALIGNMENT) * ALIGNMENT)
            first = self.parameters[0]
            self.flat = torch.zeros(starts[-1], dtype=first.dtype, device=first.device)
            for parameter, start in zip(self.parameters, starts, strict=False):
                self._views.append(self.flat[start : start + parameter.numel()].view_as(parameter))
                parameter.grad = self._views[-1]
            self.shared = self.flat[: starts[len(self.parameters) - sharded]]
            self.own = self.flat[starts[len(self.parameters) - sharded] :] if sharded else None

    def norm(self) -> Tensor:
        """Compute the norm of all gradients in the buffer, those of other processes' symbols included."""
        assert self.flat is not None
        if self._shards is None or self.own is None or self.shared is None:
            return torch.linalg.vector_norm(self.flat)
        squares = self.own.double().square().sum()
        self._shards.sum_(squares)
        return (squares + self.shared.double().square().sum()).sqrt().to(self.flat.dtype)

    def store(self, computed: Sequence[Tensor | None]) -> None:
        """Store a batch's gradients, one for each parameter; None stands for a parameter that was not used."""
        if self.flat is None:
            for parameter, gradient in zip(self.parameters, computed, strict=True):
                # Torch's fused Adam assumes that a gradient has the strides of its parameter, which a view of a larger
                # tensor does not have.
                parameter.grad = None if gradient is None else gradient.contiguous()
            return
        pairs = [(view, gradient) for view, gradient in zip(self._views, computed, strict=True) if gradient is not None]
        if len(pairs) < len(self._views):
            self.flat.zero_()
        views, gradients = zip(*pairs, strict=True)
        torch._foreach_copy_(views, gradients)

    def clear(self) -> None:
        """Set all gradients to 0."""
        if self.flat is not None:
            self.flat.zero_()
        else:
            self.store([torch.zeros_like(parameter) for parameter in self.parameters])


# The constant that torch's clip_grad_norm_ adds to the norm.
CLIP_EPSILON = 1e-6


@dataclass(frozen=True, slots=True)
class LearningRateGroup:
    """Parameters with the same multiplier of the learning rate."""

    parameters: list[nn.Parameter]
    multiplier: float


def learning_rate_groups(model: nn.Module, network_lr_multiplier: float) -> list[LearningRateGroup]:
    """Divide a model's trained parameters into embeddings, at the full learning rate, and networks, at a multiple.

    At the full rate are also the gains of RMS normalisation, which alone set the scale of the logits; a linear layer
    outside a network, whose rows are the output embeddings of its classes; and the encoder of a compound model, which
    computes no rules. Groups without parameters are left out.
    """
    trained = [(name, parameter) for name, parameter in model.named_parameters() if parameter.requires_grad]
    if network_lr_multiplier == 1:
        return [LearningRateGroup([parameter for _, parameter in trained], 1.0)]
    tables = {name for name, module in model.named_children() if isinstance(module, nn.Linear)}

    def is_at_full_rate(name: str) -> bool:
        part = name.partition(".")[0]
        return part == name or part in tables or part == "encoder" or name.endswith(".gains")

    embeddings = [parameter for name, parameter in trained if is_at_full_rate(name)]
    networks = [parameter for name, parameter in trained if not is_at_full_rate(name)]
    return [
        group
        for group in (LearningRateGroup(embeddings, 1.0), LearningRateGroup(networks, network_lr_multiplier))
        if group.parameters
    ]


class Update:
    """Base of updates of the weights, by torch's fused AdamW, from the gradients in their buffers.

    `rates` are tensors for the learning rate of each group, where it must not be read by the host.
    """

    def __init__(
        self,
        settings: TrainingConfig,
        groups: Sequence[LearningRateGroup],
        gradients: Gradients,
        counters: StepCounters,
        ema: WeightEMA | None = None,
        rates: Sequence[Tensor] | None = None,
    ) -> None:
        self._gradients, self._counters, self._ema, self._clip = gradients, counters, ema, settings.clip
        self._multipliers = [group.multiplier for group in groups]
        initial: Sequence[float | Tensor] = rates or [settings.learning_rate] * len(groups)
        self.optimizer = torch.optim.AdamW(
            [{"params": group.parameters, "lr": rate} for group, rate in zip(groups, initial, strict=True)],
            betas=settings.betas,
            weight_decay=settings.weight_decay,
            fused=True,
            capturable=rates is not None,
        )

    def __call__(self, rate: float, ema_weight: float = 0.0) -> None:
        """Update the weights with this learning rate and count the step; skip the update if it is not finite.

        `ema_weight` is the share of the present weights, updated or not, in their moving average.
        """
        self._run([rate * multiplier for multiplier in self._multipliers])
        if self._ema is not None:
            self._ema.update(ema_weight)

    def reset(self) -> None:
        """Adapt to an optimiser state that was loaded from a checkpoint."""

    def _run(self, rates: Sequence[float]) -> None:
        raise NotImplementedError


class HostUpdate(Update):
    """Update on a CPU, where the host reads whether to skip the step: Adam would change weights even on zeros."""

    def _run(self, rates: Sequence[float]) -> None:
        parameters = [parameter for group in self.optimizer.param_groups for parameter in group["params"]]
        clip = self._clip or math.inf
        if self._gradients.own is None:
            norm = torch.nn.utils.clip_grad_norm_(parameters, clip)
        else:
            norm = self._gradients.norm()
            torch.nn.utils.clip_grads_with_norm_(parameters, clip, norm)
        if not self._counters.add(norm).item():
            for group, rate in zip(self.optimizer.param_groups, rates, strict=True):
                group["lr"] = rate
            self.optimizer.step()


class DeviceUpdate(Update):
    """Update on a GPU that never waits for the host; with a capturer it is captured as a CUDA graph at its second run.

    Torch's fused Adam divides the gradient by `grad_scale`, which is used for clipping here, and skips the step if
    `found_inf` is 1. Both are tensors on the GPU, as is the learning rate.
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
        assert gradients.flat is not None
        self._rates = [torch.zeros((), device=gradients.flat.device) for _ in groups]
        super().__init__(settings, groups, gradients, counters, ema, self._rates)
        self._skipped, self._scale = torch.zeros_like(self._rates[0]), torch.ones_like(self._rates[0])
        self.optimizer.found_inf = self._skipped  # type: ignore[attr-defined]
        self.optimizer.grad_scale = self._scale  # type: ignore[attr-defined]
        # The first step is meant to run uncaptured; torch would warn about it.
        self.optimizer._warned_capturable_if_run_uncaptured = True
        self._capturer = capturer
        self._runs = 0
        self._launch: Launch = self._update

    def reset(self) -> None:
        """See `Update.reset`; a captured graph knows only the addresses of the old moments and rates."""
        for group, rate in zip(self.optimizer.param_groups, self._rates, strict=True):
            group["lr"] = rate
        self._runs, self._launch = 0, self._update

    def _run(self, rates: Sequence[float]) -> None:
        for tensor, rate in zip(self._rates, rates, strict=True):
            tensor.fill_(rate)
        self._runs += 1
        if self._runs == 2 and self._capturer is not None:
            # BatchGradientRunner tells the user why nothing is captured.
            with suppress(RuntimeError, ResourceError):
                self._launch = self._capturer.capture(self._update)
        self._launch()

    def _update(self) -> None:
        norm = self._gradients.norm()
        self._skipped.copy_(self._counters.add(norm))
        if self._clip:
            self._scale.copy_(((norm + CLIP_EPSILON) / self._clip).clamp(min=1.0))
        self.optimizer.step()
