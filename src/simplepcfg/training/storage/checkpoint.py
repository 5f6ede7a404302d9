"""One file from which training goes on as if nothing had happened."""

import math
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from torch import nn

from simplepcfg.errors import InputError
from simplepcfg.training.storage.tensor_files import (
    host_copy,
    load_weights,
    read_checked_tensor_file,
    write_tensor_file,
)


class Tally(BaseModel):
    """Sums over training steps, from which a line of metrics is made."""

    model_config = ConfigDict(extra="forbid")

    loss: float = 0.0  # nats, summed over sentences
    tokens: int = 0
    sentences: int = 0
    gradient_norm: float = 0.0  # summed over steps
    steps: int = 0

    def add(self, loss: float, tokens: int, sentences: int, gradient_norm: float) -> None:
        """Count one step."""
        self.loss += loss
        self.tokens += tokens
        self.sentences += sentences
        self.gradient_norm += gradient_norm
        self.steps += 1

    @property
    def perplexity(self) -> float:
        """Of the text in these steps, under the weights of the time; infinite where a double overflows."""
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
        """Larger is better, as PerplexityReport.rank."""
        return (-self.impossible, self.log_likelihood)


class TrainingState(BaseModel):
    """Where training stands: `batch` batches of epoch `epoch` (from 0) are done."""

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
    since_log: Tally = Field(default_factory=Tally)
    this_epoch: Tally = Field(default_factory=Tally)
    metrics_bytes: int = 0
    metrics_crc32: int | None = None  # of these bytes; None in checkpoints of early versions
    seconds: float = 0.0

    def ended_by(self, epochs: int, patience: int) -> str | None:
        """Why a run of so many epochs has nothing left to do: "epochs", "patience" (0: never), or None while it has."""
        if patience and self.epochs_without_gain >= patience:
            return "patience"
        return "epochs" if self.epoch >= epochs else None


GROUPS = ("weights", "best_weights", "optimizer", "random", "average")


@dataclass(slots=True)
class Checkpoint:
    """What one checkpoint file holds."""

    state: TrainingState
    weights: dict[str, torch.Tensor]
    best_weights: dict[str, torch.Tensor]  # kept here too, so that model.safetensors can always be written again
    optimizer: dict[str, torch.Tensor]
    random: dict[str, torch.Tensor]
    average: dict[str, torch.Tensor] = field(default_factory=dict)  # of the weights, if one is kept
    vocabulary: str | None = None  # its checksum
    verified: bool = True  # False if it was read from a file without a checksum

    def save(self, path: Path, renaming: AbstractContextManager[object] | None = None) -> None:
        """Replace the checkpoint in one step; until then the old one stands."""
        tensors = {f"{group}/{name}": tensor for group in GROUPS for name, tensor in getattr(self, group).items()}
        write_tensor_file(path, tensors, self.state.model_dump(), renaming, self.vocabulary)

    def save_best(self, path: Path, renaming: AbstractContextManager[object] | None = None) -> None:
        """Write the best epoch's weights as a model, if there has been an epoch."""
        if self.state.best is not None:
            write_tensor_file(path, self.best_weights, self.state.best.model_dump(), renaming, self.vocabulary)

    @classmethod
    def load(cls, path: Path) -> "Checkpoint":
        """Read a checkpoint; InputError if it is damaged or of another version."""
        tensors, record, vocabulary, verified = read_checked_tensor_file(path)
        groups: dict[str, dict[str, torch.Tensor]] = {group: {} for group in GROUPS}
        for name, tensor in tensors.items():
            group, _, rest = name.partition("/")
            if group not in groups:
                raise InputError(f"{path}: unexpected tensor {name}; it was written by another version")
            groups[group][rest] = tensor
        try:
            state = TrainingState.model_validate(record)
            return cls(state, **groups, vocabulary=vocabulary, verified=verified)
        except ValidationError as error:
            place = ".".join(map(str, error.errors()[0]["loc"]))
            raise InputError(f"{path}: the record's {place} does not fit; it was written by another version") from None


def capture(
    state: TrainingState,
    model: nn.Module,
    best_weights: dict[str, torch.Tensor],
    optimizer: torch.optim.Optimizer,
    device: torch.device,
    average: Mapping[str, torch.Tensor],
    vocabulary: str | None = None,
) -> Checkpoint:
    """Copy everything that training changes."""
    moments = host_copy(
        {
            f"{name}/{key}": value
            for name, parameter in model.named_parameters()
            for key, value in optimizer.state.get(parameter, {}).items()
        }
    )
    random = {"cpu": torch.get_rng_state()}
    if device.type == "cuda":
        random["cuda"] = torch.cuda.get_rng_state(device)
    weights = host_copy(model.state_dict())
    copied = host_copy(average)
    return Checkpoint(state.model_copy(deep=True), weights, best_weights, moments, random, copied, vocabulary)


def restore(
    checkpoint: Checkpoint,
    path: Path,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    device: torch.device,
) -> None:
    """Put a checkpoint back into a model, an optimiser and torch's random state."""
    load_weights(model, checkpoint.weights, path)
    _restore_optimizer(checkpoint.optimizer, path, model, optimizer)
    try:
        torch.set_rng_state(checkpoint.random["cpu"])
        if device.type == "cuda" and "cuda" in checkpoint.random:
            torch.cuda.set_rng_state(checkpoint.random["cuda"], device)
    except (KeyError, RuntimeError, TypeError) as error:
        raise InputError(f"{path}: its random state does not fit ({error}); restore it from a copy") from None


def _restore_optimizer(
    moments: Mapping[str, torch.Tensor], path: Path, model: nn.Module, optimizer: torch.optim.Optimizer
) -> None:
    """Hand the moments over by torch's own load_state_dict, which puts each on the right device."""
    names = {parameter: name for name, parameter in model.named_parameters()}
    order = [names[parameter] for group in optimizer.param_groups for parameter in group["params"]]
    state: dict[int, dict[str, Any]] = {}
    for name, value in moments.items():
        owner, _, key = name.rpartition("/")
        if owner not in order:
            raise InputError(f"{path}: optimiser state for unknown weight {owner}; it belongs to another model")
        state.setdefault(order.index(owner), {})[key] = value
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})
