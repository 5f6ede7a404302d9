"""The jobs of a table: which rows, languages and seeds, on which files, under which configuration."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from simplepcfg.errors import InputError
from simplepcfg.plans.tables import PaperTable, Row
from simplepcfg.runs.config.files import load_config, parse_value
from simplepcfg.runs.config.schema import RunConfig

# What a job sets itself, and by what.
OWN_KEYS = {
    "name": "the row's",
    "seed": "1 to N for N seeds",
    "data.train": "train in the data folder",
    "data.valid": "valid in the data folder",
}
# Keys that are taken from prepared.toml. The table and the row decide about <eos> and lengths.
PREPARED_KEYS = ("lowercase", "numbers", "punctuation", "vocabulary_size", "min_count")


@dataclass(frozen=True, slots=True)
class Text:
    """The files of one language, as `simplepcfg prepare` writes them."""

    language: str  # "" where a table has one text
    train: Path
    valid: Path
    test: Path
    settings: tuple[str, ...]  # how the files are read: the table's, and those that do not prepare them twice


@dataclass(frozen=True, slots=True)
class Job:
    """One run, or one baseline, to be evaluated once."""

    row: Row
    text: Text
    seed: int  # 0 where there is nothing to draw

    @property
    def key(self) -> tuple[str, str, int]:
        """Return the key of this job in the results: row, language and seed."""
        return self.row.name, self.text.language, self.seed

    @property
    def title(self) -> str:
        """Return what remarks call this job."""
        return " ".join(filter(None, [self.row.name, self.text.language, f"seed {self.seed}" if self.seed else ""]))


def find_texts(table: PaperTable, data: Path) -> list[Text]:
    """Return the files of a table's data folder; of the multilingual table, of each folder in it.

    Raises InputError if a folder or a file is missing.
    """
    if not data.is_dir():
        raise InputError(f"data {data}: no such folder; give one that `simplepcfg prepare` wrote")
    if table.name != "multilingual":
        return [_text(table, data, "")]
    languages = sorted(folder for folder in data.iterdir() if folder.is_dir() and not folder.name.startswith("."))
    if not languages:
        raise InputError(f"data {data}: no folder of a language in it; make one a language with `simplepcfg prepare`")
    return [_text(table, folder, folder.name) for folder in languages]


def find_jobs(rows: Sequence[Row], texts: Sequence[Text], seeds: int) -> Iterator[Job]:
    """Yield the jobs of the rows seed by seed, so that every row has a first figure before any has a second."""
    for seed in range(1, seeds + 1):
        for text in texts:
            for row in rows:
                if row.config is not None:
                    yield Job(row, text, seed)
                elif row.baseline is not None and seed == 1:
                    yield Job(row, text, 0)


def job_config(job: Job, settings: Sequence[str]) -> RunConfig:
    """Return a job's configuration: its file's keys, then the table's, the row's and the caller's."""
    files = [f"data.train={json.dumps(str(job.text.train))}", f"data.valid={json.dumps(str(job.text.valid))}"]
    own = [f"name={job.row.name}", f"seed={job.seed}"]
    overrides = [*job.text.settings, *job.row.settings, *settings, *files, *own]
    try:
        return load_config(job.row.config, overrides, environment={})
    except InputError as error:
        raise InputError(f"row {job.row.name}: {error}") from None


def refuse_own_keys(settings: Sequence[str]) -> None:
    """Raise InputError for a setting of a key that every job sets itself, on which it would have no effect."""
    for item in settings:
        key, _, value = item.partition("=")
        given = parse_value(value.strip())
        keys = [f"{key.strip()}.{name}" for name in given] if isinstance(given, dict) else [key.strip()]
        for name in keys:
            if name in OWN_KEYS:
                raise InputError(f"setting {item}: {name} is {OWN_KEYS[name]}; leave it out")


def _text(table: PaperTable, folder: Path, language: str) -> Text:
    """Return a folder's files: trees where F1 is measured, since their tags tell punctuation, else plain text."""
    ending = "trees" if table.on_trees else "txt"
    files = [(folder / f"{name}.{ending}").absolute() for name in ("train", "valid", "test")]
    for file in files:
        if not file.is_file():
            raise InputError(f"{file}: no such file; write the folder with `simplepcfg prepare`")
    train, valid, test = files
    return Text(language, train, valid, test, (*table.settings, *_prepared_settings(folder / "prepared.toml")))


def _prepared_settings(description: Path) -> tuple[str, ...]:
    """Return the keys of [data] with which a prepared folder wants to be read; none where it was not prepared here."""
    if not description.is_file():
        return ()
    try:
        keys = tomllib.loads(description.read_text("utf-8")).get("data", {})
        if not isinstance(keys, dict):
            raise ValueError("data is no table")
    except (ValueError, RecursionError) as error:
        raise InputError(
            f"{description}: damaged ({error}); write the folder with `simplepcfg prepare` again"
        ) from None
    present = [key for key in PREPARED_KEYS if key in keys]
    return tuple(f"data.{key}={json.dumps(keys[key], ensure_ascii=False, default=str)}" for key in present)
