"""`fit`: train a grammar on text and load it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from os import PathLike, fspath
from pathlib import Path
from signal import Signals
from tempfile import TemporaryDirectory
from typing import Any

from simplepcfg.data.raw_text import split_raw
from simplepcfg.data.readers import file_name
from simplepcfg.data.tokens import TextSource
from simplepcfg.errors import InputError
from simplepcfg.inference.run import Run, load
from simplepcfg.inference.sentences import listed
from simplepcfg.runs.config.files import load_config
from simplepcfg.runs.config.schema import DataConfig, RunConfig
from simplepcfg.runs.run_folder import RunFolder
from simplepcfg.training.reporting.progress import Reporter
from simplepcfg.training.reporting.reporters import make_reporter
from simplepcfg.training.signals import Interrupted
from simplepcfg.training.start import train as train_run

DEFAULT_CONFIG = "sn-pcfg-128"


def fit(
    train: TextSource,
    valid: TextSource | None = None,
    *,
    config: str | PathLike[str] | RunConfig = DEFAULT_CONFIG,
    settings: Mapping[str, object] | None = None,
    out: str | PathLike[str] | None = None,
    raw: bool = False,
    device: str = "auto",
    verbose: bool = False,
) -> Run:
    """Train a grammar on text, a file or sentences as strings or lists of words, and return the run.

    `config` is a built-in name, a TOML file or a RunConfig; `settings` changes single keys of it. The run is
    kept in the folder `out`, or in memory only (see `Run.save`), where an interruption loses it. Without
    `valid`, 5 % of the sentences are held out. With `raw` files, or strings, are paragraphs as people write them: they
    are split into sentences and words, and the run will split strings into words, too. With `verbose`, progress is
    printed. Raises InputError for settings or text that cannot be used, ResourceError for too little memory or disk,
    and Interrupted after SIGINT or SIGTERM.

        run = fit(["the dog barks", ...], settings={"model.nonterminals": 8, "training.epochs": 3})
    """
    overrides = [f"{key}={_as_toml(key, value)}" for key, value in _dotted(settings or {})]
    overrides += ["data.raw=true", "data.tokenize=true"] if raw else []
    if isinstance(config, RunConfig):
        if overrides:
            raise InputError(f"{overrides[0]} beside a RunConfig; put it into the RunConfig")
        chosen = config
    else:
        chosen = load_config(Path(config) if isinstance(config, PathLike) else config, overrides)
    chosen = _with_text(chosen, train, valid)
    train_text, valid_text = (_in_memory(text, chosen.data) for text in (train, valid))
    reporter = make_reporter() if verbose else Reporter()
    with TemporaryDirectory(prefix="simplepcfg-") if out is None else nullcontext(Path(out)) as folder:
        try:
            train_run(chosen, folder, device=device, reporter=reporter, train_text=train_text, valid_text=valid_text)
        except Interrupted as error:
            in_memory = train_text is not None or valid_text is not None
            if out is not None and not (in_memory and RunFolder(Path(out)).config.exists()):
                raise
            advice = "nothing was kept: give fit a folder, out=..., to be able to go on"
            if out is not None:  # no command could read the text
                again = "train_text=..., " * (train_text is not None) + "valid_text=..., " * (valid_text is not None)
                advice = f"all saved; go on with simplepcfg.training.train(None, {fspath(out)!r}, {again}resume=True)"
            message = f"stopped by {Signals(error.signal_number).name}; {advice}"
            raise Interrupted(message, error.signal_number) from None
        run = load(folder, device)
    if out is None:
        run.directory = None
    return run


def _with_text(config: RunConfig, train: TextSource, valid: TextSource | None) -> RunConfig:
    """Return the configuration with the paths of text files, from which a resumed run reads them."""
    sources = {"train": train} if valid is None else {"train": train, "valid": valid}
    files = {key: file_name(text) if isinstance(text, str | PathLike) else None for key, text in sources.items()}
    return config.model_copy(update={"data": config.data.model_copy(update=files)})


def _in_memory(source: TextSource | None, data: DataConfig) -> list[Any] | None:
    """Return sentences in memory as a list, or None for a file; of raw text, strings become sentences of words."""
    if source is None or isinstance(source, str | PathLike):
        return None
    items: list[Any] = listed(source)
    if not data.raw:
        return items
    split = (split_raw(item, data.language) if isinstance(item, str) else [item] for item in items)
    return [sentence for sentences in split for sentence in sentences]


def _dotted(settings: Mapping[str, object], table: str = "") -> Iterator[tuple[str, object]]:
    """Yield the keys of settings, those of tables in them too, with a dot after each table's name."""
    if not isinstance(settings, Mapping):
        raise InputError(f'settings is {settings!r}; give keys and values, such as {{"training.epochs": 3}}')
    for key, value in settings.items():
        if isinstance(value, Mapping):
            yield from _dotted(value, f"{table}{key}.")
        else:
            yield f"{table}{key}", value


def _as_toml(key: str, value: object) -> str:
    """Return a setting as TOML, which equals JSON except for null and escaped characters beyond U+FFFF."""
    if value is None:
        raise InputError(f"settings {key} = None; leave the key out to keep what the configuration says")
    try:
        return json.dumps(value, ensure_ascii=False, default=_plain)
    except (TypeError, ValueError, AttributeError, RuntimeError):
        raise InputError(f"settings {key} = {value!r}; give a string, a number, true or false, or a list") from None


def _plain(value: object) -> object:
    """Return a path as a string, and a number of NumPy or torch as one of Python."""
    return fspath(value) if isinstance(value, PathLike) else value.item()  # type: ignore[attr-defined]
