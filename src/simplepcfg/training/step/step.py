"""One step of training: a batch's gradients, what other processes found, and the update."""

from collections.abc import Callable

import torch
from torch import nn

from simplepcfg.data.batching import Batch
from simplepcfg.training.config.schema import TrainingConfig
from simplepcfg.training.step.capture import Capturer, GraphCapturer
from simplepcfg.training.step.distributed import Group
from simplepcfg.training.step.ema import WeightAverage
from simplepcfg.training.step.fused_update import FusedUpdate, can_fuse
from simplepcfg.training.step.gradients import Gradients
from simplepcfg.training.step.programs import BatchGradient, BatchPrograms
from simplepcfg.training.step.tally import StepTally
from simplepcfg.training.step.timing import StepTimer
from simplepcfg.training.step.update import DeviceUpdate, HostUpdate, Update, rate_groups


class Step:
    """The two programs of a step and the buffers between them.

    On a GPU neither waits for the host, and each is captured as a CUDA graph (see `BatchPrograms` for batches of
    dense models that have to be run again); on a CPU the same code runs as it is.
    """

    def __init__(
        self,
        model: nn.Module,
        settings: TrainingConfig,
        end: int,
        group: Group,
        *,
        average: WeightAverage | None = None,
        captured_shapes: int = 0,
        capturer: Capturer | None = None,
        timer: StepTimer | None = None,
        note: Callable[[str], None] = lambda text: None,
    ) -> None:
        parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
        self.device = parameters[0].device
        on_gpu = self.device.type == "cuda"
        if capturer is None and on_gpu and captured_shapes:
            capturer = GraphCapturer(self.device)
        self._group, self._timer = group, timer
        self.tally = StepTally(self.device, end)
        self.gradients = Gradients(parameters, flat=on_gpu or capturer is not None or group.size > 1)
        self._gradient = BatchGradient(model, self.gradients, self.tally)
        self.programs = BatchPrograms(self._gradient, self.device, capturer, captured_shapes, note)
        groups = rate_groups(model, settings.network_lr_multiplier)
        self._average = average
        self.update: Update
        if on_gpu or capturer is not None:
            kind = FusedUpdate if can_fuse(parameters) else DeviceUpdate
            self.update = kind(settings, groups, self.gradients, self.tally, capturer, average)
        else:
            self.update = HostUpdate(settings, groups, self.tally, average)

    @property
    def optimizer(self) -> torch.optim.Optimizer:
        """Holds the moments."""
        return self.update.optimizer

    def __call__(
        self, batch: Batch, total: int, rate: float, *, number: int = 0, branching_bias: float = 0.0, stop: bool = False
    ) -> None:
        """Learn from this process's part of `total` sentences; counted in the tally, which the caller reads.

        `number` counts steps from 0, for the average of the weights; `branching_bias` is the log-weight of spans at one
        end of the sentence. With `stop` this process asks all to end; they find it in the tally, together.
        """
        self._gradient.branching_bias = branching_bias
        if self._timer is not None:
            self._timer.start(self.device)
        replayed = self._find_gradients(batch, total)
        if self._group.size > 1:
            self.tally.batch[4].fill_(float(stop))
            self.tally.batch[5].fill_(float(self._group.held is not None))
        self._group.add_up(self.gradients.flat, self.tally.batch)
        self.update(rate, 0.0 if self._average is None else self._average.share(number))
        if self._timer is not None:
            self._timer.stop(len(batch), batch.words.shape[1], int(batch.lengths.sum()), replayed)

    def _find_gradients(self, batch: Batch, total: int) -> bool:
        """This process's part; whether it was replayed. One that has failed takes part with nothing."""
        try:
            if len(batch) and self._group.held is None:
                return self.programs(batch.words, batch.lengths, total, once=self._gradient.branching_bias != 0)
        except Exception as error:
            self._group.hold(error)
        self.gradients.clear()
        self.tally.batch.zero_()
        return False
