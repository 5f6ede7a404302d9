"""Choice of the reporter of a run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from simplepcfg.files import Record
from simplepcfg.training.reporting.event_logs import with_logs
from simplepcfg.training.reporting.live_display import LiveReporter
from simplepcfg.training.reporting.progress import PlainReporter, Reporter


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
    return with_logs(_console_reporter(quiet), logs, directory, settings)


def _console_reporter(quiet: bool) -> Reporter:
    if quiet:
        return Reporter()
    from rich.console import Console

    console = Console(stderr=True, highlight=False)
    return PlainReporter() if not console.is_terminal or console.is_dumb_terminal else LiveReporter(console)
