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


class EventReporter(Reporter):
    """Base of reporters that turn reports into named values, which `_send` sends on.

    `directory` is the run's folder and `settings` its configuration, with which events are labelled. Raises InputError
    if the package `module` is missing.
    """

    wants_snapshots = True
    module, fix = "", ""  # the package, and how it is installed

    def __init__(self, directory: Path, settings: Record | None = None) -> None:
        try:
            installed = find_spec(self.module) is not None
        except ValueError:  # A module without a specification has been imported already.
            installed = True
        if not installed:
            raise InputError(f"these events need {self.module}, which is not installed; {self.fix}")
        self._directory, self._settings = directory, settings
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
    """Writes TensorBoard events into a folder of the run."""

    module, fix = "tensorboard", "pip install '.[log]' in a checkout"

    def _send(self, values: dict[str, float | str], step: int) -> None:
        if self._log is None:
            from torch.utils.tensorboard import SummaryWriter

            # Events that an interrupted session wrote after its last checkpoint are hidden: they are repeated now.
            self._log = SummaryWriter(str(self._directory / "tensorboard"), purge_step=step)
        for name, value in values.items():
            (self._log.add_text if isinstance(value, str) else self._log.add_scalar)(name, value, step)


class WandbReporter(EventReporter):
    """Sends events to Weights & Biases, whose own settings say where they go."""

    module, fix = "wandb", "pip install wandb"

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
        for reporter in self._reporters:
            reporter.note(text)

    def step(self, report: StepReport) -> None:
        for reporter in self._reporters:
            reporter.step(report)

    def snapshot(self, snapshot: Snapshot) -> None:
        for reporter in self._reporters:
            reporter.snapshot(snapshot)

    def epoch(self, report: EpochReport) -> None:
        for reporter in self._reporters:
            reporter.epoch(report)

    def close(self) -> None:
        for reporter in self._reporters:
            reporter.close()


LOGS = {"tensorboard": TensorBoardReporter, "wandb": WandbReporter}


def with_logs(
    shown: Reporter, logs: Sequence[str], directory: Path | None = None, settings: Record | None = None
) -> Reporter:
    """Return a reporter that also writes the event logs with these names, of `LOGS`.

    Raises InputError for an unknown log, a missing folder or a missing package.
    """
    if not logs:
        return shown
    if directory is None:
        raise InputError("events need the folder of a run; give one")
    for name in logs:
        if name not in LOGS:
            raise InputError(f"events for {name!r} are unknown; take one of {', '.join(LOGS)}")
    return CombinedReporter([shown, *(LOGS[name](directory, settings) for name in dict.fromkeys(logs))])
