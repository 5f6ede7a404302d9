"""The training loop: epochs of steps, validation, metrics and checkpoints of a model on an encoded corpus."""

import math
import signal
import time
from contextlib import ExitStack, closing, suppress
from datetime import UTC, datetime

import torch

from simplepcfg.data.batching import Batch, collate
from simplepcfg.data.encoded_text import sentence_lengths
from simplepcfg.errors import NumericalError
from simplepcfg.evaluation.likelihood import log_likelihoods
from simplepcfg.evaluation.perplexity import PerplexityReport, perplexity
from simplepcfg.models import build_model
from simplepcfg.models.compound import CompoundModel
from simplepcfg.models.sharding import shard_model
from simplepcfg.ops.cuda_graphs.capture import side_stream
from simplepcfg.ops.inside import without_graphs
from simplepcfg.runs.checkpoint import Best, Checkpoint, StepSums, TrainingState
from simplepcfg.runs.checkpoint_shards import ShardPlace
from simplepcfg.runs.config.schema import RunConfig
from simplepcfg.runs.corpus import Corpus
from simplepcfg.runs.device import set_precision, validation_precision
from simplepcfg.runs.metrics import JsonLines, NullJsonLines
from simplepcfg.runs.run_folder import RunFolder
from simplepcfg.runs.tensor_files import host_copy
from simplepcfg.training.checkpoint_saver import CheckpointSaver
from simplepcfg.training.initial_weights import initialise_weights
from simplepcfg.training.reporting.progress import (
    EpochReport,
    Reporter,
    StepReport,
    Throughput,
    epoch_record,
    step_record,
)
from simplepcfg.training.reporting.snapshot import Snapshot, SnapshotTaker
from simplepcfg.training.schedule import Curriculum, learning_rate, with_weight_decay
from simplepcfg.training.signals import Interrupted, StopSignals
from simplepcfg.training.skipped_batches import SkippedBatches, stability_advice
from simplepcfg.training.step.counters import copy_to_state
from simplepcfg.training.step.distributed import Group
from simplepcfg.training.step.ema import WeightEMA
from simplepcfg.training.step.rule_count_check import rule_count_ratio
from simplepcfg.training.step.span_prior import require_trees, span_prior
from simplepcfg.training.step.state_dropout import StateDropout, check_sharded_settings
from simplepcfg.training.step.step import Step
from simplepcfg.training.step.teacher_loss import teacher_signal
from simplepcfg.training.teachers import TeacherMarginals

MAX_SKIPPED_IN_A_ROW = 20
# On a GPU the counters are copied every so many steps, and the copy before is read: the host never waits.
COUNTER_READ_INTERVAL = 16
DELAYED_READ_DEVICES = {"cuda"}
# Least seconds between two snapshots within an epoch, where the reporter wants them.
SNAPSHOT_SECONDS = 20.0


class _StopValidation(Exception):
    """Ends a validation whose result is not needed, since the run is asked to stop."""


class Trainer:
    """Trains a model on a corpus and writes checkpoints and metrics into an existing run folder.

    `capture` allows steps to be captured as CUDA graphs; `begins` says that the weights are those of a new run. Raises
    InputError if the model does not support the settings.
    """

    def __init__(
        self,
        config: RunConfig,
        folder: RunFolder,
        corpus: Corpus,
        device: torch.device,
        reporter: Reporter,
        stop: StopSignals,
        group: Group,
        capture: bool,
        begins: bool,
    ) -> None:
        settings = config.training
        require_trees(config.model, settings)
        self.config, self.folder, self.corpus, self.device = config, folder, corpus, device
        self.reporter, self.stop, self.group = reporter, stop, group
        torch.manual_seed(config.seed)
        self.model = build_model(config.model, len(corpus.vocabulary)).to(device)
        set_precision(self.model, settings.precision, device)
        if begins:
            initialise_weights(self.model, config, corpus)
        self.shard: ShardPlace | None = None
        self.weight_count = sum(parameter.numel() for parameter in self.model.parameters())
        if group.shards is not None:
            check_sharded_settings(settings)
            groups = shard_model(self.model, group.shards)
            self.shard = ShardPlace(group.shards.rank, group.shards.size, groups)
        self.dropout = StateDropout(self.model, settings, config.seed)
        self.teacher_marginals: TeacherMarginals | None = None  # set before the first step, where there are teachers
        self.ema = WeightEMA(self.model, settings.ema_decay)
        self.step = Step(
            self.model,
            with_weight_decay(settings, len(corpus.train)),
            0 if config.data.eos else 1,
            group,
            ema=self.ema,
            captured_shapes=settings.captured_shapes if capture else 0,
            note=reporter.note,
        )
        self.state = TrainingState()
        self.best_weights: dict[str, torch.Tensor] = {}
        self._lengths = torch.from_numpy(corpus.train.lengths)
        self._states = getattr(config.model, "nonterminals", 0)
        self.curriculum = Curriculum(self._lengths, settings, config.seed)
        self._stop_requested = False  # whether any of several processes was asked to stop; all of them know
        self._throughput = Throughput()
        self._saver = CheckpointSaver(folder, settings, self.model, self.ema, self.step, corpus.vocabulary, self.shard)
        self._skipped = SkippedBatches(folder.skipped, corpus, reporter.note)
        self._snapshots = SnapshotTaker(corpus.valid, corpus.vocabulary)
        self._last_snapshot = time.monotonic()

    def resume(self, checkpoint: Checkpoint) -> None:
        """Restore a whole checkpoint; nothing in the folder changes yet."""
        if self.shard is not None:
            checkpoint = checkpoint.part(self.shard)
        self._saver.restore(checkpoint)
        self.state, self.best_weights = checkpoint.state, checkpoint.best_weights
        self._skipped.known = self.state.skipped_steps

    @property
    def stopped_by(self) -> str | None:
        """Why training has ended: "epochs", "patience" or "max_minutes"; None while it has not."""
        return self.state.ended_by(self.config.training)

    def run(self) -> None:
        """Train to the last epoch or until patience ends.

        Raises Interrupted after SIGINT or SIGTERM, when everything has been saved, and NumericalError if too many
        steps in a row are skipped.
        """
        self.stop.defer()
        with ExitStack() as files:
            with self.group.failing_together():
                self._metrics, self._timings = self._open_records(files)
            try:
                with side_stream(self.device), without_graphs():
                    while self.stopped_by is None:
                        self._train_epoch()
                        self._finish_epoch(self._validate())
            except BaseException as error:
                self._saver.finish_after(error, self.reporter)
                raise
            with self.group.failing_together():
                self._saver.wait()

    def _open_records(self, files: ExitStack) -> tuple[JsonLines, JsonLines]:
        if not self.group.is_leader:
            return NullJsonLines(), NullJsonLines()
        metrics = files.enter_context(closing(JsonLines(self.folder.metrics, keep=self.state.metrics_bytes)))
        timings = files.enter_context(closing(JsonLines(self.folder.timings)))
        timings.write({"session": datetime.now(UTC).isoformat(), "step": self.state.step})
        return metrics, timings

    def _train_epoch(self) -> None:
        state, settings = self.state, self.config.training
        batches = self.curriculum.batches(state.epoch)
        words, words_after = self.curriculum.tokens(state.epoch), self.curriculum.tokens_after(state.epoch)
        self.model.train()
        self._throughput.resume()
        for indices in batches[state.batch :]:
            rate = learning_rate(settings, state, len(batches))
            places = self.group.share(self._lengths[indices], self._states)
            batch = collate(self.corpus.train, [indices[place] for place in places])
            if isinstance(self.model, CompoundModel) and self.group.data_size > 1:
                self.model.take_part(len(indices), places)
            self.dropout.draw(state.step)
            self._skipped.add(state.step, indices)
            self.step(
                batch,
                len(indices),
                rate,
                number=state.step,
                prior=span_prior(settings, state.step, self.corpus.train_breaks, batch),
                teacher=teacher_signal(settings, self.teacher_marginals, state.step, batch),
                stop=self.stop.requested is not None,
            )
            state.batch += 1
            state.step += 1
            self._throughput.add_words(int(self._lengths[indices].sum()))
            self._update_state()
            words_left = words * (1 - state.batch / len(batches)) + words_after
            self._report_step(batch, rate, len(batches), words_left)
            if self._saver.is_due(state.step, self.group.maximum):
                self.save()
                self._throughput.resume()
            self._stop_if_requested()
        self._read_counters()
        self._stop_if_requested()

    def _update_state(self) -> None:
        """Copy the counters of the steps into the state: at once on a CPU, some steps late on a GPU."""
        step = self.state.step
        if self.device.type not in DELAYED_READ_DEVICES or step % self.config.training.log_every == 0:
            self._read_counters()
        elif step % COUNTER_READ_INTERVAL == 0:
            values = self.step.counters.read_delayed()
            if values is not None:
                self._read_counters(values)
            else:
                self._skipped.start_delayed_read()

    def _read_counters(self, values: list[float] | None = None) -> None:
        """Copy counters into the state; raise where a process failed or too many steps were skipped.

        Without `values`, those of some steps ago, this waits for all steps so far.
        """
        counters = copy_to_state(self.step.counters.read() if values is None else values, self.state)
        self._throughput.finish_words()
        if counters["failed"]:
            self.group.raise_held_errors()  # raises, since a process holds an error
        self._skipped.check(
            self.state.skipped_steps,
            counters["last_norm"],
            all_done=values is None,
            write=self.group.is_leader,
            stop=self.config.training.stop_at_skipped,
        )
        self._stop_requested = counters["stop"] > 0
        if counters["longest_in_a_row"] >= MAX_SKIPPED_IN_A_ROW:
            advice = stability_advice(self.config, self.model, self.device)
            raise NumericalError(
                f"{MAX_SKIPPED_IN_A_ROW} steps in a row without a finite gradient and a probability of at most 1 "
                f"(norm {counters['last_norm']}) by step {self.state.step}; {advice}"
            )

    def _validate(self) -> PerplexityReport:
        """Return the validation perplexity of the averaged weights; raise Interrupted if asked to stop."""
        sentences, group = self.corpus.valid, self.group
        shared = torch.zeros(len(sentences) + 2, dtype=torch.float64)  # log-likelihoods, stop, failed
        places = group.share(torch.from_numpy(sentences.lengths), self._states)
        with group.holding_errors(), suppress(_StopValidation), self.ema.swapped_in():
            own = log_likelihoods(
                self.model,
                sentences.select(places),
                self.device,
                self._between_batches,
                validation_precision(self.config.training.precision, self.device),
            )
            if group.is_first_shard:
                shared[places] = own
        shared[-2], shared[-1] = self.stop.requested is not None, group.held_error is not None
        group.all_reduce_on_host(shared)
        if shared[-1]:
            group.raise_held_errors()
        self._stop_requested = self._stop_requested or bool(shared[-2])
        self._stop_if_requested()
        return perplexity(shared[:-2], sentence_lengths(sentences), self.config.data.eos)

    def _between_batches(self) -> None:
        """Leave the validation if asked to stop; the model then gets its own weights back before they are saved."""
        if self.stop.requested is not None and self.group.shards is None:  # which compute every batch together
            raise _StopValidation

    def _finish_epoch(self, valid: PerplexityReport) -> None:
        """Update the state at the end of an epoch, and write metrics, a checkpoint and the model if it is the best."""
        state, trained = self.state, self.state.this_epoch
        better = state.best is None or valid.rank > state.best.rank
        state.epoch, state.batch, state.this_epoch = state.epoch + 1, 0, StepSums()
        self.step.counters.reset_epoch()
        state.epochs_without_gain = 0 if better else state.epochs_without_gain + 1
        settings = self.config.training
        if settings.schedule == "plateau" and not better and state.epochs_without_gain % settings.plateau_epochs == 0:
            state.rate_reductions += 1
        if better:
            state.best = Best(
                epoch=state.epoch,
                step=state.step,
                log_likelihood=valid.log_likelihood,
                tokens=valid.tokens,
                perplexity=valid.perplexity if math.isfinite(valid.perplexity) else None,
                impossible=valid.impossible,
            )
        if self.group.has_first_batch:
            with self.group.holding_errors():
                self._record_epoch(trained, valid, better)
        state.seconds = max(state.seconds, float(self.group.maximum(int(state.seconds))))  # all processes stop together

    def _record_epoch(self, trained: StepSums, valid: PerplexityReport, better: bool) -> None:
        state, model_weights = self.state, None
        if better:
            self.best_weights = host_copy(self.ema.weights())
            model_weights = self._whole(self.best_weights)
        with self.ema.swapped_in():
            snapshot = self._take_snapshot()
        report = EpochReport(
            epoch=state.epoch,
            epochs=self.config.training.epochs,
            train_perplexity=trained.perplexity,
            valid=valid,
            best=better,
            epochs_without_gain=state.epochs_without_gain,
            patience=self.config.training.patience,
            seconds=self._saver.elapsed_seconds(state),
        )
        self._metrics.write(epoch_record(report, state, snapshot))
        self._saver.save(state, self.best_weights, self._metrics, model_weights)
        self._timings.write({"epoch": state.epoch, "step": state.step, "seconds": state.seconds})
        if snapshot is not None and self.reporter.wants_snapshots:
            self.reporter.snapshot(snapshot)
        self.reporter.epoch(report)

    def _whole(self, weights: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Return weights on the CPU with the rows of all processes that share the grammar."""
        if self.shard is None or self.group.shards is None:
            return weights
        whole = dict(weights)
        for name, groups in self.shard.groups.items():
            own = weights[name].to(self.device)  # where the processes exchange tensors
            parts = [count // self.shard.size for count in groups]
            whole[name] = self.group.shards.gather(own, parts, 0).to("cpu").contiguous()
        return whole

    def _report_step(self, batch: Batch, rate: float, batches: int, words_left: float) -> None:
        """Report the step of a batch, where one of so many batches in its epoch has just been done."""
        logged = self.state.step % self.config.training.log_every == 0
        if self.group.is_leader:
            with self.group.holding_errors():
                self._saver.check()
                self._record_step(batch, rate, batches, words_left, logged)
        if logged:
            self.state.since_log = StepSums()
            self.step.counters.reset_since_log()

    def _record_step(self, batch: Batch, rate: float, batches: int, words_left: float, logged: bool) -> None:
        state, settings, words_per_second = self.state, self.config.training, self._throughput.words_per_second
        ratio = None
        if logged:
            record = step_record(state, rate)
            if settings.check_identity and len(batch):
                moved = batch.to(self.device)
                record["rule_count_ratio"] = ratio = rule_count_ratio(self.model, moved.words, moved.lengths)
            self._metrics.write(record)
            seconds = self._saver.elapsed_seconds(state)
            self._timings.write(
                {"step": state.step, "seconds": seconds, "words_per_second": round(words_per_second, 1)}
            )
        sums = state.since_log if state.since_log.steps else state.this_epoch
        self.reporter.step(
            StepReport(
                epoch=state.epoch + 1,
                epochs=settings.epochs,
                batch=state.batch,
                batches=batches,
                step=state.step,
                loss=sums.loss / max(sums.sentences, 1),
                perplexity=sums.perplexity,
                words_per_second=words_per_second,
                seconds_left=words_left / words_per_second if words_per_second else math.inf,
                logged=logged,
                gradient_norm=sums.gradient_norm / sums.steps if sums.steps else math.nan,
                learning_rate=rate,
                skipped_steps=state.skipped_steps,
                rule_count_ratio=ratio,
            )
        )
        if self.shard is not None:  # here the leader is alone, and cannot ask the grammar
            return
        if logged and self.reporter.wants_snapshots and time.monotonic() - self._last_snapshot >= SNAPSHOT_SECONDS:
            snapshot = self._take_snapshot()
            if snapshot is not None:
                self.reporter.snapshot(snapshot)

    def _take_snapshot(self) -> Snapshot | None:
        """Return a snapshot of the model as it is; None for a model that has none."""
        snapshot = self._snapshots.take(self.model, self.device)
        self._last_snapshot = time.monotonic()
        return snapshot

    def save(self) -> None:
        """Begin to write a checkpoint, if this process's weights are saved."""
        if self.group.has_first_batch:
            with self.group.holding_errors():
                self._saver.save(self.state, self.best_weights, self._metrics)

    def _stop_if_requested(self) -> None:
        """Save everything and raise Interrupted if asked to stop; several processes do so after the same step."""
        if not (self._stop_requested if self.group.size > 1 else self.stop.requested is not None):
            return
        self.save()
        with self.group.failing_together():
            self._saver.wait()
        number = self.group.maximum(self.stop.requested or 0)
        raise Interrupted(
            f"stopped by {signal.Signals(number).name} after step {self.state.step}, all saved; "
            f"go on with: {self.folder.resume_command}",
            number,
        )
