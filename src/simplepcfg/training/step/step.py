"""One step of training: the gradients of a batch, their sum over processes, and the optimiser update."""

from collections.abc import Callable, Iterable

import torch

from simplepcfg.data.batching import Batch
from simplepcfg.models import Model
from simplepcfg.ops.capture import Capturer, GraphCapturer, Launch
from simplepcfg.runs.config.schema import TrainingConfig
from simplepcfg.training.step.batch_gradients import BatchGradient, BatchGradientRunner
from simplepcfg.training.step.counters import StepCounters
from simplepcfg.training.step.distributed import Group
from simplepcfg.training.step.ema import WeightEMA
from simplepcfg.training.step.gradients import Gradients
from simplepcfg.training.step.span_prior import SpanPrior, branching_prior
from simplepcfg.training.step.teacher_loss import TeacherSignal
from simplepcfg.training.step.timing import StepTimer
from simplepcfg.training.step.update import DeviceUpdate, HostUpdate, Update, learning_rate_groups


class Step:
    """A training step: gradients and update, and the buffers between them.

    On a GPU neither waits for the host, and each is captured as a CUDA graph. `BatchGradientRunner` says when a
    replayed batch has to be run without its graph. On a CPU the same code runs uncaptured.

    `end` is the number of tokens that a sentence counts beyond its words; `captured_shapes` the largest number of
    captured batch shapes; `note` is called with a remark where capturing fails.
    """

    def __init__(
        self,
        model: Model,
        settings: TrainingConfig,
        end: int,
        group: Group,
        *,
        ema: WeightEMA | None = None,
        captured_shapes: int = 0,
        capturer: Capturer | None = None,
        timer: StepTimer | None = None,
        note: Callable[[str], None] = lambda text: None,
    ) -> None:
        parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
        self.device, self._dtype = parameters[0].device, parameters[0].dtype
        on_gpu = self.device.type == "cuda"
        if capturer is None and on_gpu and captured_shapes:
            capturer = GraphCapturer(self.device)
        self._group, self._timer = group, timer
        self.counters = StepCounters(self.device, end)
        self.gradients = Gradients(parameters, flat=on_gpu or capturer is not None or group.size > 1)
        self._gradient = BatchGradient(model, self.gradients, self.counters)
        self.gradient_runner = BatchGradientRunner(self._gradient, self.device, capturer, captured_shapes, note)
        groups = learning_rate_groups(model, settings.network_lr_multiplier)
        self._ema = ema
        self.update: Update
        if on_gpu or capturer is not None:
            self.update = DeviceUpdate(settings, groups, self.gradients, self.counters, capturer, ema)
        else:
            self.update = HostUpdate(settings, groups, self.counters, ema)

    @property
    def optimizer(self) -> torch.optim.Optimizer:
        """The optimiser, which holds Adam's moments."""
        return self.update.optimizer

    def __call__(
        self,
        batch: Batch,
        total: int,
        rate: float,
        *,
        number: int = 0,
        branching_bias: float = 0.0,
        teacher: TeacherSignal | None = None,
        stop: bool = False,
    ) -> None:
        """Update the weights from this process's shard of `total` sentences and count the step in `counters`.

        `rate` is the learning rate. `number` counts steps from 0, for the EMA of the weights; `branching_bias` is the
        log-weight of spans at one end of the sentence, `teacher` what teachers say about the batch. With `stop` this
        process asks all processes to end; each of them reads the request from its counters after the same step.
        """
        prior = branching_prior(branching_bias, batch.words.shape[1], batch.lengths) if branching_bias else None
        if teacher is not None and teacher.form == "prior":
            prior = teacher.prior() if prior is None else teacher.prior() + prior
            teacher = None
        self._gradient.targets = teacher
        if self._timer is not None:
            self._timer.start(self.device)
        replayed = self._compute_gradients(batch, total, prior)
        if self._group.size > 1:
            self.counters.set_flags(stop=stop, failed=self._group.held_error is not None)
        self._group.all_reduce(self.gradients.flat, self.counters.batch)
        self.update(rate, 0.0 if self._ema is None else self._ema.weight_at(number))
        if self._timer is not None:
            self._timer.stop(len(batch), batch.words.shape[1], int(batch.lengths.sum()), replayed)

    def computations(self, batches: Iterable[Batch]) -> list[Launch]:
        """Return the gradients of these batches, for `compile_kernels` before the first step."""
        return [self.gradient_runner.computation(batch.words, batch.lengths) for batch in batches]

    def _compute_gradients(self, batch: Batch, total: int, prior: SpanPrior | None) -> bool:
        """Compute the gradients of this process's shard; return whether they were replayed.

        A process that holds an error contributes zeros, since the others wait for its sums.
        """
        try:
            if len(batch) and self._group.held_error is None:
                if prior is not None:
                    prior = prior.to(torch.device("cpu"), self._dtype)
                uncaptured = self._gradient.targets is not None
                return self.gradient_runner(batch.words, batch.lengths, total, prior, uncaptured=uncaptured)
        except Exception as error:
            self._group.hold_error(error)
        self.gradients.clear()
        self.counters.batch.zero_()
        return False
