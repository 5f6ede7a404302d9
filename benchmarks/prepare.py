"""Time and peak memory of `simplepcfg prepare brackets`, as a process of its own.

    python benchmarks/prepare.py [FILE ...] [--trees 40000] [--repeat 1]

Without files, trees of the built-in treebank are written first, each with a full stop and function tags, outside the
clock. Files are repeated --repeat times. Appends a row to results/prepare.csv.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

import torch

import simplepcfg
from benchmarking.report import append_rows, environment
from simplepcfg.data.readers import read_sentences, read_trees
from simplepcfg.data.synthetic_grammar import generate_trees

# The child reads its own peak, as Linux counts it: what a parent sees of it includes the parent's.
CHILD = """
import pathlib, sys
from simplepcfg.cli.main import run
code = run(sys.argv[1:])
lines = pathlib.Path("/proc/self/status").read_text().splitlines()
print(next(line.split()[1] for line in lines if line.startswith("VmHWM")))
sys.exit(code)
"""
RESULTS = Path(__file__).parent / "results" / "prepare.csv"


def main() -> None:
    """Measure, print and record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="*", type=Path, help="files of trees; the built-in treebank by default")
    parser.add_argument("--trees", type=int, default=40_000, help="how many of the built-in treebank")
    parser.add_argument("--repeat", type=int, default=1, help="copies of the files")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        source, out = Path(folder, "train.trees"), Path(folder, "out")
        if arguments.files:
            with open(source, "wb") as stream:
                for path in arguments.files * arguments.repeat:
                    stream.write(path.read_bytes())
        else:
            write_trees(source, arguments.trees)
        began = time.perf_counter()
        peak = run(["prepare", "brackets", str(source), "--out", str(out), "--quiet"], folder)
        seconds = time.perf_counter() - began
        trees = sum(1 for _ in read_trees(source))
        words = sum(map(len, read_sentences(out / "train.txt")))
        megabytes = source.stat().st_size / 1e6
        shutil.rmtree(out)
    names = "+".join(path.name for path in arguments.files) + f" × {arguments.repeat}"
    row = {
        "data": names if arguments.files else "built-in treebank",
        "trees": trees,
        "words": words,
        "input_mb": round(megabytes, 2),
        "seconds": round(seconds, 2),
        "trees_per_s": round(trees / seconds),
        "peak_mb": round(peak / 1e6, 1),
    }
    print(", ".join(f"{name} {value}" for name, value in row.items()))
    append_rows(RESULTS, [{**row, **environment(torch.device("cpu"))}])


def write_trees(path: Path, count: int) -> None:
    """As a treebank has them: wrapped, with function tags and a full stop."""
    with open(path, "w", encoding="utf-8") as stream:
        for tree in islice(generate_trees(seed=0), count):
            stream.write(f"( (S-HLN {tree.to_brackets().replace('(NP ', '(NP-SBJ-1 ')} (. .)) )\n")


def run(arguments: Sequence[str], folder: str) -> int:
    """Run the command and return the peak of its resident set in bytes, everything that it imports included."""
    source = str(Path(simplepcfg.__file__).parents[1])
    paths = os.pathsep.join([source, *filter(None, [os.environ.get("PYTHONPATH")])])
    child = subprocess.run(
        [sys.executable, "-c", CHILD, *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": paths},
        stdout=subprocess.PIPE,
        check=True,
    )
    return 1024 * int(child.stdout)


if __name__ == "__main__":
    main()
