"""The two ways to get a Run: fit one to text, or load one from its folder."""

from __future__ import annotations

import json
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from simplepcfg.errors import InputError
from simplepcfg.run import Run
from simplepcfg.training.config import RunConfig
from simplepcfg.training.config_files import load_config
from simplepcfg.training.corpus import TextSource
from simplepcfg.training.loop import train as train_run
from simplepcfg.training.progress import Reporter, make_reporter
from simplepcfg.training.run_folder import load_run

DEFAULT_CONFIG = "sn-pcfg-small"


def fit(
    train: TextSource,
    valid: TextSource | None = None,
    *,
    config: str | PathLike[str] | RunConfig = DEFAULT_CONFIG,
    settings: Mapping[str, Any] | None = None,
    out: str | PathLike[str] | None = None,
    device: str = "auto",
    verbose: bool = False,
) -> Run:
    """Learn a grammar from text: a file, or sentences as strings or lists of words.

    `config` is a built-in name, a TOML file or a RunConfig; `settings` changes single keys of it. The run is
    kept in the folder `out`, or in memory only (see `Run.save`). Without `valid`, 5 % of the sentences are
    held out.

        run = fit(["the dog barks", ...], settings={"model.nonterminals": 8, "training.epochs": 3})
    """
    overrides = [f"{key}={json.dumps(value)}" for key, value in (settings or {}).items()]
    if isinstance(config, RunConfig):
        if overrides:
            raise InputError(f"settings {overrides[0]} beside a RunConfig; put it into the RunConfig")
        chosen = config
    else:
        chosen = load_config(Path(config) if isinstance(config, PathLike) else config, overrides)
    reporter = make_reporter() if verbose else Reporter()
    if out is not None:
        train_run(chosen, Path(out), device=device, reporter=reporter, train_text=train, valid_text=valid)
        return load(out, device)
    with TemporaryDirectory(prefix="simplepcfg-") as folder:
        train_run(chosen, Path(folder), device=device, reporter=reporter, train_text=train, valid_text=valid)
        run = load(folder, device)
    run.directory = None
    return run


def load(directory: str | PathLike[str], device: str = "auto") -> Run:
    """The best model of a run folder, ready to score, parse and evaluate."""
    loaded = load_run(Path(directory), device)
    return Run(loaded.model, loaded.vocabulary, loaded.config, directory=loaded.directory, best=loaded.best)
