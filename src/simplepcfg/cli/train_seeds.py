"""How `train` trains several seeds of one configuration, and what it says of them."""

import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from simplepcfg.cli.output import note
from simplepcfg.errors import InputError

if TYPE_CHECKING:
    from simplepcfg.runs.config.schema import RunConfig
    from simplepcfg.training.start import TrainingResult


def holds_seeds(folder: Path) -> bool:
    """Return whether the folder holds runs of several seeds."""
    from simplepcfg.training.seeds import SeedsFolder

    return SeedsFolder(folder).exists()


def score_of(result: "TrainingResult") -> str:
    """Return the validation perplexity of a run's best epoch."""
    return "infinite" if result.best.perplexity is None else f"{result.best.perplexity:.2f}"


def train_runs(
    config: "RunConfig | None",
    directory: Path,
    seeds: int,
    changes: Sequence[str],
    device: str,
    jobs: int | None,
    logs: Sequence[str],
    quiet: bool,
) -> None:
    """Train a run for each seed, or go on with those in the folder, and print a line for each."""
    from simplepcfg.training.reporting.reporters import make_reporter
    from simplepcfg.training.seeds import train_seeds

    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise InputError("torchrun's processes share one run; train several seeds without it, with --jobs K")
    if config is not None and config.data.train == "-":
        raise InputError("--train - can be read once, and --seeds reads it for each run; save it to a file")
    if config is not None and config.data.valid is None:
        note("no --valid: each run holds out sentences of its own, so their perplexities are not comparable", quiet)
    outcomes = train_seeds(
        config,
        directory,
        seeds,
        overrides=changes,
        device=device,
        jobs=1 if jobs is None else jobs,
        logs=logs,
        make_reporter=lambda folder, settings: make_reporter(quiet, logs, folder, settings.model_dump()),
        note=lambda text: note(text, quiet),
    )
    for outcome in outcomes:
        if outcome.result is not None:
            place = f"best epoch {outcome.result.best.epoch} of {outcome.result.epochs}"
            note(f"seed-{outcome.seed}: {place}, validation perplexity {score_of(outcome.result)}", quiet)
    quoted = shlex.quote(str(directory))
    note(f"the runs are in {directory}; next: simplepcfg evaluate {quoted} FILE --ensemble", quiet)
