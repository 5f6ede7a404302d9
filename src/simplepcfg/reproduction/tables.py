"""Reads the rows of the paper's tables from tables.toml."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Any

from simplepcfg.errors import InputError
from simplepcfg.training.config_files import builtin_configs

TABLES = ("lm", "parsing", "multilingual")


@dataclass(frozen=True, slots=True)
class Row:
    """A system of a table: trained from a configuration, a baseline, or quoted from elsewhere."""

    name: str
    model: str
    size: str = ""  # states, as the paper counts them; "" where that is the configuration's own
    configs: tuple[str, ...] = ()  # the first that is installed is taken
    settings: tuple[str, ...] = ()
    baseline: str | None = None
    quoted: bool = False
    figures: dict[str, str] = field(default_factory=dict)  # by language; "" where a table has one text
    source: str = ""

    @property
    def config(self) -> str | None:
        """The built-in configuration that is trained; None where none is installed."""
        return next((name for name in self.configs if name in builtin_configs()), None)


@dataclass(frozen=True, slots=True)
class PaperTable:
    """A table of the paper: what is measured, on what terms, and its rows in order."""

    name: str
    title: str
    metric: str  # a key of an evaluation's JSON: perplexity or sentence_f1
    settings: tuple[str, ...]
    rows: tuple[Row, ...]

    @property
    def on_trees(self) -> bool:
        """Whether its test file holds gold trees."""
        return self.metric != "perplexity"

    def choose(self, names: Sequence[str] | None) -> list[Row]:
        """The rows of these names in the table's order, or all."""
        known = [row.name for row in self.rows]
        for name in names or ():
            if name not in known:
                close = difflib.get_close_matches(name, known, n=1)
                meant = f"did you mean {close[0]}?" if close else f"take some of {', '.join(known)}"
                raise InputError(f"--rows {name}: the table {self.name} has no such row; {meant}")
        return [row for row in self.rows if names is None or row.name in names]


@cache
def paper_table(name: str) -> PaperTable:
    """One of `TABLES`."""
    text = (resources.files("simplepcfg") / "reproduction" / "tables.toml").read_text("utf-8")
    values = tomllib.loads(text)[name]
    rows = tuple(_row(entry) for entry in values["rows"])
    return PaperTable(name, values["title"], values["metric"], tuple(values["settings"]), rows)


def _row(entry: dict[str, Any]) -> Row:
    figures = entry.get("figures", {"": entry["figure"]} if entry.get("figure") else {})
    return Row(
        name=entry["name"],
        model=entry["model"],
        size=entry.get("size", ""),
        configs=tuple(entry.get("config", ())),
        settings=tuple(entry.get("settings", ())),
        baseline=entry.get("baseline"),
        quoted=entry.get("quoted", False),
        figures=figures,
        source=entry.get("source", ""),
    )
