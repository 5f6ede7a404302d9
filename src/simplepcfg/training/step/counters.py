"""Counters of training steps, kept on the device of the model so that counting never makes a GPU wait for the host."""

import torch
from torch import Tensor

from simplepcfg.data.batching import to_device
from simplepcfg.runs.checkpoint import StepSums, TrainingState

# Numbers of one batch, summed over all processes; `stop` and `failed` are how several processes agree to end.
BATCH = ("loss", "tokens", "sentences", "impossible", "stop", "failed")
# Numbers of many steps: the fields of StepSums twice, since the last line of metrics and in this epoch; then COUNTERS.
SUMS = tuple(StepSums.model_fields)
COUNTERS = (
    "skipped_steps",
    "skipped_in_a_row",
    "longest_in_a_row",
    "impossible_sentences",
    "last_norm",
    "stop",
    "failed",
)
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
        self.values = torch.zeros(2 * len(SUMS) + len(COUNTERS), dtype=torch.float64, device=device)
        # Views of these two by name; the sums have a row since the last line of metrics and one of this epoch.
        self._batch = dict(zip(BATCH, self.batch.unbind(), strict=True))
        self._sums = self.values[: 2 * len(SUMS)].view(2, len(SUMS))
        self._counters = dict(zip(COUNTERS, self.values[2 * len(SUMS) :].unbind(), strict=True))
        self._one = torch.ones((), dtype=torch.float64, device=device)
        on_gpu = device.type == "cuda"
        self._host = torch.zeros(len(self.values), dtype=torch.float64, pin_memory=on_gpu)
        self._copied = torch.cuda.Event() if on_gpu else None
        self._copy_pending = False  # whether `_host` has values that are still true

    def count(self, losses: Tensor, lengths: Tensor | None, n: int, total: int) -> Tensor:
        """Set `batch` from the losses [B] of sentences with lengths [B], or of n words each if `lengths` is None.

        Returns the weight [B] of each loss in the mean over `total` sentences. It is 0 for a sentence of probability
        0, which has no gradient, so that the rest of its batch is still learned from.
        """
        possible = losses != torch.inf
        sentences = possible.sum(dtype=torch.float64)
        if lengths is None:
            tokens = sentences * (n + self._end)
        else:
            words = to_device(lengths, self.device)
            tokens = torch.where(possible, words + self._end, 0).sum(dtype=torch.float64)
        self._batch["loss"].copy_(torch.where(possible, losses, 0.0).sum(dtype=torch.float64))
        self._batch["tokens"].copy_(tokens)
        self._batch["sentences"].copy_(sentences)
        self._batch["impossible"].copy_(len(losses) - sentences)
        return possible.to(losses.dtype).div_(total)

    def set_flags(self, *, stop: bool, failed: bool) -> None:
        """Say in `batch` whether this process asks all of them to end, and whether it has failed."""
        self._batch["stop"].fill_(float(stop))
        self._batch["failed"].fill_(float(failed))

    def clear_sums(self) -> None:
        """Set the sums of the batch to 0, but not its flags."""
        for name in BATCH[:-2]:
            self._batch[name].zero_()

    def add(self, norm: Tensor) -> Tensor:
        """Add the step in `batch` with its gradient norm; return 1 if the step must be skipped, else 0.

        A step is skipped if its loss or gradient is not finite, if its sentences have a probability above 1, which
        only a numerical error can cause, if all its sentences have probability 0, or if a process failed.
        """
        batch, count, norm = self._batch, self._counters, norm.double()
        loss, tokens, sentences = batch["loss"], batch["tokens"], batch["sentences"]
        possible = (loss >= -LARGEST_EXCESS * tokens) & (sentences > 0)
        good = torch.isfinite(loss + norm) & possible & (batch["failed"] == 0)
        self._sums += torch.where(good, torch.stack([loss, tokens, sentences, norm, self._one]), 0.0)
        skipped = (~good).double()
        count["skipped_steps"] += skipped
        count["skipped_in_a_row"].add_(1).mul_(skipped)
        torch.maximum(count["longest_in_a_row"], count["skipped_in_a_row"], out=count["longest_in_a_row"])
        count["impossible_sentences"] += batch["impossible"]
        count["last_norm"].copy_(norm)
        count["stop"] += batch["stop"]
        count["failed"] += batch["failed"]
        return skipped

    def load(self, state: TrainingState) -> None:
        """Restore the counters of a checkpoint."""
        counters = dict.fromkeys(COUNTERS, 0)
        counters["skipped_steps"] = state.skipped_steps
        counters["skipped_in_a_row"] = counters["longest_in_a_row"] = state.skipped_in_a_row
        counters["impossible_sentences"] = state.impossible_sentences
        sums = [getattr(part, name) for part in (state.since_log, state.this_epoch) for name in SUMS]
        self.values.copy_(torch.tensor([*sums, *counters.values()], dtype=torch.float64))
        self._copy_pending = False

    def reset_since_log(self) -> None:
        """Set the sums since the last line of metrics to 0."""
        self._sums[0].zero_()
        self._copy_pending = False

    def reset_epoch(self) -> None:
        """Set the sums of the epoch to 0."""
        self._sums[1].zero_()
        self._copy_pending = False

    def read(self) -> list[float]:
        """Return the present values; on a GPU this waits for all steps so far."""
        values: list[float] = self.values.tolist()
        return values

    def read_delayed(self) -> list[float] | None:
        """Return the values of the previous call, or None if there are none, and start to copy the present ones.

        On a GPU this does not wait for the steps that were launched since the previous call.
        """
        values: list[float] | None = None
        if self._copy_pending:
            if self._copied is not None:
                self._copied.synchronize()
            values = self._host.tolist()
        self._host.copy_(self.values, non_blocking=True)
        if self._copied is not None:
            self._copied.record()
        self._copy_pending = True
        return values


def copy_to_state(values: list[float], state: TrainingState) -> dict[str, float]:
    """Write values read from StepCounters into `state`; return the counters by name."""
    for sums, first in ((state.since_log, 0), (state.this_epoch, len(SUMS))):
        row = dict(zip(SUMS, values[first:], strict=False))
        sums.loss, sums.gradient_norm = row["loss"], row["gradient_norm"]
        sums.tokens, sums.sentences, sums.steps = (int(row[name]) for name in ("tokens", "sentences", "steps"))
    counters = dict(zip(COUNTERS, values[2 * len(SUMS) :], strict=True))
    state.skipped_steps = int(counters["skipped_steps"])
    state.skipped_in_a_row = int(counters["skipped_in_a_row"])
    state.impossible_sentences = int(counters["impossible_sentences"])
    return counters
