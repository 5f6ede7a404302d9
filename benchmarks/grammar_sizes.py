"""What smaller grammars cost and lose: S-F1, SyntaxGym, and sentences a second on one processor.

    python benchmarks/grammar_sizes.py english runs/n256 runs/n128 --trees gum/dev.trees --suites syntaxgym

Sentences a second are those of `parse`, of the first sentences of the trees, in processor seconds of one thread, so
that other load matters little; the grammars answer in turns. Appends a row a run to results/grammar_sizes.csv.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from statistics import mean
from typing import Any

import torch

from benchmarking.report import append_rows, environment
from collect import SUITES
from simplepcfg import load
from simplepcfg.data.readers import read_trees
from simplepcfg.pretrained import run_directory
from simplepcfg.runs.run_folder import RunFolder

RESULTS = Path(__file__).parent / "results" / "grammar_sizes.csv"
TIMED, AT_A_TIME = 120, 20  # sentences whose trees are timed, and those of a turn


def main() -> None:
    """Measure, print and record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", nargs="+", help="runs of the same vocabulary size")
    parser.add_argument("--trees", type=Path, required=True)
    parser.add_argument("--suites", type=Path, required=True, help="folder of SyntaxGym suites")
    parser.add_argument("--csv", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    sentences = [tree.words for tree in read_trees(str(arguments.trees)) if len(tree.words) > 1][:TIMED]
    seconds = parsing_seconds(arguments.runs, sentences)
    for name in arguments.runs:
        folder = RunFolder(run_directory(name))
        scores = answered("evaluate", name, arguments.trees)[0]
        suites: defaultdict[str, list[float]] = defaultdict(list)
        for item in answered("test", "syntaxgym", name, arguments.suites):
            if item["level"] == "set" and item["counted"] and item["group"] in SUITES:
                suites[item["group"]].append(100 * item["accuracy"])
        row = {
            "run": folder.path.name,
            "N": folder.read_config().model.nonterminals,
            "sentences": scores["sentences"],
            "sentence_f1": round(scores["sentence_f1"], 2),
            "perplexity": round(scores["perplexity"], 1),
            "syntaxgym": round(mean(map(mean, suites.values())), 2),
            "suites": len(suites),
            "sentences_a_second": round(len(sentences) / seconds[name], 1),
            "megabytes": round(folder.model.stat().st_size / 1e6, 1),
        }
        print(json.dumps(row), flush=True)
        append_rows(arguments.csv, [{**row, **environment(torch.device("cpu"))}])


def parsing_seconds(runs: list[str], sentences: Sequence[Sequence[str]]) -> dict[str, float]:
    """Return the processor seconds that each run takes for the trees of these sentences."""
    loaded = {name: load(name) for name in runs}
    seconds = dict.fromkeys(runs, 0.0)
    for run in loaded.values():
        run.parse_spans(sentences[:2])
    for start in range(0, len(sentences), AT_A_TIME):
        for name, run in loaded.items():
            begun = time.process_time()
            run.parse_spans(sentences[start : start + AT_A_TIME])
            seconds[name] += time.process_time() - begun
    return seconds


def answered(*command: str | Path) -> list[dict[str, Any]]:
    """Return the JSON that a command prints."""
    words = [sys.executable, "-m", "simplepcfg", *map(str, command), "--json", "-", "-q"]
    return json.loads(subprocess.check_output(words, env=os.environ | {"OMP_NUM_THREADS": "1"}))


if __name__ == "__main__":
    main()
