"""Plans of experiments (what is tried, from which configuration, and what is expected of it) and their rows."""

import csv
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

from simplepcfg.errors import InputError


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """One line of a table: what it changes, what was expected before it ran, what it taught after."""

    name: str
    expected: str
    settings: list[str] = field(default_factory=list)
    config: str = ""  # another than the plan's
    taught: str = ""
    seeds: list[int] = field(default_factory=lambda: [0])
    final: bool = False  # whether the test text may be looked at
    after: str = ""  # an experiment before it in the plan, with whose weights of the same seed it begins


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A configuration, settings that all experiments share, and the experiments in order."""

    title: str
    config: str
    settings: list[str] = field(default_factory=list)
    train_sentences: int = 0  # the first so many lines; 0 takes all
    valid_sentences: int = 0
    experiments: list[Experiment]

    def named(self, name: str) -> Experiment:
        """Return the experiment of this name."""
        return next(experiment for experiment in self.experiments if experiment.name == name)

    def chosen(self, names: list[str]) -> list[Experiment]:
        """Return the experiments of these names, in the plan's order."""
        known = {experiment.name for experiment in self.experiments}
        for name in names:
            if name not in known:
                raise InputError(f"no experiment is called {name}; the plan has: {'; '.join(sorted(known))}")
        return [experiment for experiment in self.experiments if experiment.name in names]


def read_plan(path: Path) -> Plan:
    """Read a plan from its TOML file; raise InputError if it is no plan."""
    try:
        text = path.read_text("utf-8")
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); give a plan as those beside run.py") from None
    try:
        content = tomllib.loads(text)
        experiments = [Experiment(**item) for item in content.pop("experiment", [])]
        plan = Plan(experiments=experiments, **content)
    except (tomllib.TOMLDecodeError, TypeError) as error:
        raise InputError(f"{path}: not a plan ({error}); see the others beside it") from None
    names = [experiment.name for experiment in experiments]
    if len(set(names)) < len(names):
        raise InputError(f"{path}: two experiments have the same name; rename one")
    for place, experiment in enumerate(experiments):
        if experiment.after and experiment.after not in names[:place]:
            raise InputError(f"{path}: {experiment.name} comes after {experiment.after}, which is not before it")
    return plan


def read_rows(table: Path) -> list[dict[str, str]]:
    """Read the rows of a CSV file; one that does not exist, as of a plan that was not run yet, has none."""
    if not table.exists():
        return []
    with table.open(newline="", encoding="utf-8") as stream:
        return list(csv.DictReader(stream))
