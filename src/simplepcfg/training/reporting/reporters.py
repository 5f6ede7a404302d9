"""Choice of the reporter of a run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from simplepcfg.errors import InputError
from simplepcfg.files import Record
from simplepcfg.training.reporting.progress import PlainReporter, Reporter

LOGS = ("tensorboard", "wandb")


def make_reporter(
    quiet: bool = False,
    logs: Sequence[str] = (),
    directory: Path | None = None,
    settings: Record | None = None,
) -> Reporter:
    """Return a reporter: none if `quiet`, a live display on a terminal, else plain lines; plus event logs.

    `logs` names event logs, "tensorboard" or "wandb". `directory` is the run's folder and `settings` its
    configuration, with which events are labelled. Raises InputError for an unknown log or a missing package.
    """
    shown = _console_reporter(quiet)
    if not logs:
        return shown
    from simplepcfg.training.reporting.event_logs import CombinedReporter, TensorBoardReporter, WandbReporter

    if directory is None:
        raise InputError("events need the folder of a run; give one")
    reporters = [shown]
    for name in dict.fromkeys(logs):
        if name == "tensorboard":
            reporters.append(TensorBoardReporter(directory))
        elif name == "wandb":
            reporters.append(WandbReporter(directory, settings))
        else:
            raise InputError(f"events for {name!r} are unknown; take one of {', '.join(LOGS)}")
    return CombinedReporter(reporters)


def _console_reporter(quiet: bool) -> Reporter:
    if quiet:
        return Reporter()
    from rich.console import Console

    console = Console(stderr=True, highlight=False)
    if not console.is_terminal or console.is_dumb_terminal:
        return PlainReporter()
    from simplepcfg.training.reporting.live_display import LiveReporter

    return LiveReporter(console)
