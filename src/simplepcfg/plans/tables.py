"""Reads the rows of the paper's tables from tables.toml."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import resources

from simplepcfg.errors import InputError
from simplepcfg.files import Record
from simplepcfg.runs.config.files import builtin_configs

TABLES = ("lm", "parsing", "multilingual")
METRICS = ("sentence_f1", "perplexity")  # keys of an evaluation's JSON and of a row of tables.toml


@dataclass(frozen=True, slots=True)
class Row:
    """A system of a table: trained from a configuration, a baseline, or quoted from elsewhere."""

    name: str
    model: str
    size: str = ""  # states, as the paper counts them; "" where the row has none
    configuration: str = ""  # the built-in configuration that is trained, installed or not
    settings: tuple[str, ...] = ()
    recipe_of: str = ""  # of a recipe of ours: the row of the same model with the released or the paper's settings
    baseline: str | None = None
    quoted: bool = False
    published: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # figures by metric, then by language
    source: str = ""
    remark: str = ""

    @property
    def config(self) -> str | None:
        """Return the built-in configuration that is trained; None if it is not installed."""
        return self.configuration if self.configuration in builtin_configs() else None

    def figure(self, metric: str, language: str) -> str:
        """Return the published figure as printed, or ""; `language` is "" if a table has one text."""
        return self.published.get(metric, {}).get(language.lower(), "")


@dataclass(frozen=True, slots=True)
class PaperTable:
    """A table of the paper: what is measured, on what terms, and its rows in order."""

    name: str
    title: str
    metric: str  # what the table is about, one of `METRICS`
    settings: tuple[str, ...]
    rows: tuple[Row, ...]

    @property
    def on_trees(self) -> bool:
        """Return whether the test file holds gold trees."""
        return self.metric != "perplexity"

    @property
    def metrics(self) -> tuple[str, ...]:
        """Return the metrics in the order in which they are shown: perplexity stands beside F1, as in the paper."""
        return ("sentence_f1", "perplexity") if self.on_trees else ("perplexity",)

    @property
    def languages(self) -> list[str]:
        """Return the languages that the paper has figures of; [""] if a table has one text."""
        names = (language for row in self.rows for figures in row.published.values() for language in figures)
        return list(dict.fromkeys(names))

    def choose(self, names: Sequence[str] | None) -> list[Row]:
        """Return the rows of these names in the table's order, or all rows; InputError for a name that no row has."""
        known = [row.name for row in self.rows]
        for name in names or ():
            if name not in known:
                close = difflib.get_close_matches(name, known, n=1)
                meant = f"did you mean {close[0]}?" if close else f"take some of {', '.join(known)}"
                raise InputError(f"row {name}: the table {self.name} has no such row; {meant}")
        return [row for row in self.rows if names is None or row.name in names]


@cache
def paper_table(name: str) -> PaperTable:
    """Return the table of this name, one of `TABLES`."""
    values = tomllib.loads((resources.files("simplepcfg") / "plans" / "tables.toml").read_text("utf-8"))[name]
    rows = tuple(_row(entry) for entry in values["rows"])
    return PaperTable(name, values["title"], values["metric"], tuple(values["settings"]), rows)


def _row(entry: Record) -> Row:
    figures = {metric: entry[metric] for metric in METRICS if metric in entry}
    published = {metric: value if isinstance(value, Mapping) else {"": value} for metric, value in figures.items()}
    others = {key: value for key, value in entry.items() if key not in ("config", "settings", *METRICS)}
    settings = tuple(entry.get("settings", ()))
    return Row(**others, configuration=entry.get("config", ""), settings=settings, published=published)
