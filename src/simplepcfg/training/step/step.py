"""One step of training: the gradients of a batch, their sum over processes, and the optimiser update."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from simplepcfg.data.batching import Batch, pinned, to_device
from simplepcfg.errors import ResourceError
from simplepcfg.models import Model
from simplepcfg.models.sharding import row_groups
from simplepcfg.ops.cuda_graphs.cache import GraphCache
from simplepcfg.ops.cuda_graphs.capture import Capturer, GraphCapturer, Launch
from simplepcfg.ops.inside import without_graphs
from simplepcfg.ops.inside.layout import make_layout
from simplepcfg.runs.config.schema import TrainingConfig
from simplepcfg.training.step.counters import StepCounters
from simplepcfg.training.step.distributed import Group
from simplepcfg.training.step.ema import WeightEMA
from simplepcfg.training.step.span_prior import SpanPrior
from simplepcfg.training.step.teacher_loss import TeacherSignal, span_divergence
from simplepcfg.training.step.update import DeviceUpdate, Gradients, HostUpdate, Update, learning_rate_groups

Shape = tuple[int, int, int, bool]  # batch size, length, divisor, and whether there is a prior


class BatchGradient:
    """Computes gradients of the mean loss per sentence into fixed buffers, and counts the batch."""

    def __init__(self, model: Model, gradients: Gradients, counters: StepCounters) -> None:
        self._model, self._gradients, self._counters = model, gradients, counters
        self.targets: TeacherSignal | None = None  # teachers' soft targets; steps with them are never captured

    def __call__(self, words: Tensor, lengths: Tensor | None, total: int, prior: SpanPrior | None = None) -> None:
        """Compute the gradients of words [B, n] with lengths [B] on the CPU, or None where all have n words.

        The loss is the negative log-likelihood, or with a prior or soft targets an upper bound of it. The mean is over
        `total` sentences, those of the other processes included.
        """
        with without_graphs():  # whole steps are captured, and their memory is estimated without other graphs
            losses = sentence_losses(self._model, words, lengths, prior, self.targets)  # [B]
        weights = self._counters.count(losses.detach(), lengths, words.shape[1], total)
        self._gradients.store(torch.autograd.grad(losses, self._gradients.parameters, weights, allow_unused=True))


@dataclass(frozen=True, slots=True)
class CapturedGradient:
    """A captured gradient of one shape. Its memory is that of the pool that all captured steps share.

    The graph knows only the addresses of its inputs, so they must live as long as it does.
    """

    replay: Launch
    words: Tensor  # [B, n], overwritten before each replay, as the prior is
    prior: SpanPrior | None
    tables: object
    bytes: int = 0
    is_free: bool = True


class BatchGradientRunner:
    """Runs the gradient of each batch; shapes that have occurred before are replayed from a bounded cache.

    Only batches of equal lengths are captured. `limit` is the largest number of captured shapes, and `note` is called
    with a remark where capturing fails.
    """

    def __init__(
        self,
        gradient: Callable[[Tensor, Tensor | None, int, SpanPrior | None], None],
        device: torch.device,
        capturer: Capturer | None = None,
        limit: int = 0,
        note: Callable[[str], None] = lambda text: None,
    ) -> None:
        self._gradient, self._device, self._capturer = gradient, device, capturer
        self._cache: GraphCache[CapturedGradient] = GraphCache(device, limit if capturer is not None else 0)
        self._note = note

    @property
    def shapes(self) -> list[tuple[object, ...]]:
        """Batch size, length and divisor of the captured shapes, the most recently used last."""
        return [key[:3] for key in self._cache.keys]

    def __call__(
        self,
        words: Tensor,
        lengths: Tensor,
        total: int,
        prior: SpanPrior | None = None,
        *,
        uncaptured: bool = False,
    ) -> bool:
        """Compute the gradients of words [B, n] and lengths [B] with their prior, all on the CPU.

        Returns whether they were replayed. `uncaptured` marks a step with work that cannot be captured.
        """
        batch, n = words.shape
        equal = bool((lengths == n).all())
        if uncaptured or not self._cache.is_open or not equal:
            self._launch(words, None if equal else lengths, total, prior)
            return False
        key = (batch, n, total, prior is not None)
        captured = self._cache.ready(key)
        if captured is None and self._cache.is_time(key):
            captured = self._capture(key, words, prior)
        if captured is None:
            self._launch(words, None, total, prior)
            return False
        captured.words.copy_(pinned(words, self._device), non_blocking=True)
        if prior is not None and captured.prior is not None:
            captured.prior.copy_(prior)
        captured.replay()
        return True

    def _launch(self, words: Tensor, lengths: Tensor | None, total: int, prior: SpanPrior | None) -> None:
        moved = None if prior is None else prior.to(self._device)
        self._gradient(to_device(words, self._device), lengths, total, moved)

    def _capture(self, key: Shape, words: Tensor, prior: SpanPrior | None) -> CapturedGradient | None:
        """Capture a shape; where memory or an operation does not allow it, say so once and stop capturing."""
        assert self._capturer is not None
        self._cache.make_room(key)
        batch, n, total, _ = key
        static = words.to(self._device)
        # The cache of tables in ops is bounded, too, but what a graph reads must live as long as the graph.
        tables = make_layout(n, (n,) * batch, static.device)
        moved = None if prior is None else prior.to(self._device)
        try:
            replay = self._capturer.capture(lambda: self._gradient(static, None, total, moved))
        except (RuntimeError, ResourceError) as error:
            self._note(f"steps are not captured but launched one by one: {self._cache.give_up(error)}")
            return None
        captured = CapturedGradient(replay, static, moved, tables)
        self._cache.add(key, captured)
        return captured


def sentence_losses(
    model: Model, words: Tensor, lengths: Tensor | None, prior: SpanPrior | None, targets: TeacherSignal | None
) -> Tensor:
    """Return the loss of each sentence [B]: its negative log-likelihood, or with a prior or soft targets a bound."""
    if targets is not None:
        kind = next(model.parameters()).dtype
        marginals = targets.marginals.to(words.device, kind)
        # The model's marginals are the gradient with respect to the bonus, which is 0 where there is no prior.
        bonus = torch.zeros_like(marginals) if prior is None else prior.bonus.to(kind).detach()
        bonus.requires_grad_()
        losses = model.loss(words, lengths, span_bonus=bonus)
        (gradient,) = torch.autograd.grad(losses.sum(), bonus, create_graph=True)
        losses = losses + targets.weight * span_divergence(-gradient, marginals)
    elif prior is not None:
        losses = model.loss(words, lengths, span_bonus=prior.bonus)
    else:
        losses = model.loss(words, lengths)
    return losses if prior is None else losses + prior.most


class Step:
    """A training step: gradients and update, and the buffers between them.

    On a GPU neither makes the host wait, and each is captured as a CUDA graph. On a CPU the same code runs uncaptured.

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
        note: Callable[[str], None] = lambda text: None,
    ) -> None:
        sharded: set[str] = set()
        if group.shards is not None:
            capturer, captured_shapes = None, 0  # collectives of shards are not captured
            sharded = set(row_groups(model))
        trained = [(name, parameter) for name, parameter in model.named_parameters() if parameter.requires_grad]
        own = [parameter for name, parameter in trained if name in sharded]
        parameters = [parameter for name, parameter in trained if name not in sharded] + own
        self.device, self._dtype = parameters[0].device, parameters[0].dtype
        on_gpu = self.device.type == "cuda"
        if capturer is None and on_gpu and captured_shapes:
            capturer = GraphCapturer(self.device)
        self._group = group
        self.counters = StepCounters(self.device, end)
        self.gradients = Gradients(parameters, on_gpu or capturer is not None or group.size > 1, len(own), group.shards)
        self._gradient = BatchGradient(model, self.gradients, self.counters)
        self.gradient_runner = BatchGradientRunner(self._gradient, self.device, capturer, captured_shapes, note)
        groups = learning_rate_groups(model, settings.network_lr_multiplier)
        self._ema = ema
        self.update: Update
        if on_gpu or capturer is not None:
            self.update = DeviceUpdate(settings, groups, self.gradients, self.counters, capturer, ema)
        else:
            self.update = HostUpdate(settings, groups, self.gradients, self.counters, ema)

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
        prior: SpanPrior | None = None,
        teacher: TeacherSignal | None = None,
        stop: bool = False,
    ) -> None:
        """Update the weights from this process's shard of `total` sentences and count the step in `counters`.

        `rate` is the learning rate. `number` counts steps from 0, for the EMA of the weights; `prior` has log-weights
        of spans, and `teacher` what teachers say about the batch. With `stop` this process asks all processes to end;
        each of them reads the request from its counters after the same step.
        """
        if teacher is not None and teacher.form == "prior":
            prior = teacher.prior() if prior is None else teacher.prior() + prior
            teacher = None
        self._gradient.targets = teacher
        self._compute_gradients(batch, total, prior)
        if self._group.size > 1:
            self.counters.set_flags(stop=stop, failed=self._group.held_error is not None)
        if not self._group.is_first_shard:
            self.counters.clear_sums()  # of the same sentences as those of the first
        self._group.all_reduce(self.gradients.shared, self.counters.batch)
        if self.gradients.own is not None:
            self._group.all_reduce_over_data(self.gradients.own)
        self.update(rate, 0.0 if self._ema is None else self._ema.weight_at(number))

    def _compute_gradients(self, batch: Batch, total: int, prior: SpanPrior | None) -> bool:
        """Compute the gradients of this process's shard; return whether they were replayed.

        A process that holds an error contributes zeros, since the others wait for its sums.
        """
        with self._group.holding_errors():
            if len(batch) and self._group.held_error is None:
                if prior is not None:
                    prior = prior.to(torch.device("cpu"), self._dtype)
                uncaptured = self._gradient.targets is not None
                return self.gradient_runner(batch.words, batch.lengths, total, prior, uncaptured=uncaptured)
        self.gradients.clear()
        self.counters.batch.zero_()
        return False
