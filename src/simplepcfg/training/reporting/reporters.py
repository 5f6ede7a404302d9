"""Which reporter a run gets: by where it runs, and by what else it is to be told."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from simplepcfg.errors import InputError
from simplepcfg.training.reporting.progress import PlainReporter, Reporter

LOGS = ("tensorboard", "wandb")


def make_reporter(
    quiet: bool = False,
    logs: Sequence[str] = (),
    directory: Path | None = None,
    settings: dict[str, Any] | None = None,
) -> Reporter:
    """Silence, a live display on a terminal, or plain lines; and events for each of `logs`.

    `directory` is the run's folder and `settings` its configuration, which events are labelled with.
    """
    shown = _for_a_person(quiet)
    if not logs:
        return shown
    from simplepcfg.training.reporting.event_logs import TensorBoardReporter, Together, WandbReporter

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
    return Together(reporters)


def _for_a_person(quiet: bool) -> Reporter:
    if quiet:
        return Reporter()
    from rich.console import Console

    console = Console(stderr=True, highlight=False)
    if not console.is_terminal or console.is_dumb_terminal:
        return PlainReporter()
    from simplepcfg.training.reporting.live_display import LiveReporter

    return LiveReporter(console)
