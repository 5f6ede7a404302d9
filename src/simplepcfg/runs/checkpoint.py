"""Checkpoints: one file from which training resumes exactly where it stood."""

import math
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

import torch
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from torch import nn

from simplepcfg.errors import InputError
from simplepcfg.runs.config.schema import TrainingConfig
from simplepcfg.runs.tensor_files import (
    host_copy,
    load_weights,
    read_checked_tensor_file,
    write_tensor_file,
)


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

    def ended_by(self, settings: TrainingConfig) -> str | None:
        """Return why a run has ended, "patience", "epochs" or "max_minutes", or None if it has not."""
        if settings.patience and self.epochs_without_gain >= settings.patience:
            return "patience"
        if self.epoch >= settings.epochs:
            return "epochs"
        # Whole seconds, on which several processes agree.
        return "max_minutes" if self.epoch and 0 < settings.max_minutes <= int(self.seconds) / 60 else None


# The prefix of tensor names in the file, and the attribute of Checkpoint that holds these tensors.
GROUPS = {
    "weights": "weights",
    "best_weights": "best_weights",
    "optimizer": "optimizer",
    "random": "random",
    "average": "ema",
}


@dataclass(slots=True)
class Checkpoint:
    """Content of a checkpoint file."""

    state: TrainingState
    weights: dict[str, torch.Tensor]
    best_weights: dict[str, torch.Tensor]  # so that model.safetensors can always be restored
    optimizer: dict[str, torch.Tensor]
    random: dict[str, torch.Tensor]
    ema: dict[str, torch.Tensor] = field(default_factory=dict)  # of the weights, if training.ema_decay is set
    vocabulary: str | None = None  # checksum of the vocabulary

    def save(self, path: Path, renaming: AbstractContextManager[object] | None = None) -> None:
        """Replace the checkpoint file atomically; `renaming` is entered while the file is renamed."""
        tensors = {
            f"{prefix}/{name}": tensor
            for prefix, attribute in GROUPS.items()
            for name, tensor in getattr(self, attribute).items()
        }
        write_tensor_file(path, tensors, self.state.model_dump(), renaming, self.vocabulary)

    def save_best(self, path: Path, renaming: AbstractContextManager[object] | None = None) -> None:
        """Write the weights of the best epoch as a model, if an epoch has been finished."""
        if self.state.best is not None:
            write_tensor_file(path, self.best_weights, self.state.best.model_dump(), renaming, self.vocabulary)

    @classmethod
    def load(cls, path: Path) -> "Checkpoint":
        """Read a checkpoint; raise InputError if it is damaged or of another version."""
        tensors, record, vocabulary = read_checked_tensor_file(path)
        groups: dict[str, dict[str, torch.Tensor]] = {attribute: {} for attribute in GROUPS.values()}
        for name, tensor in tensors.items():
            prefix, _, rest = name.partition("/")
            if prefix not in GROUPS:
                raise InputError(f"{path}: unexpected tensor {name}; it was written by another version")
            groups[GROUPS[prefix]][rest] = tensor
        try:
            state = TrainingState.model_validate(record)
            return cls(state, **groups, vocabulary=vocabulary)
        except ValidationError as error:
            place = ".".join(map(str, error.errors()[0]["loc"]))
            raise InputError(f"{path}: the record's {place} does not fit; it was written by another version") from None


def capture(
    state: TrainingState,
    model: nn.Module,
    best_weights: dict[str, torch.Tensor],
    optimizer: torch.optim.Optimizer,
    device: torch.device,
    ema: Mapping[str, torch.Tensor],
    vocabulary: str | None = None,
) -> Checkpoint:
    """Return a checkpoint with copies, on the CPU, of everything that training changes.

    `ema` are the averaged weights by name, empty if none are kept; `vocabulary` is the checksum of the vocabulary.
    """
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
    copied = host_copy(ema)
    return Checkpoint(state.model_copy(deep=True), weights, best_weights, moments, random, copied, vocabulary)


def restore(
    checkpoint: Checkpoint,
    path: Path,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    device: torch.device,
) -> None:
    """Load a checkpoint, read from `path`, into a model, an optimiser and torch's random state.

    Raises InputError if it does not fit.
    """
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
    """Load the moments by torch's own load_state_dict, which moves each to the right device."""
    names = {parameter: name for name, parameter in model.named_parameters()}
    order = [names[parameter] for group in optimizer.param_groups for parameter in group["params"]]
    state: dict[int, dict[str, torch.Tensor]] = {}
    for name, value in moments.items():
        owner, _, key = name.rpartition("/")
        if owner not in order:
            raise InputError(f"{path}: optimiser state for unknown weight {owner}; it belongs to another model")
        state.setdefault(order.index(owner), {})[key] = value
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})
