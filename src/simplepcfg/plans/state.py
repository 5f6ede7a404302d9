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
from simplepcfg.version import __version__

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

    def open(self, table: str, data: Path, settings: Sequence[str], tests: Mapping[str, str]) -> None:
        """Begin a reproduction in this folder, or raise InputError if another one was begun in it.

        `tests` has the hash of the test file of each language. Another version may have other rows of the same name.
        """
        asked: Record = {"table": table, "data": str(data.absolute()), "settings": list(settings)}
        asked |= {"simplepcfg": __version__, "tests": dict(tests)}
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
        for key, now in asked.items():
            then = begun.get(key)
            if key == "tests" and isinstance(then, dict):  # languages may be added
                then = {language: then.get(language, now[language]) for language in now}
            if then != now:
                was = "another test file" if key == "tests" else f"{key} {_shown(then)}, not {_shown(now)}"
                raise InputError(f"{self.path} was begun with {was}; give the same, or another folder")

    def read_results(self) -> dict[Key, Record]:
        """Return every result that was written whole, the first of each run; InputError if a line is damaged."""
        results: dict[Key, Record] = {}
        content = self.results.read_text("utf-8", errors="replace") if self.results.exists() else ""
        for number, line in enumerate(content.split("\n")[:-1], start=1):  # a last line without an end was cut short
            try:
                record = json.loads(line)
                key = str(record["row"]), str(record["language"]), int(record["seed"])
                numbers = [record["report"][name] for name in self._report_numbers]
                if not all(isinstance(value, int | float | None) for value in numbers):
                    raise ValueError(f"{numbers} are no numbers")
            except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
                raise InputError(f"{self.results}:{number}: not a result ({error}); remove the line") from None
            results.setdefault(key, record)
        return results

    def append(self, record: Record) -> None:
        """Append a result so that it is there whole or not at all."""
        line = json.dumps(dict(record), ensure_ascii=False, allow_nan=False) + "\n"
        with open(self.results, "a+b") as stream:
            stream.seek(0)
            stream.truncate(stream.read().rfind(b"\n") + 1)  # what a crash cut short
            stream.write(line.encode())
            stream.flush()
            os.fsync(stream.fileno())


def _shown(value: object) -> str:
    if isinstance(value, list):
        return " ".join(value) or "none"
    return str(value)
