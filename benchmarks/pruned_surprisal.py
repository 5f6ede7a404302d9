"""By how much pruned surprisals differ from exact ones, and how much less time they take.

    python benchmarks/pruned_surprisal.py gum/dev.trees [--first 200] [--count 100] [--run english]

Prints the mean and the largest difference over all words and ends in bits, the same as estimated, by which share of
log p the sums differ, and processor seconds of both.
"""

import argparse
import math
import re
import time
from pathlib import Path

import simplepcfg


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("trees", type=Path, help="bracketed trees, one a line, of which the words are taken")
    parser.add_argument("--first", type=int, default=200, help="number of the first sentence, from 0")
    parser.add_argument("--count", type=int, default=100, help="number of sentences")
    parser.add_argument("--run", default="english")
    arguments = parser.parse_args()
    lines = arguments.trees.read_text(encoding="utf-8").splitlines()
    sentences = [re.findall(r"\(\S+ ([^()\s]+)\)", line) for line in lines]
    sentences = sentences[arguments.first : arguments.first + arguments.count]
    run = simplepcfg.load(arguments.run)
    run.surprisal(sentences)  # so that tables that are made once are there
    seconds = []
    for pruned in (False, True):
        start = time.process_time()
        tables = run.surprisal(sentences, pruned=pruned)
        seconds.append(time.process_time() - start)
        values = [[record.surprisal for record in table if record.surprisal is not None] for table in tables]
        if not pruned:
            exact = values
    finite = [(a, b) for a, b in zip(exact, values, strict=True) if sum(a) < math.inf]
    differences = [(y - x) / math.log(2) for a, b in finite for x, y in zip(a, b, strict=True)]
    shares = [sum(b) / sum(a) - 1 for a, b in finite if a]
    errors = [error / math.log(2) for error in tables.errors]
    sizes = [abs(each) for each in differences]
    print(f"{len(finite)} sentences, {len(sizes)} words and ends: {sum(sizes) / len(sizes):.4f} bits, at most", end=" ")
    print(f"{max(sizes):.3f}; with sign {sum(differences) / len(sizes):.4f}, estimated", end=" ")
    print(f"{sum(errors) / len(errors):.4f}, at most {max(errors):.3f}")
    print(f"-log p is {sum(shares) / len(shares):.4%} larger, at most {max(shares):.3%}")
    print("exact {:.2f} s, pruned {:.2f} s of the processor".format(*seconds))


if __name__ == "__main__":
    main()
