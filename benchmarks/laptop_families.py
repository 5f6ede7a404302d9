"""What a user without a GPU waits for, by family of grammars, beside an older commit: log p, trees and surprisals.

    git worktree add --detach /tmp/older 56349dc
    python benchmarks/laptop_families.py /tmp/older [--sentences 8] [--threads 1]

Sentences have 20 words. Weights are random, with logits of a standard deviation of 3 in SN-PCFGs. Seconds are those of
the processor, in two processes a family, one for each source tree. The floor is that of the matrix products of one
inside pass, as in laptop.py: 4N² flops for each span and 4NP for each word, at the rate of one product of 512 rows.
Appends a row for each family and question to results/laptop_families.csv.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from inspect import signature
from pathlib import Path

import torch

from simplepcfg.grammars import Grammar, HiddenMarkovModel
from simplepcfg.models import (
    NeuralHMMConfig,
    NPCFGConfig,
    RankPCFGConfig,
    SimpleNPCFGConfig,
    build_model,
)

RESULTS = Path(__file__).parent / "results" / "laptop_families.csv"
VOCABULARY = 10_000
WORDS = 20
SHARP = {"init_logit_std": 3.0}
FAMILIES = {  # with the sizes of the matrix products
    "SN-PCFG, N = P = 1024": (SimpleNPCFGConfig(nonterminals=1024, preterminals=1024, **SHARP), 1024, 1024),
    "SN-PCFG, N = 4096, P = 8192": (SimpleNPCFGConfig(nonterminals=4096, preterminals=8192, **SHARP), 4096, 8192),
    "Rank-PCFG, rank 1024, P = 2048": (RankPCFGConfig(nonterminals=1024, preterminals=2048, rank=1024), 1024, 2048),
    "N-PCFG, N = 30, P = 60": (NPCFGConfig(nonterminals=30, preterminals=60), 0, 0),
    "HMM, 4096 states": (NeuralHMMConfig(states=4096), 0, 0),
}


def main() -> None:
    """Measure, print and record."""
    from benchmarking.report import append_rows, environment

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("older", type=Path, help="folder of an older source tree")
    parser.add_argument("--sentences", type=int, default=8)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--csv", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    threads = {"OMP_NUM_THREADS": str(arguments.threads)}
    rows = []
    for name, (_, states, tags) in FAMILIES.items():
        command = [sys.executable, __file__, "answer", name, str(arguments.sentences)]
        older, newer = (
            json.loads(subprocess.check_output(command, env=os.environ | threads | {"PYTHONPATH": str(folder / "src")}))
            for folder in (arguments.older, Path(__file__).parent.parent)
        )
        floor = floor_seconds(states, tags) * arguments.sentences if states else 0.0
        for question, seconds in newer.items():
            rate, ratio = arguments.sentences / seconds, older[question] / seconds
            print(f"{name}: {question} {rate:.1f} sentences a second, ratio {ratio:.2f}", flush=True)
            rows.append(
                {
                    "family": name,
                    "question": question,
                    "sentences": arguments.sentences,
                    "seconds": round(seconds, 3),
                    "sentences_a_second": round(rate, 2),
                    "floor_s": round(floor, 3) if floor else "",
                    "older_s": round(older[question], 3),
                    "ratio": round(ratio, 2),
                }
            )
    append_rows(arguments.csv, [environment(torch.device("cpu")) | row for row in rows])


def answer(name: str, sentences: int) -> None:
    """Print the processor seconds of each question by the package of one source tree."""
    words = torch.randint(1, VOCABULARY, (sentences, WORDS), generator=torch.Generator().manual_seed(0))
    torch.manual_seed(0)
    with torch.no_grad():
        grammar = build_model(FAMILIES[name][0], VOCABULARY).eval().grammar().detached()
    print(json.dumps({question: measured(ask) for question, ask in questions(grammar, words).items()}))


def questions(grammar: Grammar, words: torch.Tensor) -> dict[str, Callable[[], object]]:
    """Return what to ask of a grammar; a hidden Markov model has no trees. Viterbi prunes trained grammars alone."""
    answers: dict[str, Callable[[], object]] = {
        "score": lambda: grammar.log_partition(words),
        "surprisal": lambda: grammar.surprisal(words),
    }
    if not isinstance(grammar, HiddenMarkovModel):
        exact = {"exact": True} if "exact" in signature(grammar.decode).parameters else {}  # older trees prune nothing
        answers |= {"parse": lambda: grammar.decode(words), "exact-mbr": lambda: grammar.decode(words, **exact)}
    return answers


def measured(answer: Callable[[], object]) -> float:
    """Return the processor seconds of the second of two calls; the first one makes what is kept for all."""
    seconds = 0.0
    for _ in range(2):
        start = time.process_time()
        with torch.no_grad():
            answer()
        seconds = time.process_time() - start
    return seconds


def floor_seconds(states: int, tags: int) -> float:
    """Return the processor seconds of the matrix products of a sentence."""
    rows, rules = torch.rand(512, 1024), torch.rand(1024, 2048)
    seconds = []
    for _ in range(5):
        start = time.process_time()
        rows @ rules
        seconds.append(time.process_time() - start)
    rate = 2 * 512 * 1024 * 2048 / min(seconds[1:])
    return (4 * states**2 * (WORDS * (WORDS - 1) // 2 - 1) + 4 * states * tags * WORDS) / rate


if __name__ == "__main__":
    answer(sys.argv[2], int(sys.argv[3])) if sys.argv[1:2] == ["answer"] else main()
