"""Event logs of training for TensorBoard and Weights & Biases."""

from __future__ import annotations

import math
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from simplepcfg.errors import InputError
from simplepcfg.files import Record
from simplepcfg.training.reporting.progress import EpochReport, Reporter, StepReport
from simplepcfg.training.reporting.snapshot import Snapshot

TENSORBOARD_FOLDER = "tensorboard"


class EventReporter(Reporter):
    """Base of reporters that turn reports into named values, which `_send` sends on."""

    wants_snapshots = True

    def __init__(self) -> None:
        self._at = 0  # the last reported step
        self._log: Any = None

    def step(self, report: StepReport) -> None:
        self._at = report.step
        if report.logged:
            values: dict[str, float | str] = {
                "training/perplexity": report.perplexity,
                "training/loss_nats_per_sentence": report.loss,
                "training/gradient_norm": report.gradient_norm,
                "training/learning_rate": report.learning_rate,
                "training/skipped_steps": float(report.skipped_steps),
                "training/words_per_second": report.words_per_second,
            }
            if report.rule_count_ratio is not None:
                values["health/rule_count_ratio"] = report.rule_count_ratio
            self._write(values, report.step)

    def snapshot(self, snapshot: Snapshot) -> None:
        values: dict[str, float | str] = {}
        if snapshot.identity is not None:
            values["health/span_marginals_over_n_minus_1"] = snapshot.identity
        if snapshot.symbols_in_use is not None:
            values["symbols/nonterminals_in_use"] = snapshot.symbols_in_use
        if snapshot.tree is not None:
            values["sample_parse"] = snapshot.tree.to_brackets()
        self._write(values, self._at)

    def epoch(self, report: EpochReport) -> None:
        values: dict[str, float | str] = {
            "validation/perplexity": report.valid.perplexity,
            "training/epoch_perplexity": report.train_perplexity,
            "training/epoch": float(report.epoch),
        }
        self._write(values, self._at)

    def close(self) -> None:
        if self._log is not None:
            self._log.close()
            self._log = None

    def _write(self, values: dict[str, float | str], step: int) -> None:
        shown = {name: value for name, value in values.items() if isinstance(value, str) or math.isfinite(value)}
        if shown:
            self._send(shown, step)

    def _send(self, values: dict[str, float | str], step: int) -> None:
        """Send numbers and texts on; the first call opens `_log`, so that a run which is refused leaves none."""
        raise NotImplementedError


class TensorBoardReporter(EventReporter):
    """Writes TensorBoard events into a folder of the run. Raises InputError if a package is missing."""

    def __init__(self, directory: Path) -> None:
        super().__init__()
        _require("tensorboard", extra="log")
        self._directory = directory / TENSORBOARD_FOLDER

    def _send(self, values: dict[str, float | str], step: int) -> None:
        if self._log is None:
            from torch.utils.tensorboard import SummaryWriter

            # Events that an interrupted session wrote after its last checkpoint are hidden: they are repeated now.
            self._log = SummaryWriter(str(self._directory), purge_step=step)
        for name, value in values.items():
            (self._log.add_text if isinstance(value, str) else self._log.add_scalar)(name, value, step)


class WandbReporter(EventReporter):
    """Sends events to Weights & Biases, whose own settings say where they go; `settings` labels the run.

    Raises InputError if a package is missing.
    """

    def __init__(self, directory: Path, settings: Record | None = None) -> None:
        super().__init__()
        _require("wandb", extra=None)
        self._directory, self._settings = directory, settings

    def _send(self, values: dict[str, float | str], step: int) -> None:
        if self._log is None:
            import wandb

            self._log = wandb.init(project="simplepcfg", name=self._directory.name, config=self._settings or {})
        self._log.log(values, step=step)

    def close(self) -> None:
        if self._log is not None:
            self._log.finish()
            self._log = None


class CombinedReporter(Reporter):
    """Passes every report on to several reporters."""

    def __init__(self, reporters: Sequence[Reporter]) -> None:
        self._reporters = list(reporters)
        self.wants_snapshots = any(reporter.wants_snapshots for reporter in reporters)

    def note(self, text: str) -> None:
        self._tell("note", text)

    def step(self, report: StepReport) -> None:
        self._tell("step", report)

    def snapshot(self, snapshot: Snapshot) -> None:
        self._tell("snapshot", snapshot)

    def epoch(self, report: EpochReport) -> None:
        self._tell("epoch", report)

    def close(self) -> None:
        self._tell("close")

    def _tell(self, method: str, *what: object) -> None:
        for reporter in self._reporters:
            getattr(reporter, method)(*what)


def _require(module: str, extra: str | None) -> None:
    try:
        installed = find_spec(module) is not None
    except ValueError:  # A module without a specification has been imported already.
        installed = True
    if not installed:
        fix = f"pip install '.[{extra}]' in a checkout" if extra else f"pip install {module}"
        raise InputError(f"these events need {module}, which is not installed; {fix}")
