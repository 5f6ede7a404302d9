"""The first half of a step: a batch's gradients, launched one by one or, for shapes that come again, captured."""

from collections import Counter, OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from simplepcfg.data.batching import pinned, to_device
from simplepcfg.errors import ResourceError
from simplepcfg.ops.deferred_checks import DeferredChecks, deferring_checks
from simplepcfg.ops.inside.plan import make_plan
from simplepcfg.training.machine.failures import is_out_of_memory
from simplepcfg.training.step.branching_bias import branching_bonus
from simplepcfg.training.step.capture import Capturer, Program
from simplepcfg.training.step.gradients import Gradients
from simplepcfg.training.step.tally import StepTally

# A shape is captured when it comes for the second time: the first compiles kernels and makes tables.
CAPTURE_AT = 2


class BatchGradient:
    """Gradients of the mean negative log-likelihood a sentence, and the batch's sums, into buffers that stay."""

    def __init__(self, model: nn.Module, gradients: Gradients, tally: StepTally) -> None:
        self._model, self._gradients, self._tally = model, gradients, tally
        self.branching_bias = 0.0  # see `branching`; no program that was captured has one

    def __call__(self, words: Tensor, lengths: Tensor | None, total: int) -> None:
        """Of words [B, n] with lengths [B] on the CPU, or None for n; `total` sentences share the mean."""
        losses = self._losses(words, lengths)  # [B]
        weights = self._tally.count(losses.detach(), lengths, words.shape[1], total)
        self._gradients.store(torch.autograd.grad(losses, self._gradients.parameters, weights, allow_unused=True))

    def _losses(self, words: Tensor, lengths: Tensor | None) -> Tensor:
        """Of each sentence; with a branching bias, an upper bound."""
        if not self.branching_bias:
            return self._model.loss(words, lengths)  # type: ignore[operator]
        batch, n = words.shape
        bonus, most = branching_bonus(self.branching_bias, batch, n, lengths, words.device)
        return self._model.loss(words, lengths, span_bonus=bonus) + most  # type: ignore[operator]


@dataclass(frozen=True, slots=True)
class CapturedBatch:
    """A program for one shape, the tensor it reads its words from, tables whose addresses it knows, and its checks."""

    words: Tensor
    program: Program
    tables: object
    checks: DeferredChecks


class BatchPrograms:
    """Runs a batch's gradient; equal lengths of a shape that has come before are replayed from a bounded cache."""

    def __init__(
        self,
        gradient: Callable[[Tensor, Tensor | None, int], None],
        device: torch.device,
        capturer: Capturer | None = None,
        limit: int = 0,
        note: Callable[[str], None] = lambda text: None,
    ) -> None:
        self._gradient, self._device, self._capturer = gradient, device, capturer
        self._limit = limit if capturer is not None else 0
        self._note = note
        self._seen: Counter[tuple[int, int, int]] = Counter()
        self._captured: OrderedDict[tuple[int, int, int], CapturedBatch] = OrderedDict()

    @property
    def shapes(self) -> list[tuple[int, int, int]]:
        """Batch size, length and divisor of the captured shapes, the one used last at the end."""
        return list(self._captured)

    def __call__(self, words: Tensor, lengths: Tensor, total: int, *, once: bool = False) -> bool:
        """Run on words [B, n] and lengths [B], both on the CPU; whether it was replayed.

        `once` says that this step does something that no captured one does.
        """
        batch, n = words.shape
        equal = bool((lengths == n).all())
        if once or not self._limit or not equal:
            self._gradient(to_device(words, self._device), None if equal else lengths, total)
            return False
        key = (batch, n, total)
        captured = self._captured.get(key)
        if captured is None:
            self._seen[key] += 1
            captured = self._capture(key, words) if self._seen[key] >= CAPTURE_AT else None
        if captured is None:
            self._gradient(to_device(words, self._device), None, total)
            return False
        self._captured.move_to_end(key)
        captured.words.copy_(pinned(words, self._device), non_blocking=True)
        random = self._random_state() if captured.checks.has_conditions else None
        captured.program()
        if not captured.checks.any_true():
            return True
        if random is not None:
            self._set_random_state(random)  # the same z
        self._gradient(to_device(words, self._device), None, total)  # overwrites what the program found
        return False

    def _random_state(self) -> Tensor:
        return torch.cuda.get_rng_state(self._device) if self._device.type == "cuda" else torch.get_rng_state()

    def _set_random_state(self, state: Tensor) -> None:
        if self._device.type == "cuda":
            torch.cuda.set_rng_state(state, self._device)
        else:
            torch.set_rng_state(state)

    def _capture(self, key: tuple[int, int, int], words: Tensor) -> CapturedBatch | None:
        """Record a shape; where memory or an operation does not allow it, say so once and capture no more."""
        assert self._capturer is not None
        batch, n, total = key
        while len(self._captured) >= self._limit:
            self._forget_one()
        static = words.to(self._device)
        # The cache of tables in ops is bounded, too: what a graph reads must outlive it.
        tables = make_plan(n, (n,) * batch, static.device)
        checks = DeferredChecks(static.device)

        def recorded() -> None:
            checks.clear()
            with deferring_checks(checks):
                self._gradient(static, None, total)

        try:
            program = self._capturer.capture(recorded)
        except (RuntimeError, ResourceError) as error:
            self.release()
            self._limit = 0
            short = isinstance(error, ResourceError) or is_out_of_memory(error)
            reason = "too little memory" if short else str(error).strip().partition("\n")[0]
            self._note(f"steps are not captured but launched one by one: {reason}")
            return None
        self._captured[key] = CapturedBatch(static, program, tables, checks)
        return self._captured[key]

    def _forget_one(self) -> None:
        """The one whose last use is longest ago; it must have come twice again to be captured again."""
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)  # it may still be running
        key, _ = self._captured.popitem(last=False)
        del self._seen[key]

    def release(self) -> None:
        """Drop every program, and with them the memory that they share."""
        while self._captured:
            self._forget_one()
