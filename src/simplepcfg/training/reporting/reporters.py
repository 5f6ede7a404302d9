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
    shown = Reporter()
    if not quiet:
        from rich.console import Console

        console = Console(stderr=True, highlight=False)
        shown = LiveReporter(console) if console.is_terminal and not console.is_dumb_terminal else PlainReporter()
    return with_logs(shown, logs, directory, settings)
