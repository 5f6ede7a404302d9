"""How well likelihood and agreement choose among grammars without trees, over all runs that are recorded.

    python experiments/choosing.py [DISTILLED]...

For each text, rank correlations (Spearman) of S-F1 with validation likelihood: over all runs, and over seeds of one
configuration, where each run counts relative to the mean of its configuration. Then how often the likelier of two seeds
has the better trees. Folders of `simplepcfg distil --test` add the agreement of trees (`teachers.json`).
"""

import json
import math
import statistics
import sys
from collections import defaultdict
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

from plans import read_rows

ROOT = Path(__file__).resolve().parents[1]


class Run(NamedTuple):
    """One trained grammar: its text, its configuration, the mean log-likelihood of a token, and S-F1."""

    text: str
    config: str
    likelihood: float
    f1: float


def recorded_runs() -> list[Run]:
    """Return the single grammars of benchmarks/results/trees.csv and of all experiments that have both figures."""
    runs = []
    for row in read_rows(ROOT / "benchmarks/results/trees.csv"):
        if row["perplexity"] and row["seed"] and "student" not in row["system"]:
            likelihood = -math.log(float(row["perplexity"]))
            runs.append(Run(row["trees"], row["system"], likelihood, float(row["sentence_f1"])))
    for file in sorted((ROOT / "experiments").glob("*.csv")):
        for row in read_rows(file):
            if row["test_sentence_f1"] and row["valid_perplexity"]:
                likelihood = -math.log(float(row["valid_perplexity"]))
                runs.append(Run(file.stem, row["experiment"], likelihood, float(row["test_sentence_f1"])))
    return list(dict.fromkeys(runs))  # Some rows of trees.csv stand there twice.


def correlation(pairs: list[tuple[float, float]]) -> float | None:
    """Return Spearman's rank correlation; None for fewer than four pairs or equal values alone."""
    if len(pairs) < 4:
        return None
    first, second = (_ranks([pair[side] for pair in pairs]) for side in (0, 1))
    if len(set(first)) == 1 or len(set(second)) == 1:
        return None
    return statistics.correlation(first, second)


def _ranks(values: list[float]) -> list[float]:
    """Return ranks; equal values share their mean rank."""
    return [sum(other < value for other in values) + values.count(value) / 2 for value in values]


def within_configurations(runs: list[Run]) -> list[tuple[float, float]]:
    """Return likelihood and S-F1 of each run less the means of its configuration, where that has several seeds."""
    groups = defaultdict(list)
    for run in runs:
        groups[run.text, run.config].append(run)
    pairs = []
    for group in groups.values():
        if len(group) > 1:
            likelihood, f1 = (statistics.fmean(run[field] for run in group) for field in (2, 3))
            pairs += [(run.likelihood - likelihood, run.f1 - f1) for run in group]
    return pairs


def pairs_in_order(runs: list[Run], least: float = 0.0) -> tuple[int, int]:
    """Return how many pairs of seeds the likelihood orders as S-F1 does, of how many whose S-F1 differ by `least`."""
    chosen = [
        (a.likelihood - b.likelihood) * (a.f1 - b.f1) > 0
        for a, b in combinations(runs, 2)
        if (a.text, a.config) == (b.text, b.config) and abs(a.f1 - b.f1) >= max(least, 1e-9)
    ]
    return sum(chosen), len(chosen)


def agreement_rows(folder: Path) -> list[tuple[str, float, float, float]]:
    """Return configuration, likelihood, mean agreement with other configurations, and S-F1 of all first members."""
    record = json.loads((folder / "members/teachers.json").read_text())
    scores = {}
    for system in json.loads((folder / "scores.json").read_text()):
        for member in system.get("members", ()):
            if "members" in Path(member["name"]).parts:
                scores["/".join(Path(member["name"]).parts[-2:])] = member
    names = [Path(name).parts[0] for name in record["members"]]
    rows = []
    for place, row in enumerate(record["agreement"]):
        others = [value for other, value in enumerate(row) if names[other] != names[place]]
        others = others or [value for other, value in enumerate(row) if other != place]
        f1 = scores[record["members"][place]]["sentence_f1"]
        rows.append((names[place], record["log_likelihood"][place], statistics.fmean(others), f1))
    return rows


def print_agreement(folder: Path) -> None:
    """Print the rank correlations of S-F1 with likelihood, agreement and both over the members of a distillation."""
    rows = agreement_rows(folder)
    likelihood, agreement = (_ranks([row[field] for row in rows]) for field in (1, 2))
    both = [a + b for a, b in zip(likelihood, agreement, strict=True)]
    for name, values in (("likelihood", likelihood), ("agreement", agreement), ("both", both)):
        value = correlation([(rank, row[3]) for rank, row in zip(values, rows, strict=True)])
        print(f"{folder}: {len(rows)} members, S-F1 with {name}: {'–' if value is None else format(value, '.2f')}")
    for name, *figures in rows:
        print("  ", name, *(f"{figure:.2f}" for figure in figures))


def main(folders: list[str]) -> None:
    """Print the tables."""
    runs = recorded_runs()
    texts = {run.text: [other for other in runs if other.text == run.text] for run in runs}
    print("| text or plan | runs | all runs | within a configuration |\n|---|---:|---:|---:|")
    for name, group in [*texts.items(), ("all, within texts", runs)]:
        across = None if name.startswith("all") else correlation([(run.likelihood, run.f1) for run in group])
        within = correlation(within_configurations(group))
        shown = ["–" if value is None else f"{value:.2f}" for value in (across, within)]
        if shown != ["–", "–"]:
            print(f"| {name} | {len(group)} | {' | '.join(shown)} |")
    for least in (0, 2, 5):
        right, total = pairs_in_order(runs, least)
        print(f"pairs of seeds that differ by {least} points or more: the likelier is better in {right} of {total}")
    for folder in folders:
        print_agreement(Path(folder))


if __name__ == "__main__":
    main(sys.argv[1:])
