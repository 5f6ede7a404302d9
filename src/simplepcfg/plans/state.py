"""The folder of a reproduction: what was asked for, the runs, and a line for each result, all readable.

reproduction.toml says which table on which data with which settings. runs/ROW[/LANGUAGE]/seed-N are ordinary run
folders. results.jsonl gets a line after each evaluation and is never rewritten; table.md and table.csv are made of it.
"""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path

import tomli_w

from simplepcfg.errors import InputError
from simplepcfg.files import Record, remove_leftovers, write_text
from simplepcfg.runs.config.files import load_config
from simplepcfg.runs.config.schema import RunConfig

Key = tuple[str, str, int]  # row, language ("" where there is one text), seed (0 of what has none)


class ReproductionFolder:
    """Names and contents of the files of a reproduction."""

    def __init__(self, path: Path, report_numbers: Sequence[str] = ()) -> None:
        """`report_numbers` are keys that every report must have; each is a number or null."""
        self.path = path
        self._report_numbers = report_numbers
        self.begun = path / "reproduction.toml"
        self.results = path / "results.jsonl"

    def run(self, row: str, language: str, seed: int) -> Path:
        """Return the folder of one run."""
        return self.path.joinpath("runs", row, *([language] if language else []), f"seed-{seed}")

    def open(self, table: str, data: Path | None, settings: Sequence[str]) -> None:
        """Begin a reproduction in this folder, or raise InputError if another one was begun in it."""
        asked: dict[str, object] = {"table": table, "settings": list(settings)}
        if data is not None:
            asked["data"] = str(data.absolute())
        if self.path.exists() and not self.path.is_dir():
            raise InputError(f"{self.path} is a file; give a folder for the reproduction")
        for file in (self.begun, self.results):  # which are waited for and appended to
            if os.path.lexists(file) and not (file.is_file() and file.resolve().is_relative_to(self.path.resolve())):
                raise InputError(f"{file}: is a link out of the folder, a pipe or a device; give another folder")
        if not self.begun.exists():
            remove_leftovers(self.path)  # of a process that was killed as it began
            if self.path.is_dir() and any(self.path.iterdir()):
                raise InputError(f"{self.path} holds other files and no {self.begun.name}; give a new folder")
            self.path.mkdir(parents=True, exist_ok=True)
            write_text(self.begun, tomli_w.dumps(asked))
            return
        try:
            begun = tomllib.loads(self.begun.read_text("utf-8"))
        except (ValueError, RecursionError) as error:
            raise InputError(f"{self.begun}: damaged ({error}); restore it from a copy") from None
        if not isinstance(begun.get("table"), str) or not isinstance(begun.get("settings"), list):
            raise InputError(
                f"{self.begun}: damaged (it names no table or no settings); restore it from a copy, or give another "
                "folder"
            )
        for key in ("table", "data", "settings"):
            if begun.get(key) != asked.get(key):
                raise InputError(
                    f"{self.path} was begun with {key} {_shown(begun.get(key))}, not {_shown(asked.get(key))}; "
                    "give the same, or another folder"
                )

    def read_results(self) -> dict[Key, Record]:
        """Return every result that was written whole, the first of each run; InputError if a line is damaged."""
        results: dict[Key, Record] = {}
        for number, line in enumerate(self._lines(), start=1):
            try:
                record = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise InputError(f"{self.results}:{number}: not a result ({error}); remove the line") from None
            if (wrong := _what_is_wrong(record, self._report_numbers)) is not None:
                raise InputError(f"{self.results}:{number}: not a result ({wrong}); remove the line")
            results.setdefault((record["row"], record["language"], record["seed"]), record)
        return results

    def refuse_other_tests(self, tests: Mapping[str, tuple[Path, str]]) -> None:
        """Raise InputError if a result is about another test file; `tests` has the file and hash of each language."""
        for (row, language, seed), record in self.read_results().items():
            if language not in tests:
                continue
            path, hashed = tests[language]
            if record.get("test_sha256") != hashed:
                title = f"{row} seed {seed}" if seed else row
                raise InputError(
                    f"{path}: not the test file that {self.results} has results on (such as {title}); restore the "
                    "file, or give another folder"
                )

    def refuse_other_predictions(self, given: Mapping[Key, tuple[Path, str]]) -> None:
        """Raise InputError if a name was given for other trees before; `given` has the file and hash of each."""
        results = self.read_results()
        for key, (path, hashed) in given.items():
            if key in results and results[key].get("predictions_sha256") != hashed:
                raise InputError(
                    f"{path}: not the trees that {self.results} has as {key[0]}; give another name, or another folder"
                )

    def refuse_other_configurations(self, configs: Mapping[Key, RunConfig]) -> None:
        """Raise InputError if a result is of another configuration than that in `configs`.

        A row of the same name may have been trained otherwise before. A run folder tells it best; of a run whose folder
        is gone, the result names the model.
        """
        now = {(row, language): config.model_dump(mode="json") for (row, language, _), config in configs.items()}
        results = self.read_results()
        for key in dict.fromkeys([*configs, *results]):
            row, language, seed = key
            config = self.run(*key) / "config.toml"
            if (row, language) not in now:
                continue
            if config.is_file():
                place, before = config, load_config(config, environment={}).model_dump(mode="json")
            elif key in results:
                place, before = self.results, {"model": results[key].get("model")}
            else:
                continue
            for section in ("model", "training", "data"):
                if section in before and before[section] != now[row, language][section]:
                    raise InputError(
                        f"{place}: {row} seed {seed} has another [{section}] than the row has in this version; give "
                        "another folder"
                    )

    def append(self, record: Record) -> None:
        """Append a result so that it is there whole or not at all."""
        self._drop_unfinished_line()
        line = json.dumps(dict(record), ensure_ascii=False, allow_nan=False) + "\n"
        with open(self.results, "ab") as stream:
            stream.write(line.encode())
            stream.flush()
            os.fsync(stream.fileno())

    def _lines(self) -> list[str]:
        """Return the lines without a last one that a crash cut short."""
        if not self.results.exists():
            return []
        return self.results.read_text("utf-8", errors="replace").split("\n")[:-1]

    def _drop_unfinished_line(self) -> None:
        if not self.results.exists():
            return
        content = self.results.read_bytes()
        whole = content.rfind(b"\n") + 1
        if whole < len(content):
            os.truncate(self.results, whole)


def _what_is_wrong(record: object, report_numbers: Sequence[str]) -> str | None:
    """Say why a line of JSON is no result; None where it is one."""
    if not isinstance(record, dict):
        return "no object"
    for key, kind in (("row", str), ("language", str), ("seed", int), ("report", dict)):
        if not isinstance(record.get(key), kind):
            return f"{key} = {json.dumps(record[key])[:40]}" if key in record else f"no {key}"
    report = record["report"]
    for key in report_numbers:
        if key not in report:
            return f"no {key} in its report"
        if report[key] is not None and not isinstance(report[key], int | float):
            return f"{key} = {json.dumps(report[key])[:40]}"
    return None


def _shown(value: object) -> str:
    if isinstance(value, list):
        return " ".join(value) or "none"
    return str(value)
