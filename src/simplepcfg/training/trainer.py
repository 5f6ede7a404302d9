"""The loop itself: steps, validation, checkpoints. It knows nothing of where text comes from."""

import math
import signal
import time
from datetime import UTC, datetime
from typing import Any

import torch

from simplepcfg.data.batching import Batch, collate, training_batches
from simplepcfg.errors import NumericalError
from simplepcfg.evaluation.likelihood import log_likelihoods
from simplepcfg.evaluation.perplexity import PerplexityReport, perplexity
from simplepcfg.models import build_model
from simplepcfg.training.checkpoint import Best, Checkpoint, Tally, TrainingState, capture, restore
from simplepcfg.training.config import RunConfig
from simplepcfg.training.corpus import Corpus
from simplepcfg.training.device import set_precision
from simplepcfg.training.metrics import JsonLines
from simplepcfg.training.progress import EpochReport, Reporter, StepReport
from simplepcfg.training.run_folder import RunFolder
from simplepcfg.training.signals import Interrupted, StopSignals
from simplepcfg.training.tensor_files import host_copy, write_tensor_file

MAX_SKIPPED_IN_A_ROW = 20


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
    ) -> None:
        self.config, self.folder, self.corpus, self.device = config, folder, corpus, device
        self.reporter, self.stop = reporter, stop
        torch.manual_seed(config.seed)
        self.model = build_model(config.model, len(corpus.vocabulary)).to(device)
        set_precision(self.model, config.training.precision, device)
        settings = config.training
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=settings.learning_rate, betas=settings.betas)
        self.state = TrainingState()
        self.best_weights: dict[str, torch.Tensor] = {}
        self._lengths = [len(sentence) for sentence in corpus.train]
        self._batches_an_epoch = 1
        self._last_save = self._clock = time.monotonic()
        self._trained_seconds, self._trained_tokens = 0.0, 0

    def resume(self, checkpoint: Checkpoint) -> None:
        """Go on from a checkpoint, and make model.safetensors agree with it."""
        restore(checkpoint, self.folder.checkpoint, self.model, self.optimizer, self.device)
        self.state, self.best_weights = checkpoint.state, checkpoint.best_weights
        self._export_best()

    @property
    def stopped_by(self) -> str | None:
        """Why there is nothing left to do: "epochs", "patience", or None while there is."""
        patience = self.config.training.patience
        if patience and self.state.epochs_without_gain >= patience:
            return "patience"
        return "epochs" if self.state.epoch >= self.config.training.epochs else None

    def run(self) -> None:
        """Train to the last epoch or until patience ends; raises Interrupted after a signal, all saved."""
        self.stop.defer()
        with (
            JsonLines(self.folder.metrics, keep=self.state.metrics_bytes) as self._metrics,
            JsonLines(self.folder.timings) as self._timings,
        ):
            self._timings.write({"session": datetime.now(UTC).isoformat(), "step": self.state.step})
            while self.stopped_by is None:
                self._train_epoch()
                self._finish_epoch(self._validate())

    def _train_epoch(self) -> None:
        settings, state = self.config.training, self.state
        batches = training_batches(self._lengths, settings.batch_size, self.config.seed, state.epoch)
        self._batches_an_epoch = len(batches)
        self.model.train()
        for indices in batches[state.batch :]:
            began = time.monotonic()
            self._step(collate(self.corpus.train, indices))
            state.batch += 1
            state.step += 1
            self._trained_seconds += time.monotonic() - began
            self._trained_tokens += sum(map(self._lengths.__getitem__, indices))
            self._report_step()
            if self._checkpoint_due():
                self.save()
            self._stop_if_asked()

    def _step(self, batch: Batch) -> None:
        """One update by the mean negative log-likelihood a sentence; none if its gradient is not finite."""
        settings, state = self.config.training, self.state
        for group in self.optimizer.param_groups:
            group["lr"] = self.learning_rate()
        self.optimizer.zero_grad(set_to_none=True)
        losses = self.model.loss(batch.words.to(self.device), batch.lengths)  # [B]
        # A sentence of probability zero has no gradient; the others of its batch still teach.
        possible = ~torch.isposinf(losses)
        torch.where(possible, losses, 0.0).sum().div(len(batch)).backward()
        norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), settings.clip or math.inf)
        *values, gradient_norm = torch.cat([losses.detach().double(), norm.double().reshape(1)]).tolist()
        end = 0 if self.config.data.eos else 1
        counted = [
            (value, length + end)
            for value, length in zip(values, batch.lengths.tolist(), strict=True)
            if value != math.inf
        ]
        state.impossible_sentences += len(values) - len(counted)
        loss, tokens = sum(value for value, _ in counted), sum(count for _, count in counted)
        if not counted or not math.isfinite(loss + gradient_norm):
            self._skip_step(gradient_norm)
            return
        self.optimizer.step()
        state.skipped_in_a_row = 0
        for tally in (state.since_log, state.this_epoch):
            tally.add(loss, tokens, len(counted), gradient_norm)

    def _skip_step(self, gradient_norm: float) -> None:
        """Leave weights and moments alone: Adam would move even on a gradient of zeros."""
        self.state.skipped_steps += 1
        self.state.skipped_in_a_row += 1
        if self.state.skipped_in_a_row >= MAX_SKIPPED_IN_A_ROW:
            exact = self.device.type == "cpu" or getattr(self.model, "precision", "fp32") == "fp32"
            raise NumericalError(
                f"{MAX_SKIPPED_IN_A_ROW} steps in a row without a finite loss and gradient "
                f"(norm {gradient_norm}) at step {self.state.step}; lower training.learning_rate"
                + ("" if exact else " or set training.precision=fp32")
            )

    def learning_rate(self) -> float:
        """The step size at the present position."""
        settings, state = self.config.training, self.state
        rate = settings.learning_rate
        if settings.schedule == "linear":
            done = (state.epoch + state.batch / self._batches_an_epoch) / settings.epochs
            rate *= 1 - done
        if state.step < settings.warmup_steps:
            rate *= (state.step + 1) / settings.warmup_steps
        return rate

    def _validate(self) -> PerplexityReport:
        scores = log_likelihoods(self.model, self.corpus.valid, self.device, self._stop_if_asked)
        lengths = [len(sentence) for sentence in self.corpus.valid]
        return perplexity(scores, lengths, self.config.data.eos)

    def _finish_epoch(self, valid: PerplexityReport) -> None:
        """Record the epoch; the checkpoint first, since model.safetensors can be written again from it."""
        state, trained = self.state, self.state.this_epoch
        better = state.best is None or valid.rank > state.best.rank
        state.epoch, state.batch, state.this_epoch = state.epoch + 1, 0, Tally()
        state.epochs_without_gain = 0 if better else state.epochs_without_gain + 1
        if better:
            state.best = Best(
                epoch=state.epoch,
                step=state.step,
                log_likelihood=valid.log_likelihood,
                tokens=valid.tokens,
                perplexity=valid.perplexity if math.isfinite(valid.perplexity) else None,
                impossible=valid.impossible,
            )
            self.best_weights = host_copy(self.model.state_dict())
        self._metrics.write(
            {
                "kind": "epoch",
                "epoch": state.epoch,
                "step": state.step,
                "train_perplexity": trained.perplexity,
                "valid_log_likelihood_nats": valid.log_likelihood,
                "valid_tokens": valid.tokens,
                "valid_perplexity": valid.perplexity,
                "valid_sentences": valid.sentences,
                "valid_impossible": valid.impossible,
                "best": better,
                "skipped_steps": state.skipped_steps,
            }
        )
        self.save()
        if better:
            self._export_best()
        self._timings.write({"epoch": state.epoch, "step": state.step, "seconds": state.seconds})
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
        state, settings = self.state, self.config.training
        logged = state.step % settings.log_every == 0
        tally = state.since_log if state.since_log.steps else state.this_epoch
        rate = self._trained_tokens / max(self._trained_seconds, 1e-9)
        left = settings.epochs - state.epoch - state.batch / self._batches_an_epoch
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
            seconds_left=left * sum(self._lengths) / rate,
            logged=logged,
        )
        if logged:
            self._metrics.write(self._step_record(state.since_log))
            self._timings.write({"step": state.step, "seconds": self._elapsed(), "words_per_second": round(rate, 1)})
            state.since_log = Tally()
        self.reporter.step(report)

    def _step_record(self, tally: Tally) -> dict[str, Any]:
        return {
            "kind": "steps",
            "epoch": self.state.epoch + 1,
            "step": self.state.step,
            "loss_nats_per_sentence": tally.loss / tally.sentences if tally.sentences else math.nan,
            "perplexity": tally.perplexity,
            "tokens": tally.tokens,
            "gradient_norm": tally.gradient_norm / tally.steps if tally.steps else math.nan,
            "learning_rate": self.optimizer.param_groups[0]["lr"],
            "skipped_steps": self.state.skipped_steps,
            "impossible_sentences": self.state.impossible_sentences,
        }

    def save(self) -> None:
        """Write the checkpoint; metrics go to disk first, because it says how long they are."""
        self.state.metrics_bytes = self._metrics.sync()
        self.state.seconds = self._elapsed()
        self._clock = self._last_save = time.monotonic()
        checkpoint = capture(self.state, self.model, self.best_weights, self.optimizer, self.device)
        checkpoint.save(self.folder.checkpoint)

    def _export_best(self) -> None:
        if self.state.best is not None:
            write_tensor_file(self.folder.model, self.best_weights, self.state.best.model_dump())

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
        number = self.stop.requested
        if number is None:
            return
        self.save()
        raise Interrupted(
            f"stopped by {signal.Signals(number).name} after step {self.state.step}, all saved; "
            f"go on with: {self.folder.resume_command}",
            number,
        )
