"""Results that commands wrote as JSON, as rows of results/*.csv: of trees, and of tests of language models.

    python benchmarks/collect.py trees EVALUATED.json --trees "GUM test" --text "GUM and PTB" --machine "NVIDIA H200"
    python benchmarks/collect.py word-models FOLDER --text "1.0 million words" --machine "NVIDIA H200"

EVALUATED.json is that of `simplepcfg evaluate … --json`, or scores.json of `simplepcfg distil`. FOLDER holds the JSON
of `simplepcfg test syntaxgym`, `test minimal-pairs`, `evaluate` on held-out novels and `test reading-times` by both
columns of times, as NAME-syntaxgym.json, NAME-blimp.json, NAME-novels.json, NAME-times-mean_rt.json and
NAME-times-mean_rt_shifted.json, which may hold several models each. `--name MODEL=TEXT:SEED` says what a model is
called in the table; with a `--name`, models without one are left out.
"""

import argparse
import json
from collections import defaultdict
from pathlib import Path
from statistics import mean
from typing import Any

from benchmarking.report import append_rows

SUITES = frozenset(  # 16 of the 31 whose scores are published (Hu et al. 2020)
    {
        *("center_embed_mod", "cleft", "fgd_hierarchy", "fgd_subject", "mvrr", "npi_src_any", "npi_src_ever"),
        *("npz_ambig", "npz_ambig_mod", "number_orc", "number_prep", "reflexive_orc_masc", "reflexive_prep_masc"),
        *("reflexive_src_fem", "subordination_orc-orc", "subordination_pp-pp"),
    }
)
RESULTS = Path(__file__).parent / "results"
COLUMNS = {
    "trees": (
        *("trees", "system", "seed", "nonterminals", "preterminals", "epochs", "training_text", "sentences"),
        *("sentence_f1", "interval", "corpus_f1", "perplexity", "right_branching"),
        *("when", "machine", "torch", "triton", "python", "commit"),
    ),
    "word-models": (
        *("system", "seed", "training_text", "syntaxgym", "suites", "blimp", "pairs", "perplexity", "tokens"),
        *("mean_rt", "mean_rt_shifted", "when", "machine", "torch", "triton", "python", "commit"),
    ),
}
Row = dict[str, Any]


def main() -> None:
    """Append the rows."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kind", choices=("trees", "word-models"))
    parser.add_argument("source", type=Path)
    parser.add_argument("--trees", default="", help="which trees were parsed")
    parser.add_argument("--text", required=True, help="what was trained on")
    parser.add_argument("--name", dest="names", action="append", default=[], metavar="MODEL=TEXT[:SEED]")
    parser.add_argument("--set", dest="columns", action="append", default=[], metavar="COLUMN=VALUE")
    parser.add_argument("--machine", required=True)
    parser.add_argument("--when", required=True, help="the day of the measurement, such as 2026-11-17")
    parser.add_argument("--commit", required=True, help="what was measured")
    arguments = parser.parse_args()
    names = dict(item.split("=", 1) for item in arguments.names)
    rows = evaluated(arguments.source) if arguments.kind == "trees" else tested(arguments.source)
    said: Row = {"trees": arguments.trees} if arguments.kind == "trees" else {}
    said |= {"training_text": arguments.text, "machine": arguments.machine, "when": arguments.when}
    said |= {"commit": arguments.commit} | dict(item.split("=", 1) for item in arguments.columns)
    path = RESULTS / ("trees.csv" if arguments.kind == "trees" else "word_models.csv")
    columns = COLUMNS[arguments.kind]
    if unknown := set(said) - set(columns):
        parser.error(f"--set {min(unknown)} is no column; take some of {', '.join(columns)}")
    kept = []
    for row in rows:
        if names and row["system"] not in names:
            continue
        system, _, seed = names.get(row["system"], row["system"]).partition(":")
        full = row | said | {"system": system, "seed": seed}
        kept.append({column: full.get(column, "") for column in columns})
    append_rows(path, kept)
    for row in kept:
        print(row)


def evaluated(path: Path) -> list[Row]:
    """The systems of one evaluation, a row each; of a group of runs, each run."""
    rows = []
    systems = [run for each in json.loads(path.read_text()) for run in each.get("members") or [each]]
    right = next((each["sentence_f1"] for each in systems if each["name"] == "right-branching"), None)
    for each in systems:
        if each["name"] == "right-branching":
            continue
        row = {"system": each["name"], "sentences": each["sentences"]}
        row |= {key: _rounded(each[key]) for key in ("sentence_f1", "corpus_f1", "perplexity")}
        if interval := (each.get("intervals") or {}).get("sentence_f1"):
            row["interval"] = f"{interval['low']:.1f} to {interval['high']:.1f}"
        rows.append(row | {"right_branching": _rounded(right)})
    return rows


def tested(folder: Path) -> list[Row]:
    """The models of a folder, a row each: accuracies in per cent, gains in 1/1000 nats a word."""
    by_model: defaultdict[str, Row] = defaultdict(dict)
    for path in sorted(folder.glob("*-syntaxgym.json")):
        suites: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
        for item in json.loads(path.read_text()):
            if item["level"] == "set" and item["counted"] and item["group"] in SUITES:
                suites[item["model"], item["group"]].append(100 * item["accuracy"])
        for model in {model for model, _ in suites}:
            values = [mean(each) for (name, _), each in suites.items() if name == model]
            by_model[model] |= {"syntaxgym": round(mean(values), 2), "suites": len(values)}
    for path in sorted(folder.glob("*-blimp.json")):
        for item in json.loads(path.read_text()):
            if item["level"] == "mean":
                by_model[item["model"]] |= {"blimp": round(100 * item["accuracy"], 2), "pairs": item["items"]}
    for path in sorted(folder.glob("*-novels.json")):
        for item in json.loads(path.read_text()):
            by_model[item["name"]] |= {"perplexity": _rounded(item["perplexity"]), "tokens": item["perplexity_tokens"]}
    for column in ("mean_rt", "mean_rt_shifted"):
        for path in sorted(folder.glob(f"*-times-{column}.json")):
            for item in json.loads(path.read_text()):
                low, high = 1000 * item["low"], 1000 * item["high"]
                by_model[item["model"]][column] = f"{1000 * item['gain']:.1f} [{low:.1f}, {high:.1f}]"
    return [{"system": model, **row} for model, row in sorted(by_model.items())]


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 2)


if __name__ == "__main__":
    main()
