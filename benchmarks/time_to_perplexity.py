"""Seconds from raw text to a test perplexity, everything included: start-up, compilation of kernels, training.

    python benchmarks/time_to_perplexity.py TRAIN VALID TEST [--config sn-pcfg-4096] [--epochs 3] [--goal 125.4]

Trains in a process of its own, with an empty cache of compiled kernels, and stops the clock when that process ends.
Only then is the test text scored. Appends a row to results/time_to_perplexity.csv; ends with exit code 1 if the
perplexity is above the goal.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarking.report import append_rows, environment
from simplepcfg.data.readers import read_sentences
from simplepcfg.inference.run import load
from simplepcfg.runs.device import resolve_device

RESULTS = Path(__file__).parent / "results" / "time_to_perplexity.csv"


def main() -> None:
    """Measure, print and record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("train", type=Path, help="training text, one sentence a line")
    parser.add_argument("valid", type=Path, help="validation text")
    parser.add_argument("test", type=Path, help="text whose perplexity is reported")
    parser.add_argument("--config", default="sn-pcfg-4096")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--goal", type=float, default=125.4, help="the paper's test perplexity with 4096 nonterminals")
    parser.add_argument("--commit", help="what was measured, where the tree has no history")
    parser.add_argument("--csv", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        run_folder = Path(folder) / "run"
        command = [sys.executable, "-m", "simplepcfg", "train", arguments.config, "--train", str(arguments.train)]
        command += ["--valid", str(arguments.valid), "--out", str(run_folder)]
        command += ["--set", f"training.epochs={arguments.epochs}"]
        begin = time.perf_counter()
        subprocess.run(command, check=True, env={**os.environ, "TRITON_CACHE_DIR": str(Path(folder) / "kernels")})
        seconds = time.perf_counter() - begin
        run = load(run_folder)
        report = run.evaluate([" ".join(words) for words in read_sentences(arguments.test)])
    perplexity = report.perplexity.perplexity
    print(f"{seconds:.1f} s to a test perplexity of {perplexity:.2f} ({arguments.config}, {arguments.epochs} epochs)")
    row = {"config": arguments.config, "epochs": arguments.epochs, "seconds": round(seconds, 1)}
    row |= {"valid_perplexity": round(run.best["perplexity"], 2), "test_perplexity": round(perplexity, 2)}
    append_rows(arguments.csv, [row | {"goal": arguments.goal} | environment(resolve_device(), arguments.commit)])
    if perplexity > arguments.goal:
        parser.exit(1, f"{perplexity:.2f} is above the goal of {arguments.goal}\n")


if __name__ == "__main__":
    main()
