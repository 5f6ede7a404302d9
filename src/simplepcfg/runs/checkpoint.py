"""Checkpoints: one file from which training resumes exactly where it stood."""

import math
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from simplepcfg.errors import InputError
from simplepcfg.files import Record
from simplepcfg.ops.shards import own_part
from simplepcfg.runs.checkpoint_shards import ShardPlace, read_shards, remove_old_shards
from simplepcfg.runs.config.schema import TrainingConfig
from simplepcfg.runs.tensor_files import read_tensor_file, write_tensor_file


class StepSums(BaseModel):
    """Sums over training steps, from which a line of metrics is computed."""

    model_config = ConfigDict(extra="forbid")

    loss: float = 0.0  # nats, summed over sentences
    tokens: int = 0
    sentences: int = 0
    gradient_norm: float = 0.0  # summed over steps
    steps: int = 0

    @property
    def perplexity(self) -> float:
        """Training perplexity of these steps, each under its weights; infinite where a double overflows."""
        mean = self.loss / self.tokens if self.tokens else math.nan
        return math.exp(mean) if mean < 700 else math.inf


class Best(BaseModel):
    """The epoch whose weights are kept, by validation likelihood."""

    model_config = ConfigDict(extra="forbid")

    epoch: int
    step: int
    log_likelihood: float
    tokens: int
    perplexity: float | None  # None stands for infinite
    impossible: int

    @property
    def rank(self) -> tuple[int, float]:
        """Sort key, larger is better, as in `PerplexityReport.rank`."""
        return (-self.impossible, self.log_likelihood)


class TrainingState(BaseModel):
    """Position and counters of training: `batch` batches of epoch `epoch` (from 0) are done.

    The field names are stored in checkpoints.
    """

    model_config = ConfigDict(extra="forbid")

    epoch: int = 0
    batch: int = 0
    step: int = 0
    best: Best | None = None
    epochs_without_gain: int = 0
    rate_reductions: int = 0  # how often training.schedule = "plateau" has lowered the learning rate
    skipped_steps: int = 0
    skipped_in_a_row: int = 0
    impossible_sentences: int = 0
    since_log: StepSums = Field(default_factory=StepSums)
    this_epoch: StepSums = Field(default_factory=StepSums)
    metrics_bytes: int = 0
    metrics_crc32: int = 0  # of these bytes
    seconds: float = 0.0
    saves: int = 0  # checkpoints of shards so far, which number their files

    def ended_by(self, settings: TrainingConfig) -> str | None:
        """Return why a run has ended, "patience", "epochs" or "max_minutes", or None if it has not."""
        if settings.patience and self.epochs_without_gain >= settings.patience:
            return "patience"
        if self.epoch >= settings.epochs:
            return "epochs"
        # Whole seconds, on which several processes agree.
        return "max_minutes" if self.epoch and 0 < settings.max_minutes <= int(self.seconds) / 60 else None


# The groups of tensors in the file: each is an attribute of Checkpoint and the prefix of its tensors' names.
GROUPS = ("weights", "best_weights", "optimizer", "random", "average")


@dataclass(slots=True)
class Checkpoint:
    """Content of a checkpoint file."""

    state: TrainingState
    weights: dict[str, torch.Tensor]
    best_weights: dict[str, torch.Tensor]  # so that model.safetensors can always be restored
    optimizer: dict[str, torch.Tensor]
    random: dict[str, torch.Tensor]
    average: dict[str, torch.Tensor] = field(default_factory=dict)  # EMA of the weights, with training.ema_decay
    vocabulary: str | None = None  # checksum of the vocabulary
    shard: ShardPlace | None = None  # which rows the tensors have, where processes share a grammar

    def save(
        self,
        path: Path,
        renaming: Callable[[], AbstractContextManager[object]] = nullcontext,
        seconds: float = math.inf,
    ) -> None:
        """Replace the checkpoint file atomically; `renaming()` is entered while a file is renamed.

        Of processes that share a grammar, each writes its symbols, and the first one then the rest with the names of
        these files; it waits for them for so many seconds at most.
        """
        tensors = {f"{group}/{name}": tensor for group in GROUPS for name, tensor in getattr(self, group).items()}
        record, shard, number = self.state.model_dump(), self.shard, self.state.saves
        if shard is not None:
            own = {name: tensor for name, tensor in tensors.items() if shard.is_sharded(name, tensor)}
            write_tensor_file(shard.file(path, number), own, {"number": number}, renaming(), self.vocabulary)
            if shard.rank:
                return
            tensors = {name: tensor for name, tensor in tensors.items() if name not in own}

            def check() -> None:
                with renaming():
                    pass

            record["shards"] = shard.record(path, number, check, seconds)
        write_tensor_file(path, tensors, record, renaming(), self.vocabulary)
        remove_old_shards(path, record.get("shards"), number)

    def save_best(
        self,
        path: Path,
        renaming: AbstractContextManager[object] | None = None,
        weights: dict[str, torch.Tensor] | None = None,
    ) -> None:
        """Write the weights of the best epoch, or `weights`, as a model, if an epoch has been finished."""
        if self.state.best is not None:
            tensors = self.best_weights if weights is None else weights
            write_tensor_file(path, tensors, self.state.best.model_dump(), renaming, self.vocabulary)

    def part(self, shard: ShardPlace) -> "Checkpoint":
        """Return this whole checkpoint with the rows of one of several processes that share a grammar."""
        parts: Record = {
            group: {
                name: own_part(tensor, shard.groups[name.split("/")[0]], shard.rank, shard.size)
                if shard.is_sharded(f"{group}/{name}", tensor)
                else tensor
                for name, tensor in getattr(self, group).items()
            }
            for group in GROUPS
        }
        return replace(self, **parts, shard=shard)

    @classmethod
    def load(cls, path: Path) -> "Checkpoint":
        """Read a checkpoint; raise InputError if it is damaged or of another version."""
        tensors, record, vocabulary, _ = read_tensor_file(path)
        shards = record.pop("shards", None)
        if shards is not None:
            tensors |= read_shards(path, shards)
        groups: dict[str, dict[str, torch.Tensor]] = {group: {} for group in GROUPS}
        for name, tensor in tensors.items():
            group, _, rest = name.partition("/")
            if group not in GROUPS:
                raise InputError(f"{path}: unexpected tensor {name}; it was written by another version")
            groups[group][rest] = tensor
        try:
            state = TrainingState.model_validate(record)
            return cls(state, vocabulary=vocabulary, **groups)  # type: ignore[arg-type]
        except ValidationError as error:
            place = ".".join(map(str, error.errors()[0]["loc"]))
            raise InputError(f"{path}: the record's {place} does not fit; it was written by another version") from None
