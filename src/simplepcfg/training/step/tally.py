"""What the steps add up to, kept where they are computed: counting never makes a GPU wait for the host."""

from typing import Any

import torch
from torch import Tensor

from simplepcfg.data.batching import to_device
from simplepcfg.ops.backends import has_triton
from simplepcfg.ops.update import count_batch
from simplepcfg.training.storage.checkpoint import Tally, TrainingState

# Of one batch; summed over the processes where there are several. `stop` and `failed` are how these agree to end.
BATCH = ("loss", "tokens", "sentences", "impossible", "stop", "failed")
# Of many steps: the fields of a Tally twice, since the last line of metrics and in this epoch, and then counters.
FIELDS = tuple(Tally.model_fields)
COUNTERS = ("skipped_steps", "skipped_in_a_row", "longest_in_a_row", "impossible_sentences", "last_norm", *BATCH[4:])
# Nats a token by which a batch may be more than certain: rounding to bfloat16 stays far below, wrong numbers do not.
LARGEST_EXCESS = 0.05


class StepTally:
    """Sums in float64 on the device of the model. The host's TrainingState follows them when it reads.

    Nothing is added up on the host, so the sums do not depend on when they were read.
    """

    def __init__(self, device: torch.device, end: int) -> None:
        self.device = device
        self._end = end  # tokens that a sentence counts beyond its words
        self.batch = torch.zeros(len(BATCH), dtype=torch.float64, device=device)
        self.values = torch.zeros(2 * len(FIELDS) + len(COUNTERS), dtype=torch.float64, device=device)
        self._lines = self.values[: 2 * len(FIELDS)].view(2, len(FIELDS))
        self._counters = dict(zip(COUNTERS, self.values[2 * len(FIELDS) :].unbind(), strict=True))
        self._ends = self.values[-2:]
        self._one = torch.ones(1, dtype=torch.float64, device=device)
        on_gpu = device.type == "cuda"
        self._host = torch.zeros(len(self.values), dtype=torch.float64, pin_memory=on_gpu)
        self._copied: Any = torch.cuda.Event() if on_gpu else None
        self._waiting = False

    def count(self, losses: Tensor, lengths: Tensor | None, n: int, total: int) -> Tensor:
        """Set `batch` from the losses [B] of sentences of these lengths, or all of n words.

        Gives each loss's weight [B] in the mean over `total` sentences: 0 of one that is impossible. It has no
        gradient; the others of its batch still teach.
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
        """Count a step by its `batch` and its gradient's norm; 1 if it is to be skipped, else 0.

        A step is skipped if its loss or gradient is not finite, if its sentences are more probable than 1, which only
        wrong numbers make them, if no sentence was possible, or if a process failed.
        """
        norm = norm.double()
        loss, tokens, sentences, impossible, _, failed = self.batch.unbind()
        good = torch.isfinite(loss + norm) & (loss >= -LARGEST_EXCESS * tokens) & (sentences > 0) & (failed == 0)
        self._lines += torch.where(good, torch.cat([self.batch[:3], norm.reshape(1), self._one]), 0.0)
        skipped = (~good).double()
        count = self._counters
        count["skipped_steps"] += skipped
        count["skipped_in_a_row"].add_(1).mul_(skipped)
        torch.maximum(count["longest_in_a_row"], count["skipped_in_a_row"], out=count["longest_in_a_row"])
        count["impossible_sentences"] += impossible
        count["last_norm"].copy_(norm)
        self._ends += self.batch[4:]
        return skipped

    def load(self, state: TrainingState) -> None:
        """Go on from a checkpoint."""
        row = state.skipped_in_a_row
        counters = [state.skipped_steps, row, row, state.impossible_sentences, 0, 0, 0]
        lines = [getattr(tally, name) for tally in (state.since_log, state.this_epoch) for name in FIELDS]
        self.values.copy_(torch.tensor([*lines, *counters], dtype=torch.float64))
        self.forget()

    def begin_line(self) -> None:
        """Forget the sums since the last line of metrics."""
        self._lines[0].zero_()
        self.forget()

    def begin_epoch(self) -> None:
        """Forget the sums of the epoch."""
        self._lines[1].zero_()
        self.forget()

    def read(self) -> list[float]:
        """The values now; on a GPU this waits for all steps so far."""
        found: list[float] = self.values.tolist()
        return found

    def glance(self) -> list[float] | None:
        """The values as they were at the glance before, if any; those of now are on their way to the next one."""
        found: list[float] | None = None
        if self._waiting:
            if self._copied is not None:
                self._copied.synchronize()
            found = self._host.tolist()
        self._host.copy_(self.values, non_blocking=True)
        if self._copied is not None:
            self._copied.record()
        self._waiting = True
        return found

    def forget(self) -> None:
        """Let the next glance see nothing: what is on its way has been read already or is no longer true."""
        self._waiting = False


def mirror(values: list[float], state: TrainingState) -> dict[str, float]:
    """Put what was read into the state; the counters by name."""
    for tally, line in ((state.since_log, values), (state.this_epoch, values[len(FIELDS) :])):
        tally.loss, tally.gradient_norm = line[0], line[3]
        tally.tokens, tally.sentences, tally.steps = int(line[1]), int(line[2]), int(line[4])
    counters = dict(zip(COUNTERS, values[2 * len(FIELDS) :], strict=True))
    state.skipped_steps = int(counters["skipped_steps"])
    state.skipped_in_a_row = int(counters["skipped_in_a_row"])
    state.impossible_sentences = int(counters["impossible_sentences"])
    return counters
