"""Counters of training steps, kept on the device of the model so that counting never makes a GPU wait for the host."""

from typing import Any

import torch
from torch import Tensor

from simplepcfg.data.batching import to_device
from simplepcfg.ops.backends import has_triton
from simplepcfg.ops.update import count_batch
from simplepcfg.runs.checkpoint import StepSums, TrainingState

# Of one batch, summed over all processes; `stop` and `failed` are how several processes agree to end.
BATCH = ("loss", "tokens", "sentences", "impossible", "stop", "failed")
# Of many steps: the fields of StepSums twice, since the last line of metrics and in this epoch, and then COUNTERS.
FIELDS = tuple(StepSums.model_fields)
COUNTERS = ("skipped_steps", "skipped_in_a_row", "longest_in_a_row", "impossible_sentences", "last_norm", *BATCH[4:])
# Nats a token by which a batch's log-likelihood may exceed 0: bfloat16 rounding stays far below, wrong numbers do not.
LARGEST_EXCESS = 0.05


class StepCounters:
    """Sums over training steps in float64 on the device of the model.

    The host's TrainingState is copied from them and never added to, so its values do not depend on when it was read.
    """

    def __init__(self, device: torch.device, end: int) -> None:
        self.device = device
        self._end = end  # tokens that a sentence counts beyond its words
        self.batch = torch.zeros(len(BATCH), dtype=torch.float64, device=device)
        self.values = torch.zeros(2 * len(FIELDS) + len(COUNTERS), dtype=torch.float64, device=device)
        self._sums = self.values[: 2 * len(FIELDS)].view(2, len(FIELDS))  # since the last line, in this epoch
        self._counters = dict(zip(COUNTERS, self.values[2 * len(FIELDS) :].unbind(), strict=True))
        self._stop_and_failed = self.values[-2:]
        self._one = torch.ones(1, dtype=torch.float64, device=device)
        on_gpu = device.type == "cuda"
        self._host = torch.zeros(len(self.values), dtype=torch.float64, pin_memory=on_gpu)
        self._copied: Any = torch.cuda.Event() if on_gpu else None
        self._copy_pending = False

    def count(self, losses: Tensor, lengths: Tensor | None, n: int, total: int) -> Tensor:
        """Set `batch` from the losses [B] of sentences with lengths [B], or of n words each if `lengths` is None.

        Returns the weight [B] of each loss in the mean over `total` sentences. It is 0 for a sentence of probability
        0, which has no gradient, so that the rest of its batch is still learned from.
        """
        if lengths is not None:
            lengths = to_device(lengths, self.device)
        if losses.is_cuda and has_triton():
            return count_batch(losses, lengths, n, self._end, total, self.batch)
        possible = ~torch.isposinf(losses)
        wide = losses.double()
        words = torch.full_like(wide, n) if lengths is None else lengths.double()
        rows = torch.stack([wide, words + self._end, torch.ones_like(wide)])  # [3, B]
        self.batch[:3] = torch.where(possible, rows, 0.0).sum(-1)
        self.batch[3] = len(losses) - self.batch[2]
        return possible.to(losses.dtype).div_(total)

    def add(self, norm: Tensor) -> Tensor:
        """Add the step in `batch` with its gradient norm; return 1 if the step must be skipped, else 0.

        A step is skipped if its loss or gradient is not finite, if its sentences have a probability above 1, which
        only a numerical error can cause, if all its sentences have probability 0, or if a process failed.
        """
        norm = norm.double()
        loss, tokens, sentences, impossible, _, failed = self.batch.unbind()
        good = torch.isfinite(loss + norm) & (loss >= -LARGEST_EXCESS * tokens) & (sentences > 0) & (failed == 0)
        self._sums += torch.where(good, torch.cat([self.batch[:3], norm.reshape(1), self._one]), 0.0)
        skipped = (~good).double()
        count = self._counters
        count["skipped_steps"] += skipped
        count["skipped_in_a_row"].add_(1).mul_(skipped)
        torch.maximum(count["longest_in_a_row"], count["skipped_in_a_row"], out=count["longest_in_a_row"])
        count["impossible_sentences"] += impossible
        count["last_norm"].copy_(norm)
        self._stop_and_failed += self.batch[4:]
        return skipped

    def load(self, state: TrainingState) -> None:
        """Restore the counters of a checkpoint."""
        row = state.skipped_in_a_row
        counters = [state.skipped_steps, row, row, state.impossible_sentences, 0, 0, 0]
        sums = [getattr(part, name) for part in (state.since_log, state.this_epoch) for name in FIELDS]
        self.values.copy_(torch.tensor([*sums, *counters], dtype=torch.float64))
        self._discard_copy()

    def reset_since_log(self) -> None:
        """Set the sums since the last line of metrics to 0."""
        self._sums[0].zero_()
        self._discard_copy()

    def reset_epoch(self) -> None:
        """Set the sums of the epoch to 0."""
        self._sums[1].zero_()
        self._discard_copy()

    def read(self) -> list[float]:
        """Return the present values; on a GPU this waits for all steps so far."""
        found: list[float] = self.values.tolist()
        return found

    def read_delayed(self) -> list[float] | None:
        """Return the values of the previous call, or None if there are none, and start to copy the present ones.

        On a GPU this does not wait for the steps that were launched since the previous call.
        """
        found: list[float] | None = None
        if self._copy_pending:
            if self._copied is not None:
                self._copied.synchronize()
            found = self._host.tolist()
        self._host.copy_(self.values, non_blocking=True)
        if self._copied is not None:
            self._copied.record()
        self._copy_pending = True
        return found

    def _discard_copy(self) -> None:
        """Let the next `read_delayed` return None, since the values that were copied are no longer true."""
        self._copy_pending = False


def copy_to_state(values: list[float], state: TrainingState) -> dict[str, float]:
    """Write values read from StepCounters into `state`; return the counters by name."""
    for sums, row in ((state.since_log, values), (state.this_epoch, values[len(FIELDS) :])):
        sums.loss, sums.gradient_norm = row[0], row[3]
        sums.tokens, sums.sentences, sums.steps = int(row[1]), int(row[2]), int(row[4])
    counters = dict(zip(COUNTERS, values[2 * len(FIELDS) :], strict=True))
    state.skipped_steps = int(counters["skipped_steps"])
    state.skipped_in_a_row = int(counters["skipped_in_a_row"])
    state.impossible_sentences = int(counters["impossible_sentences"])
    return counters
