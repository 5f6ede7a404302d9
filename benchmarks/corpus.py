"""A corpus that is parsed into a folder and killed some times: is it the same as if nobody had disturbed it?

    python benchmarks/corpus.py [--sentences 100000] [--kills 5] [--folder DIR]

A tiny grammar with random weights parses sentences of the built-in treebank: as one output; into a folder by one
process; and into a second folder by one process a core, killed by SIGKILL at random moments and started again. Prints
whether all files of both folders are equal byte for byte. `engines.py` measures what a folder costs.
"""

import argparse
import gzip
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import torch

from parse_throughput import random_run
from simplepcfg.data.synthetic_grammar import generate_treebank

FILES = 4  # of the corpus; every second one is compressed


def main() -> None:
    """Parse, kill, compare and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sentences", type=int, default=100_000)
    parser.add_argument("--nonterminals", type=int, default=4)
    parser.add_argument("--part-size", type=int, default=5_000)
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", type=Path, help="an empty folder to work in; a temporary one by default")
    arguments = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    with tempfile.TemporaryDirectory() as temporary:
        measure(arguments.folder or Path(temporary), arguments)


def measure(folder: Path, arguments: argparse.Namespace) -> None:
    """Print one line a way of parsing, and whether both folders are equal."""
    run, files = make_corpus(folder, arguments.sentences, arguments.nonterminals)
    command = [sys.executable, "-m", "simplepcfg", "parse", str(run), *map(str, files), "--device", "cpu", "--quiet"]
    parts = [*command, "--part-size", str(arguments.part_size), "--out"]
    with open(folder / "plain.trees", "w") as output:
        subprocess.run(command, check=True, stdout=output)
    subprocess.run([*parts, str(folder / "whole"), "--jobs", "1"], check=True)
    began = time.monotonic()
    killed = kill_and_go_on([*parts, str(folder / "killed")], arguments.kills, random.Random(arguments.seed))
    seconds = time.monotonic() - began
    print(f"{arguments.sentences:,} sentences, killed {len(killed)} times after {killed} files: {seconds:.0f} s in all")
    first, second = contents(folder / "whole"), contents(folder / "killed")
    answers = b"".join(gzip.decompress(data) if name.endswith(".gz") else data for name, data in first.items())
    print(f"{len(first)} files each, equal byte for byte: {first == second}")
    print(f"equal to the one output: {answers == (folder / 'plain.trees').read_bytes()}")


def make_corpus(folder: Path, sentences: int, nonterminals: int) -> tuple[Path, list[Path]]:
    """Write a run and a corpus of some files."""
    words = [list(tree.words) for tree in generate_treebank(sentences, seed=0)]
    run = random_run(words, nonterminals, torch.device("cpu")).save(folder / "run")
    files = [folder / "corpus" / f"{index}.txt{'.gz' if index % 2 else ''}" for index in range(FILES)]
    files[0].parent.mkdir()
    for index, file in enumerate(files):
        some = words[index * sentences // FILES : (index + 1) * sentences // FILES]
        with gzip.open(file, "wt") if file.suffix == ".gz" else open(file, "w") as stream:
            stream.writelines(" ".join(sentence) + "\n" for sentence in some)
    return run, files


def kill_and_go_on(command: Sequence[str], kills: int, generator: random.Random) -> list[int]:
    """Kill a command some times, each time after it has written something, and let it end; return what was written."""
    folder = Path(command[-1])
    counts = []
    for _ in range(kills):
        process = subprocess.Popen(command)
        before = len(contents(folder))
        while process.poll() is None and len(contents(folder)) <= before:
            time.sleep(0.05)
        time.sleep(generator.random() * 2)
        process.send_signal(signal.SIGKILL)
        if process.wait() == -signal.SIGKILL:
            counts.append(len(contents(folder)))
    subprocess.run(command, check=True)
    return counts


def contents(folder: Path) -> dict[str, bytes]:
    """Return the files of a folder by their names, in order, without its settings and what was being written."""
    files = (file for file in sorted(folder.glob("*")) if file.suffix not in (".json", ".writing"))
    return {file.name: file.read_bytes() for file in files}


if __name__ == "__main__":
    main()
