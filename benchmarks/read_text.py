"""Time and peak memory of reading the text of a run: sentences, vocabulary and ids, as a process of its own.

    python benchmarks/read_text.py train.txt [--vocabulary 50000]

Appends a row to results/read_text.csv: seconds of wall clock and of the CPU, and how many megabytes the resident set
grows above what the imports take.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

import torch

import simplepcfg
from benchmarking.report import append_rows, environment

CHILD = """
import json, pathlib, sys, time
from simplepcfg.runs.config.schema import DataConfig
from simplepcfg.runs.corpus import prepare_corpus

def peak():
    lines = pathlib.Path("/proc/self/status").read_text().splitlines()
    return 1024 * int(next(line.split()[1] for line in lines if line.startswith("VmHWM")))

before = peak()
config = DataConfig(train=sys.argv[1], vocabulary_size=int(sys.argv[2]), max_length=0)
wall, cpu = time.perf_counter(), time.process_time()
corpus = prepare_corpus(config, seed=0)
wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
identity = corpus.identity()
print(json.dumps({
    "sentences": identity["train"]["sentences"] + identity["valid"]["sentences"],
    "words": identity["train"]["tokens"] + identity["valid"]["tokens"],
    "V": identity["vocabulary"],
    "seconds": round(wall, 2),
    "cpu_seconds": round(cpu, 2),
    "peak_mb": round((peak() - before) / 1e6, 1),
}))
"""
RESULTS = Path(__file__).parent / "results" / "read_text.csv"


def main() -> None:
    """Measure, print and record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path, help="text, one sentence a line")
    parser.add_argument("--vocabulary", type=int, default=50_000, help="words that are kept")
    arguments = parser.parse_args()
    source = str(Path(simplepcfg.__file__).parents[1])
    paths = os.pathsep.join([source, *filter(None, [os.environ.get("PYTHONPATH")])])
    child = subprocess.run(
        [sys.executable, "-c", CHILD, str(arguments.file), str(arguments.vocabulary)],
        env={**os.environ, "PYTHONPATH": paths},
        stdout=subprocess.PIPE,
        check=True,
    )
    row = {"data": arguments.file.name, **json.loads(child.stdout)}
    print(", ".join(f"{name} {value}" for name, value in row.items()))
    append_rows(RESULTS, [{**row, **environment(torch.device("cpu"))}])


if __name__ == "__main__":
    main()
