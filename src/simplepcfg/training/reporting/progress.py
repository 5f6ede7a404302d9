"""Reports of training steps and epochs: as plain lines, as records of metrics.jsonl, and their throughput."""

import math
import sys
import time
from dataclasses import dataclass

from simplepcfg.errors import counted
from simplepcfg.evaluation.perplexity import PerplexityReport
from simplepcfg.files import Record
from simplepcfg.runs.checkpoint import TrainingState
from simplepcfg.runs.history import duration
from simplepcfg.training.reporting.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class StepReport:
    """Progress after one step; loss and perplexity are means since the last line of metrics."""

    epoch: int  # from 1
    epochs: int
    batch: int
    batches: int
    step: int
    loss: float  # nats a sentence
    perplexity: float
    words_per_second: float
    seconds_left: float  # to the end of the last epoch, validation included in neither rate nor rest
    logged: bool  # whether this step also wrote a line of metrics
    gradient_norm: float = math.nan  # before clipping; mean since the last line of metrics
    learning_rate: float = math.nan
    skipped_steps: int = 0  # since the run began
    rule_count_ratio: float | None = None  # with training.check_identity, where metrics are written

    def describe(self) -> str:
        """Return the report as one line."""
        return (
            f"epoch {self.epoch}/{self.epochs}  step {self.step}  loss {self.loss:.2f} nats a sentence  "
            f"perplexity {self.perplexity:.1f}  gradient norm {self.gradient_norm:.2f}  "
            f"{self.words_per_second:,.0f} words/s  {duration(self.seconds_left)} left"
        )


@dataclass(frozen=True, slots=True)
class EpochReport:
    """Result of one epoch."""

    epoch: int  # from 1
    epochs: int
    train_perplexity: float
    valid: PerplexityReport
    best: bool
    epochs_without_gain: int
    patience: int
    seconds: float  # since the run began, earlier sessions included

    def describe(self) -> str:
        """Return the report as one line."""
        if self.best:
            verdict = "best so far"
        else:
            epochs = counted(self.epochs_without_gain, "epoch")
            verdict = f"no gain for {epochs}" + (f", the limit is {self.patience}" if self.patience else "")
        return (
            f"epoch {self.epoch}/{self.epochs}  train perplexity {self.train_perplexity:.2f}  "
            f"validation {self.valid.describe()}  {verdict}  {duration(self.seconds)} elapsed"
        )


class Reporter:
    """Reports nothing; the base class of the other reporters.

    `train` calls these methods; override those that you need.
    """

    # Whether `snapshot` is called; taking a snapshot of the model costs a little time.
    wants_snapshots = False

    def note(self, text: str) -> None:
        """Report a remark about the run."""

    def step(self, report: StepReport) -> None:
        """Report a step; called after every one."""

    def snapshot(self, snapshot: Snapshot) -> None:
        """Report a snapshot; called before the report of every epoch and now and then within long epochs."""

    def epoch(self, report: EpochReport) -> None:
        """Report an epoch; called after its validation, while its checkpoint and model may still be being written."""

    def close(self) -> None:
        """Finish; called when training ends, by an error, too."""


FIRST_LINE_SECONDS = 10.0


class PlainReporter(Reporter):
    """Prints a line an epoch and one whenever metrics are written, to standard error; the first within ten seconds."""

    def __init__(self) -> None:
        self._first = math.nan  # when the first line is due

    def note(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    def step(self, report: StepReport) -> None:
        now = time.monotonic()
        if math.isnan(self._first):
            self._first = now + FIRST_LINE_SECONDS
        if report.logged or (now >= self._first and report.words_per_second):
            self._first = math.inf
            self.note(report.describe())

    def epoch(self, report: EpochReport) -> None:
        self.note(report.describe())


class Throughput:
    """Words per second of training alone, up to the last moment when the device was known to be idle."""

    def __init__(self) -> None:
        self._seconds, self._words, self._launched = 0.0, 0, 0
        self._since = time.monotonic()

    def resume(self) -> None:
        """Start the clock, at the beginning or after validation or a checkpoint."""
        self._since = time.monotonic()

    def add_words(self, words: int) -> None:
        """Count the words of a step that has been launched."""
        self._launched += words

    def finish_words(self) -> None:
        """Count the words launched so far as done."""
        now = time.monotonic()
        self._seconds, self._since = self._seconds + now - self._since, now
        self._words, self._launched = self._words + self._launched, 0

    @property
    def words_per_second(self) -> float:
        """Words per second; 0 as long as no step is known to be done."""
        return self._words / self._seconds if self._seconds else 0.0


def step_record(state: TrainingState, learning_rate: float) -> Record:
    """Return the record of the steps since the last line: means, counters and the present learning rate."""
    sums = state.since_log
    return {
        "kind": "steps",
        "epoch": state.epoch + 1,
        "step": state.step,
        "loss_nats_per_sentence": sums.loss / sums.sentences if sums.sentences else math.nan,
        "perplexity": sums.perplexity,
        "tokens": sums.tokens,
        "gradient_norm": sums.gradient_norm / sums.steps if sums.steps else math.nan,
        "learning_rate": learning_rate,
        "skipped_steps": state.skipped_steps,
        "impossible_sentences": state.impossible_sentences,
    }


def epoch_record(report: EpochReport, state: TrainingState, snapshot: Snapshot | None) -> Record:
    """Return the record of the epoch that `state` has just finished."""
    tree, valid = None if snapshot is None else snapshot.tree, report.valid
    return {
        "kind": "epoch",
        "epoch": report.epoch,
        "step": state.step,
        "train_perplexity": report.train_perplexity,
        "valid_log_likelihood_nats": valid.log_likelihood,
        "valid_tokens": valid.tokens,
        "valid_perplexity": valid.perplexity,
        "valid_sentences": valid.sentences,
        "valid_impossible": valid.impossible,
        "best": report.best,
        "skipped_steps": state.skipped_steps,
        "sample_parse": None if tree is None else tree.to_brackets(),
    }
