"""Checkpoints of a run in progress: when one is due, writing it while training goes on, and going on from one."""

import time
from collections.abc import Callable

import torch

from simplepcfg.data.vocabulary import Vocabulary
from simplepcfg.errors import InputError
from simplepcfg.runs.checkpoint import Checkpoint, TrainingState
from simplepcfg.runs.checkpoint_shards import ShardPlace
from simplepcfg.runs.config.schema import TrainingConfig
from simplepcfg.runs.metrics import JsonLines
from simplepcfg.runs.run_folder import RunFolder
from simplepcfg.runs.tensor_files import host_copy, load_weights
from simplepcfg.training.background_writer import BackgroundWriter
from simplepcfg.training.reporting.progress import Reporter
from simplepcfg.training.signals import Interrupted
from simplepcfg.training.step.counters import copy_to_state
from simplepcfg.training.step.ema import WeightEMA
from simplepcfg.training.step.step import Step


class CheckpointSaver(BackgroundWriter):
    """Writes checkpoints in the background, restores them, and keeps the time that the run has taken."""

    def __init__(
        self,
        folder: RunFolder,
        settings: TrainingConfig,
        model: torch.nn.Module,
        ema: WeightEMA,
        step: Step,
        vocabulary: Vocabulary,
        shard: ShardPlace | None = None,
    ) -> None:
        super().__init__()
        self._folder, self._settings, self._vocabulary, self._shard = folder, settings, vocabulary, shard
        self._model, self._ema, self._step = model, ema, step
        self._last_save = self._clock = time.monotonic()

    def elapsed_seconds(self, state: TrainingState) -> float:
        """Return the seconds since the run began, those of earlier sessions included."""
        return state.seconds + time.monotonic() - self._clock

    def is_due(self, step: int, agreed: Callable[[int], int] = int) -> bool:
        """Return whether a checkpoint is due after this many steps, by steps or by the clock.

        Of processes that share a grammar all must save, so that they agree about the clock, before a line of metrics:
        `agreed` returns the largest number that a process gives.
        """
        settings = self._settings
        by_steps = bool(settings.checkpoint_steps and step % settings.checkpoint_steps == 0)
        waited = time.monotonic() - self._last_save
        by_clock = bool(settings.checkpoint_minutes and waited >= 60 * settings.checkpoint_minutes)
        if self._shard is None:
            return by_steps or by_clock
        return by_steps or (step % settings.log_every == 0 and agreed(by_clock) > 0)

    def save(
        self,
        state: TrainingState,
        best_weights: dict[str, torch.Tensor],
        metrics: JsonLines,
        model_weights: dict[str, torch.Tensor] | None = None,
    ) -> None:
        """Begin to write a checkpoint and, where they are given, whole weights as the model.

        The metrics are synced to the disk first, because the checkpoint records their length. The model is written
        last, since it can be restored from the checkpoint.
        """
        self.wait()  # Only one copy of the weights is held at a time.
        copy_to_state(self._step.counters.read(), state)
        state.metrics_bytes, state.metrics_crc32 = metrics.sync()
        state.seconds = self.elapsed_seconds(state)
        state.saves += self._shard is not None
        self._clock = self._last_save = time.monotonic()
        checkpoint = self._take_checkpoint(state, best_weights)

        def write_files() -> None:
            seconds = 60 * self._settings.timeout_minutes
            checkpoint.save(self._folder.checkpoint, self.renaming, seconds)
            if model_weights is not None and (self._shard is None or self._shard.rank == 0):
                checkpoint.save_best(self._folder.model, self.renaming(), model_weights)

        self.write(write_files)

    def _take_checkpoint(self, state: TrainingState, best_weights: dict[str, torch.Tensor]) -> Checkpoint:
        """Return a checkpoint with copies, on the CPU, of everything that training changes."""
        device, held = self._step.device, self._step.optimizer.state
        moments = {
            f"{name}/{key}": value
            for name, parameter in self._model.named_parameters()
            for key, value in held.get(parameter, {}).items()
        }
        random = {"cpu": torch.get_rng_state()}
        if device.type == "cuda":
            random["cuda"] = torch.cuda.get_rng_state(device)
        return Checkpoint(
            state.model_copy(deep=True),
            host_copy(self._model.state_dict()),
            best_weights,
            host_copy(moments),
            random,
            host_copy(self._ema.state()),
            self._vocabulary.checksum,
            self._shard,
        )

    def restore(self, checkpoint: Checkpoint) -> None:
        """Load a checkpoint into the model, its average, the optimiser, the counters and torch's random state.

        Raises InputError if it does not fit.
        """
        path, device, optimizer = self._folder.checkpoint, self._step.device, self._step.optimizer
        load_weights(self._model, checkpoint.weights, path)
        names = {parameter: name for name, parameter in self._model.named_parameters()}
        order = [names[parameter] for group in optimizer.param_groups for parameter in group["params"]]
        moments: dict[int, dict[str, torch.Tensor]] = {}
        for name, value in checkpoint.optimizer.items():
            owner, _, key = name.rpartition("/")
            if owner not in order:
                raise InputError(f"{path}: optimiser state for unknown weight {owner}; it belongs to another model")
            moments.setdefault(order.index(owner), {})[key] = value
        # Torch's own function moves each moment to the right device.
        optimizer.load_state_dict({"state": moments, "param_groups": optimizer.state_dict()["param_groups"]})
        try:
            torch.set_rng_state(checkpoint.random["cpu"])
            if device.type == "cuda" and "cuda" in checkpoint.random:
                torch.cuda.set_rng_state(checkpoint.random["cuda"], device)
        except (KeyError, RuntimeError, TypeError) as error:
            raise InputError(f"{path}: its random state does not fit ({error}); restore it from a copy") from None
        self._ema.load(checkpoint.average, path)
        self._step.update.reset()
        self._step.counters.load(checkpoint.state)

    def finish_after(self, error: BaseException, reporter: Reporter) -> None:
        """Finish the write in progress when training fails, or abandon it when training must stop at once."""
        if isinstance(error, Interrupted) or not isinstance(error, Exception):
            self.abandon()
            return
        try:
            self.wait()
        except Exception as late:  # Training ends with the first error; this one is only reported.
            reporter.note(f"besides, the checkpoint could not be written: {late}")
