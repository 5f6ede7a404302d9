"""What a person sees of a run, always on standard error: a live line on a terminal, plain lines elsewhere."""

import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, TextIO

from simplepcfg.evaluation.perplexity import PerplexityReport

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import TaskID

REDRAW_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class StepReport:
    """Training at one moment; loss and perplexity are means since the last line of metrics."""

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

    def describe(self) -> str:
        """One line."""
        return (
            f"epoch {self.epoch}/{self.epochs}  step {self.step}  loss {self.loss:.2f} nats a sentence  "
            f"perplexity {self.perplexity:.1f}  {self.words_per_second:,.0f} words/s  "
            f"{duration(self.seconds_left)} left"
        )


@dataclass(frozen=True, slots=True)
class EpochReport:
    """The outcome of an epoch."""

    epoch: int  # from 1
    epochs: int
    train_perplexity: float
    valid: PerplexityReport
    best: bool
    epochs_without_gain: int
    patience: int
    seconds: float  # since the run began, earlier sessions included

    def describe(self) -> str:
        """One line."""
        if self.best:
            verdict = "best so far"
        else:
            limit = f" of {self.patience}" if self.patience else ""
            verdict = f"no gain for {self.epochs_without_gain}{limit} epochs"
        return (
            f"epoch {self.epoch}/{self.epochs}  train perplexity {self.train_perplexity:.2f}  "
            f"validation {self.valid.describe()}  {verdict}  {duration(self.seconds)}"
        )


class Reporter:
    """Says nothing; the base of the others and the quiet mode."""

    def note(self, text: str) -> None:
        """A remark about the run."""

    def step(self, report: StepReport) -> None:
        """After every step."""

    def epoch(self, report: EpochReport) -> None:
        """After every validation; checkpoint and model of the epoch may still be on their way to the disk."""

    def close(self) -> None:
        """Training ended, one way or another."""


class PlainReporter(Reporter):
    """One line an epoch and one whenever metrics are written: for files, pipes and batch systems."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream

    def note(self, text: str) -> None:
        """Print a remark."""
        print(text, file=self._stream or sys.stderr, flush=True)

    def step(self, report: StepReport) -> None:
        """Print a line where metrics got one."""
        if report.logged:
            self.note(report.describe())

    def epoch(self, report: EpochReport) -> None:
        """Print the epoch's outcome."""
        self.note(report.describe())


class LiveReporter(Reporter):
    """A bar that is redrawn in place, with epochs and remarks above it. Rich honours NO_COLOR."""

    def __init__(self, console: "Console | None" = None) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn

        self._progress = Progress(
            TextColumn("epoch {task.fields[epoch]}"),
            BarColumn(),
            TextColumn("{task.fields[status]}"),
            console=console or Console(stderr=True, highlight=False),
            transient=True,
            auto_refresh=False,
        )
        self._task: TaskID | None = None
        self._drawn = 0.0

    def note(self, text: str) -> None:
        """Print a remark above the bar."""
        self._progress.console.print(text, markup=False, highlight=False, soft_wrap=True)

    def step(self, report: StepReport) -> None:
        """Redraw, at most ten times a second."""
        now = time.monotonic()
        if now - self._drawn < REDRAW_SECONDS:
            return
        self._drawn = now
        if self._task is None:
            self._progress.start()
            self._task = self._progress.add_task("", total=1, epoch="", status="")
        self._progress.update(
            self._task,
            total=report.epochs * report.batches,
            completed=(report.epoch - 1) * report.batches + report.batch,
            epoch=f"{report.epoch}/{report.epochs}",
            status=f"loss {report.loss:.2f}  perplexity {report.perplexity:.1f}  "
            f"{report.words_per_second:,.0f} words/s  {duration(report.seconds_left)} left",
            refresh=True,
        )

    def epoch(self, report: EpochReport) -> None:
        """Print the epoch's outcome above the bar."""
        self.note(report.describe())

    def close(self) -> None:
        """Take the bar away and leave the lines."""
        if self._task is not None:
            self._progress.stop()
            self._task = None


def make_reporter(quiet: bool = False) -> Reporter:
    """Silence, a live bar on a terminal, or plain lines."""
    if quiet:
        return Reporter()
    from rich.console import Console

    console = Console(stderr=True, highlight=False)
    return LiveReporter(console) if console.is_terminal and not console.is_dumb_terminal else PlainReporter()


def duration(seconds: float) -> str:
    """1:02:03 or 2:03."""
    if not 0 <= seconds < float("inf"):
        return "?"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
