"""Training history of a run: its recorded metrics by epoch and by step."""

from __future__ import annotations

import json
import math
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from simplepcfg.files import Record
from simplepcfg.runs.run_folder import RunFolder


@dataclass(frozen=True, slots=True)
class TrainingHistory:
    """Points of learning curves; empty for a run that was saved without its metrics."""

    steps: list[Record] = field(default_factory=list)  # lines of metrics.jsonl, see docs/runs.md
    epochs: list[Record] = field(default_factory=list)
    seconds: float | None = None  # of training, all sessions together

    def by_epoch(self, key: str) -> list[tuple[float, float]]:
        """Return (epoch, value) pairs of one key of the epochs' lines; NaN where it is missing."""
        return [(float(line["epoch"]), _number(line.get(key))) for line in self.epochs]

    def by_step(self, key: str) -> list[tuple[float, float]]:
        """Return (epoch as a fraction, value) pairs of one key of the steps' lines; NaN where it is missing."""
        if not self.steps:
            return []
        last = self.epochs[-1] if self.epochs else self.steps[-1]
        an_epoch = last["step"] / max(last["epoch"], 1)
        return [(line["step"] / max(an_epoch, 1), _number(line.get(key))) for line in self.steps]


def read_history(directory: Path | None) -> TrainingHistory:
    """Read the metrics of a run folder; skip lines that cannot be read, since only figures depend on them."""
    if directory is None:
        return TrainingHistory()
    folder = RunFolder(directory)
    lines, timed = _lines(folder, folder.metrics), _lines(folder, folder.timings)
    timings = [line["seconds"] for line in timed if isinstance(line.get("seconds"), int | float)]
    return TrainingHistory(
        [line for line in lines if line.get("kind") == "steps" and "step" in line],
        [line for line in lines if line.get("kind") == "epoch" and "epoch" in line and "step" in line],
        timings[-1] if timings else None,
    )


def _lines(folder: RunFolder, path: Path) -> list[Record]:
    if not folder.is_own(path):  # a pipe would be waited for
        return []
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        return []
    records = []
    for line in text.splitlines():
        with suppress(ValueError):
            records.append(json.loads(line))
    return [record for record in records if isinstance(record, dict)]


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else math.nan


def duration(seconds: float) -> str:
    """Return a duration as "1:02:03" or "2:03", and "?" where it is unknown."""
    if not 0 <= seconds < float("inf"):
        return "?"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
