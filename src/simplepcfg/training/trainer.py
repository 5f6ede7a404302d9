"""The loop itself: steps, validation, checkpoints. It knows nothing of where text comes from."""

import math
import signal
import time
from contextlib import ExitStack, suppress
from dataclasses import replace
from datetime import UTC, datetime

import torch

from simplepcfg.data.batching import Batch, collate
from simplepcfg.errors import NumericalError
from simplepcfg.evaluation.likelihood import log_likelihoods
from simplepcfg.evaluation.perplexity import PerplexityReport, perplexity
from simplepcfg.models import build_model
from simplepcfg.training.config.schema import RunConfig
from simplepcfg.training.machine.device import set_precision, validation_precision
from simplepcfg.training.machine.signals import Interrupted, StopSignals
from simplepcfg.training.reporting.pace import Pace
from simplepcfg.training.reporting.progress import EpochReport, Reporter, StepReport
from simplepcfg.training.reporting.snapshot import Observer
from simplepcfg.training.step.branching_bias import BranchingBias
from simplepcfg.training.step.capture import side_stream
from simplepcfg.training.step.distributed import Group
from simplepcfg.training.step.dropout import StateDropout
from simplepcfg.training.step.ema import WeightAverage
from simplepcfg.training.step.health import refuse_without_rules, rule_count_ratio
from simplepcfg.training.step.step import Step
from simplepcfg.training.step.tally import mirror
from simplepcfg.training.step.timing import StepTimer
from simplepcfg.training.storage.background_writer import BackgroundWriter
from simplepcfg.training.storage.checkpoint import Best, Checkpoint, Tally, TrainingState, capture, restore
from simplepcfg.training.storage.metrics import JsonLines, NoLines
from simplepcfg.training.storage.records import epoch_record, step_record
from simplepcfg.training.storage.run_folder import RunFolder
from simplepcfg.training.storage.skipped_batches import SkippedBatches
from simplepcfg.training.storage.tensor_files import host_copy
from simplepcfg.training.text.corpus import Corpus
from simplepcfg.training.text.curriculum import Curriculum

MAX_SKIPPED_IN_A_ROW = 20
STEADY_RATE = 0.1  # of the networks, as a share of the embeddings'
# On a card the sums are looked at every so many steps, and then those of the look before: the host does not wait.
GLANCE_EVERY = 16
GLANCED_AT = {"cuda"}
# Between two looks at the model within an epoch, where somebody wants them.
SNAPSHOT_SECONDS = 20.0


class _AskedToStop(Exception):
    """Ends this process's share of a validation whose outcome nobody will need."""


class Trainer:
    """A model, its optimiser and the state of their training, in a folder that exists."""

    def __init__(
        self,
        config: RunConfig,
        folder: RunFolder,
        corpus: Corpus,
        device: torch.device,
        reporter: Reporter,
        stop: StopSignals,
        group: Group | None = None,
        capture: bool = False,
        timer: StepTimer | None = None,
    ) -> None:
        self.config, self.folder, self.corpus, self.device = config, folder, corpus, device
        self.reporter, self.stop = reporter, stop
        torch.manual_seed(config.seed)
        self.model = build_model(config.model, len(corpus.vocabulary)).to(device)
        set_precision(self.model, config.training.precision, device)
        self.group = group if group is not None else Group()
        settings = config.training
        self.dropout = StateDropout(self.model, settings, config.seed)
        self.branching = BranchingBias(self.model, settings)
        refuse_without_rules(self.model, settings)
        self.average = WeightAverage(self.model, settings.ema_decay)
        self.step = Step(
            self.model,
            settings,
            0 if config.data.eos else 1,
            self.group,
            average=self.average,
            captured_shapes=settings.captured_shapes if capture else 0,
            timer=timer,
            note=reporter.note,
        )
        self.state = TrainingState()
        self.best_weights: dict[str, torch.Tensor] = {}
        self._lengths = [len(sentence) for sentence in corpus.train]
        self.curriculum = Curriculum(self._lengths, settings, config.seed)
        self._batches_an_epoch = 1
        self._tokens_this_epoch = self._tokens_after = 0
        self._rate = 0.0
        self._last_batch: Batch | None = None
        self._asked = False  # whether any of several processes was told to stop, as all of them know
        self._last_save = self._clock = time.monotonic()
        self._pace = Pace()
        self._writer = BackgroundWriter()
        self._skipped = SkippedBatches(folder.skipped, corpus.train, corpus.vocabulary, reporter.note)
        self._observer: Observer | None = None
        self._last_look = time.monotonic()

    def resume(self, checkpoint: Checkpoint) -> None:
        """Go on from a checkpoint; nothing in the folder changes yet."""
        restore(checkpoint, self.folder.checkpoint, self.model, self.step.optimizer, self.device)
        self.average.load(checkpoint.average, self.folder.checkpoint)
        self.step.update.restored()
        self.step.tally.load(checkpoint.state)
        self.state, self.best_weights = checkpoint.state, checkpoint.best_weights
        self._skipped.known = self.state.skipped_steps

    @property
    def stopped_by(self) -> str | None:
        """Why there is nothing left to do: "epochs", "patience", or None while there is."""
        return self.state.ended_by(self.config.training.epochs, self.config.training.patience)

    def run(self) -> None:
        """Train to the last epoch or until patience ends; raises Interrupted after a signal, all saved."""
        self.stop.defer()
        with ExitStack() as files:
            with self.group.together():
                self._metrics, self._timings = self._open_records(files)
            try:
                with side_stream(self.device):
                    while self.stopped_by is None:
                        self._train_epoch()
                        self._finish_epoch(self._validate())
            except BaseException as error:
                self._leave_writing(error)
                raise
            with self.group.guarded():
                self._writer.wait()
            self.group.agree()

    def _leave_writing(self, error: BaseException) -> None:
        """What is being written when training fails is finished, but not when it is to stop at once."""
        if isinstance(error, Interrupted) or not isinstance(error, Exception):
            self._writer.abandon()
            return
        try:
            self._writer.wait()
        except Exception as late:  # the first error is the one that training ends with
            self.reporter.note(f"besides, the checkpoint could not be written: {late}")

    def _open_records(self, files: ExitStack) -> tuple[JsonLines, JsonLines]:
        if not self.group.leads:
            return NoLines(), NoLines()
        metrics = files.enter_context(JsonLines(self.folder.metrics, keep=self.state.metrics_bytes))
        timings = files.enter_context(JsonLines(self.folder.timings))
        timings.write({"session": datetime.now(UTC).isoformat(), "step": self.state.step})
        return metrics, timings

    def _train_epoch(self) -> None:
        state = self.state
        batches = self.curriculum.batches(state.epoch)
        self._batches_an_epoch = len(batches)
        self._tokens_this_epoch = self.curriculum.tokens(state.epoch)
        self._tokens_after = self.curriculum.tokens_after(state.epoch)
        self.model.train()
        self._pace.go_on()
        for indices in batches[state.batch :]:
            self._rate = self.learning_rate()
            self._last_batch = collate(self.corpus.train, self.group.part(indices))
            self.dropout.draw(state.step)
            self._skipped.begin(state.step, indices)
            bias, asked = self.branching.at(state.step), self.stop.requested is not None
            self.step(self._last_batch, len(indices), self._rate, number=state.step, branching_bias=bias, stop=asked)
            state.batch += 1
            state.step += 1
            self._pace.begun(sum(map(self._lengths.__getitem__, indices)))
            self._follow()
            self._report_step()
            if self._checkpoint_due():
                self.save()
                self._pace.go_on()
            self._stop_if_asked()
        self._read()
        self._stop_if_asked()

    def _follow(self) -> None:
        """Keep the state near what the steps have added up to: exactly where that is free, a little late on a card."""
        step = self.state.step
        if self.device.type not in GLANCED_AT or step % self.config.training.log_every == 0:
            self._read()
        elif step % GLANCE_EVERY == 0:
            values = self.step.tally.glance()
            if values is not None:
                self._take(values, all_done=False)
            else:
                self._skipped.glanced()

    def _read(self) -> None:
        """Wait for the steps so far and take over their sums."""
        self._take(self.step.tally.read())

    def _take(self, values: list[float], all_done: bool = True) -> None:
        counters = mirror(values, self.state)
        self._pace.reached()
        if counters["failed"]:
            self.group.agree()  # raises, since someone holds a failure
        self._skipped.look(
            self.state.skipped_steps,
            counters["last_norm"],
            all_done=all_done,
            write=self.group.leads,
            stop=self.config.training.stop_at_skipped,
        )
        self._asked = counters["stop"] > 0
        if counters["longest_in_a_row"] >= MAX_SKIPPED_IN_A_ROW:
            raise NumericalError(
                f"{MAX_SKIPPED_IN_A_ROW} steps in a row without a finite gradient and a probability of at most 1 "
                f"(norm {counters['last_norm']}) by step {self.state.step}; {self._steadier()}"
            )

    def _steadier(self) -> str:
        """What to try where training has left the numbers' range: the networks' leaps are the likeliest reason."""
        settings = self.config.training
        advice = "lower training.learning_rate"
        if settings.network_lr_multiplier > STEADY_RATE and not getattr(self.config.model, "rms_norm", False):
            advice = f"set training.network_lr_multiplier={STEADY_RATE} or {advice}"
        if self.device.type != "cpu" and getattr(self.model, "precision", "fp32") != "fp32":
            advice += " or set training.precision=fp32"
        return advice

    def learning_rate(self) -> float:
        """The step size at the present position."""
        settings, state = self.config.training, self.state
        rate = settings.learning_rate
        if settings.schedule == "linear":
            done = (state.epoch + state.batch / self._batches_an_epoch) / settings.epochs
            rate *= 1 - done
        elif settings.schedule == "plateau":
            rate *= settings.plateau_factor**state.rate_reductions
        if state.step < settings.warmup_steps:
            rate *= (state.step + 1) / settings.warmup_steps
        return rate

    def _validate(self) -> PerplexityReport:
        sentences, group = self.corpus.valid, self.group
        found = torch.zeros(len(sentences) + 2, dtype=torch.float64)  # scores, and how the processes agree to end
        with group.guarded(), suppress(_AskedToStop), self.average.in_place():
            mine = log_likelihoods(
                self.model,
                group.part(sentences),
                self.device,
                self._between_batches,
                validation_precision(self.config.training.precision, self.device),
            )
            found[group.rank : len(sentences) : group.size] = mine
        found[-2], found[-1] = self.stop.requested is not None, group.held is not None
        group.add_up_on_host(found)
        if found[-1]:
            group.agree()
        self._asked = self._asked or bool(found[-2])
        self._stop_if_asked()
        return perplexity(found[:-2], [len(sentence) for sentence in sentences], self.config.data.eos)

    def _between_batches(self) -> None:
        """Leave the validation where it is: what is saved then are the weights themselves, not their average."""
        if self.stop.requested is not None:
            raise _AskedToStop

    def _finish_epoch(self, valid: PerplexityReport) -> None:
        """Record the epoch."""
        state, trained = self.state, self.state.this_epoch
        better = state.best is None or valid.rank > state.best.rank
        state.epoch, state.batch, state.this_epoch = state.epoch + 1, 0, Tally()
        self.step.tally.begin_epoch()
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
        if self.group.leads:
            with self.group.guarded():
                self._record_epoch(trained, valid, better)

    def _record_epoch(self, trained: Tally, valid: PerplexityReport, better: bool) -> None:
        state = self.state
        if better:
            self.best_weights = host_copy(self.average.weights())
        self._metrics.write(epoch_record(state, trained, valid, better))
        self._write_checkpoint(with_model=better)
        self._timings.write({"epoch": state.epoch, "step": state.step, "seconds": state.seconds})
        with self.average.in_place():
            self._look()
        settings = self.config.training
        self.reporter.epoch(
            EpochReport(
                epoch=state.epoch,
                epochs=settings.epochs,
                train_perplexity=trained.perplexity,
                valid=valid,
                best=better,
                epochs_without_gain=state.epochs_without_gain,
                patience=settings.patience,
                seconds=state.seconds,
            )
        )

    def _report_step(self) -> None:
        logged = self.state.step % self.config.training.log_every == 0
        if self.group.leads:
            with self.group.guarded():
                self._writer.check()
                self._record_step(logged)
        if logged:
            self.state.since_log = Tally()
            self.step.tally.begin_line()

    def _record_step(self, logged: bool) -> None:
        state, settings = self.state, self.config.training
        tally = state.since_log if state.since_log.steps else state.this_epoch
        rate = self._pace.words_per_second
        left = self._tokens_this_epoch * (1 - state.batch / self._batches_an_epoch) + self._tokens_after
        loss = tally.loss / max(tally.sentences, 1)
        report = StepReport(
            epoch=state.epoch + 1,
            epochs=settings.epochs,
            batch=state.batch,
            batches=self._batches_an_epoch,
            step=state.step,
            loss=loss,
            perplexity=tally.perplexity,
            words_per_second=rate,
            seconds_left=left / rate if rate else math.inf,
            logged=logged,
            gradient_norm=tally.gradient_norm / tally.steps if tally.steps else math.nan,
            learning_rate=self._rate,
            skipped_steps=state.skipped_steps,
        )
        if logged:
            record = step_record(state, self._rate)
            if settings.check_identity and self._last_batch is not None and len(self._last_batch):
                batch = self._last_batch.to(self.device)
                record["rule_count_ratio"] = rule_count_ratio(self.model, batch.words, batch.lengths)
                report = replace(report, rule_count_ratio=record["rule_count_ratio"])
            self._metrics.write(record)
            self._timings.write({"step": state.step, "seconds": self._elapsed(), "words_per_second": round(rate, 1)})
        self.reporter.step(report)
        if logged and time.monotonic() - self._last_look >= SNAPSHOT_SECONDS:
            self._look()

    def _look(self) -> None:
        """Show those who want it what the model makes of a few validation sentences."""
        if not self.reporter.wants_snapshots:
            return
        if self._observer is None:
            self._observer = Observer(self.corpus.valid, self.corpus.vocabulary)
        found = self._observer.look(self.model, self.device)
        if found is not None:
            self.reporter.snapshot(found)
        self._last_look = time.monotonic()

    def save(self) -> None:
        """Begin to write the checkpoint, if this is the process that does."""
        if self.group.leads:
            with self.group.guarded():
                self._write_checkpoint()

    def _write_checkpoint(self, with_model: bool = False) -> None:
        """Metrics go to disk first, because the checkpoint says how long they are; the model last, if it is a new best
        one, since it can be written again from the checkpoint. Training goes on while both are written.
        """
        self._writer.wait()  # before there is another copy of everything
        mirror(self.step.tally.read(), self.state)
        self.state.metrics_bytes, self.state.metrics_crc32 = self._metrics.sync()
        self.state.seconds = self._elapsed()
        self._clock = self._last_save = time.monotonic()
        checkpoint = capture(
            self.state,
            self.model,
            self.best_weights,
            self.step.optimizer,
            self.device,
            self.average.state(),
            self.corpus.vocabulary.checksum,
        )

        def write() -> None:
            checkpoint.save(self.folder.checkpoint, self._writer.renaming())
            if with_model:
                checkpoint.save_best(self.folder.model, self._writer.renaming())

        self._writer.write(write)

    def _elapsed(self) -> float:
        """Seconds since the run began, those of earlier sessions included."""
        return self.state.seconds + time.monotonic() - self._clock

    def _checkpoint_due(self) -> bool:
        settings = self.config.training
        by_steps = settings.checkpoint_steps and self.state.step % settings.checkpoint_steps == 0
        waited = time.monotonic() - self._last_save
        by_clock = settings.checkpoint_minutes and waited >= 60 * settings.checkpoint_minutes
        return bool(by_steps or by_clock)

    def _stop_if_asked(self) -> None:
        """Raises Interrupted, all saved; several processes do so after the same step."""
        if not (self._asked if self.group.size > 1 else self.stop.requested is not None):
            return
        self.save()
        with self.group.guarded():
            self._writer.wait()
        self.group.agree()
        number = self.group.largest(self.stop.requested or 0)
        raise Interrupted(
            f"stopped by {signal.Signals(number).name} after step {self.state.step}, all saved; "
            f"go on with: {self.folder.resume_command}",
            number,
        )
