"""Live display of training on a terminal: a plot, the present numbers, a sample parse and a progress bar."""

from __future__ import annotations

import time
from textwrap import wrap
from typing import TYPE_CHECKING

from simplepcfg.drawing.text_plot import text_plot
from simplepcfg.drawing.text_trees import draw_tree, nested_words
from simplepcfg.runs.history import duration
from simplepcfg.training.reporting.progress import EpochReport, Reporter, StepReport
from simplepcfg.training.reporting.snapshot import Snapshot

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

REDRAW_SECONDS = 0.1
PLOT_WIDTH, PLOT_HEIGHT = 44, 6
WIDE = 100  # columns from which the sample parse is drawn beside the plot, and not as brackets below it
MOST_POINTS = 4000
BEGINNING = 8  # one of so many points of the plot is left out, from the beginning


class LiveReporter(Reporter):
    """Redraws a display in place, with epochs and remarks above it; Rich honours NO_COLOR."""

    wants_snapshots = True

    def __init__(self, console: Console | None = None) -> None:
        from rich.console import Console
        from rich.live import Live

        self._console = console or Console(stderr=True, highlight=False)
        self._live = Live(console=self._console, transient=True, auto_refresh=False, vertical_overflow="crop")
        self._drawn = 0.0
        self._points: list[float] = []
        self._step: StepReport | None = None
        self._epoch: EpochReport | None = None
        self._snapshot: Snapshot | None = None

    def note(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)

    def step(self, report: StepReport) -> None:
        if report.logged:
            self._points.append(report.perplexity)
            if len(self._points) > MOST_POINTS:
                self._points = self._points[::2]
        self._step = report
        now = time.monotonic()
        if now - self._drawn < REDRAW_SECONDS:
            return
        self._drawn = now
        self._live.start()  # at the first step; later calls do nothing
        self._live.update(self._display(report), refresh=True)

    def snapshot(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot

    def epoch(self, report: EpochReport) -> None:
        self._epoch = report
        lines = wrap(report.describe(), self._console.width, subsequent_indent="  ", break_long_words=False)
        self.note("\n".join(lines))

    def close(self) -> None:
        self._live.stop()

    def _display(self, report: StepReport) -> RenderableType:
        from rich.console import Group
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        # Without the steep beginning, beside which all that follows is flat.
        points = self._points[len(self._points) // BEGINNING :]
        lines = [*text_plot(points, PLOT_WIDTH, PLOT_HEIGHT), *self._numbers(report)]
        tree = self._snapshot.tree if self._snapshot is not None else None
        if tree is not None and self._console.width < WIDE:
            lines += wrap(f"sample parse {nested_words(tree)}", self._console.width, subsequent_indent="  ")
        plot = Text("\n".join(lines), no_wrap=True)
        upper: RenderableType = plot
        if tree is not None and self._console.width >= WIDE:
            parse = Text("\n".join(["sample parse", *draw_tree(tree)]), no_wrap=True)
            upper = Table.grid(padding=(0, 4))
            upper.add_row(plot, parse)
        bar = Table.grid(padding=(0, 1))
        done = (report.epoch - 1) * report.batches + report.batch
        bar.add_row(
            f"epoch {report.epoch}/{report.epochs}",
            ProgressBar(total=report.epochs * report.batches, completed=done, width=30),
            f"{report.words_per_second:,.0f} words/s  {duration(report.seconds_left)} left",
        )
        return Group(upper, bar)

    def _numbers(self, report: StepReport) -> list[str]:
        """Return lines with the present numbers and their names."""
        lines = [f"training perplexity {report.perplexity:.1f}, loss {report.loss:.2f} nats a sentence"]
        if self._epoch is not None:
            lines.append(f"validation perplexity {self._epoch.valid.perplexity:.2f} after epoch {self._epoch.epoch}")
        health = [f"gradient norm {report.gradient_norm:.2f}", f"skipped steps {report.skipped_steps:,}"]
        snapshot = self._snapshot
        if snapshot is not None and snapshot.identity is not None:
            health.append(f"span marginals / (n − 1) {snapshot.identity:.4f}")
        lines.append(", ".join(health))
        if snapshot is not None and snapshot.symbols_in_use is not None:
            lines.append(f"nonterminals in use about {snapshot.symbols_in_use:.1f} of {snapshot.symbols:,}")
        return lines
