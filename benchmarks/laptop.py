"""What a user without a GPU waits for, beside an older commit: trees, log p, surprisal, next words, the first tree.

    git worktree add --detach /tmp/older 56349dc
    python benchmarks/laptop.py /tmp/older gum/dev.trees [--sentences 200] [--most-viterbi 24]

Two processes, one for each source tree, answer the same questions of `english` in turns, some sentences at a time, so
that other load affects both alike. Compare ratios: of seconds on a quiet machine, of processor seconds with --threads 1
on a busy one. An older source tree that does not know a question, such as pruned log p, answers the exact form of it.
The spaCy pipe is asked where spaCy is installed. Next words are those of a prefix of 60 words that has grown by one.
The first tree is timed from the start of `simplepcfg parse`, whose peak memory over all sentences is printed. The floor
is that of matrix products: 4N² flops for each span, forward and, for exact span marginals, backward, and 4NP for each
word, at the rate of one product of 512 rows on one processor. Appends a row a question to results/laptop.csv.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from inspect import signature
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

RESULTS = Path(__file__).parent / "results" / "laptop.csv"
HERE = Path(__file__).parent.parent
PARTS = 4
PREFIX = 60
WORDS = 20
SYMBOLS = 1024  # nonterminals and preterminals of english
STARTS = 3
EXACT = "exact-mbr"  # which older source trees call mbr
SENTENCE = "the old man sees a dog ."


def main() -> None:
    """Measure, print and record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("older", type=Path, help="folder of an older source tree")
    parser.add_argument("trees", type=Path, help="bracketed trees, one a line, of which the words are taken")
    parser.add_argument("--sentences", type=int, default=200)
    parser.add_argument("--most-viterbi", type=int, default=24, help="sentences of the slowest question")
    parser.add_argument("--twenty", type=int, default=1000, help=f"sentences of {WORDS} words")
    parser.add_argument("--threads", type=int, default=0, help="0 leaves the choice to torch")
    parser.add_argument("--csv", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    lines = arguments.trees.read_text(encoding="utf-8").splitlines()
    sentences = [re.findall(r"\(\S+ ([^()\s]+)\)", line) for line in lines][: arguments.sentences]
    environment = os.environ | ({"OMP_NUM_THREADS": str(arguments.threads)} if arguments.threads else {})
    workers = [Worker(folder, environment) for folder in (arguments.older, HERE)]
    prefix = [word for sentence in sentences for word in sentence if word.isalpha()][: PREFIX + 1]
    viterbi = sentences[: arguments.most_viterbi]
    twenty = [(prefix * WORDS)[start : start + WORDS] for start in range(PREFIX)]
    twenty = [twenty[number % PREFIX] for number in range(arguments.twenty)]
    rows = [
        measured("parse", workers, in_parts("parse", sentences), passes=1),
        measured("parse --decode exact-mbr", workers, in_parts("exact-mbr", sentences), passes=2),
        measured(f"parse, {WORDS} words each", workers, in_parts("parse", twenty), passes=1),
        measured("parse --decode viterbi", workers, in_parts("viterbi", viterbi), passes=1),
        measured("score", workers, in_parts("score", sentences), passes=1),
        measured("score --pruned", workers, in_parts("pruned", sentences), passes=1),
        measured("score --surprisal", workers, in_parts("surprisal", sentences), passes=1),
        measured("score --surprisal --pruned", workers, in_parts("pruned-surprisal", sentences), passes=1),
        *([measured("spaCy pipe", workers, in_parts("spacy", sentences))] if find_spec("spacy") else []),
        # The known prefix first, which is not timed.
        measured("next words", workers, [("complete", [prefix[:PREFIX]]), ("complete", [prefix])], untimed=1),
    ]
    for worker in workers:
        worker.close()
    rows.append(first_trees(arguments.older, environment))
    older, newer = (peak_memory(folder, environment, sentences) for folder in (arguments.older, HERE))
    print(f"peak memory of parse: {older} MB and {newer} MB")
    record(arguments, rows)


class Seconds(NamedTuple):
    """Time by the clock, and of the processor."""

    wall: float
    busy: float


class Worker:
    """A process that answers questions by the package of a source tree."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        path = {"PYTHONPATH": str(folder / "src")}
        command = [sys.executable, __file__, "answer"]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment | path
        )
        for question in ("score", *(["spacy"] if find_spec("spacy") else [])):
            self.ask(question, [SENTENCE.split()])  # loads the grammar

    def ask(self, question: str, sentences: list[list[str]]) -> Seconds:
        """Return the time that an answer takes."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(json.dumps([question, sentences]), file=self.process.stdin, flush=True)
        return Seconds(*map(float, self.process.stdout.readline().split()))

    def close(self) -> None:
        """End the process."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def answer() -> None:
    """Answer questions of standard input, one a line, by the seconds that each took."""
    import simplepcfg
    from simplepcfg.inference.parsing import DECODERS

    run = simplepcfg.load("english")
    # Older source trees know no labels, which take a pass of their own.
    plain = {"labels": False} if "labels" in signature(run.parse_spans).parameters else {}
    prunes = {"pruned": True} if "pruned" in signature(run.surprisal).parameters else {}
    exact = EXACT if EXACT in DECODERS else "mbr"

    @cache
    def pipeline() -> Any:
        import spacy

        nlp = spacy.blank("en")
        nlp.add_pipe("simplepcfg", config={"model": "english"})
        return nlp

    def spacy_pipe(sentences: list[list[str]]) -> object:
        from spacy.tokens import Doc

        return list(pipeline().pipe(Doc(pipeline().vocab, words=words) for words in sentences))

    answers: dict[str, Callable[[Any], object]] = {
        "parse": lambda sentences: run.parse_spans(sentences, **plain),
        "exact-mbr": lambda sentences: run.parse_spans(sentences, decode=exact, **plain),
        "viterbi": lambda sentences: run.parse_spans(sentences, decode="viterbi"),
        "score": run.score,
        "pruned": getattr(run, "pruned_score", run.score),
        "spacy": spacy_pipe,
        "surprisal": run.surprisal,
        "pruned-surprisal": lambda sentences: run.surprisal(sentences, **prunes),
        "complete": lambda sentences: run.complete(sentences[0], max_length=2 * PREFIX),
    }
    for line in sys.stdin:
        question, sentences = json.loads(line)
        start, busy = time.perf_counter(), time.process_time()
        answers[question](sentences)
        print(time.perf_counter() - start, time.process_time() - busy, flush=True)


def in_parts(question: str, sentences: list[list[str]]) -> list[tuple[str, list[list[str]]]]:
    """Return the question about some sentences at a time, all parts with long and short ones."""
    return [(question, sentences[part::PARTS]) for part in range(min(PARTS, len(sentences)))]


def measured(
    name: str, workers: list[Worker], questions: list[tuple[str, list[list[str]]]], untimed: int = 0, passes: int = 0
) -> dict[str, object]:
    """Ask all workers in turns; return seconds of both, their ratio, and the floor of a number of passes."""
    seconds = [Seconds(0.0, 0.0)] * len(workers)
    for number, question in enumerate(questions):
        for place in range(len(workers)):
            which = (place + number) % len(workers)
            took = workers[which].ask(*question)
            if number >= untimed:
                seconds[which] = Seconds(*map(sum, zip(seconds[which], took, strict=True)))
    asked = [sentence for _, sentences in questions[untimed:] for sentence in sentences]
    return row_of(name, len(asked), sum(map(len, asked)), *seconds, floor(asked, passes))


def floor(sentences: list[list[str]], passes: int) -> float:
    """Return the processor seconds of the matrix products of sentences."""
    import torch

    torch.set_num_threads(1)
    rows, rules = torch.rand(512, SYMBOLS), torch.rand(SYMBOLS, 2 * SYMBOLS)
    seconds = []
    for _ in range(5):
        start = time.process_time()
        rows @ rules
        seconds.append(time.process_time() - start)
    lengths = [len(sentence) for sentence in sentences]
    spans = sum(max(n * (n - 1) // 2 - 1, 0) for n in lengths)  # the whole sentence is nobody's child
    words = sum(lengths) if passes else 0
    return min(seconds[1:]) / len(rows) * (passes * spans + words)


def first_trees(older: Path, environment: dict[str, str]) -> dict[str, object]:
    """Time the first tree after the start of the command line, in turns, with bytecode, as an installed one has it."""
    environment = {name: value for name, value in environment.items() if name != "PYTHONDONTWRITEBYTECODE"}
    times: list[list[Seconds]] = [[], []]
    for _ in range(STARTS):
        for place, folder in enumerate((older, HERE)):
            start, busy = time.perf_counter(), sum(os.times()[2:4])  # of processes that have ended
            command = [sys.executable, "-m", "simplepcfg", "parse", "english", "-", "--quiet"]
            path = {"PYTHONPATH": str(folder / "src")}
            subprocess.run(command, input=SENTENCE, text=True, env=environment | path, check=True, capture_output=True)
            times[place].append(Seconds(time.perf_counter() - start, sum(os.times()[2:4]) - busy))
    medians = [Seconds(*map(median, zip(*some, strict=True))) for some in times]
    return row_of("first tree", 1, len(SENTENCE.split()), *medians)


def peak_memory(folder: Path, environment: dict[str, str], sentences: list[list[str]]) -> int:
    """Return the most megabytes that `simplepcfg parse` takes."""
    command = [sys.executable, "-m", "simplepcfg", "parse", "english", "-", "--quiet"]
    path = {"PYTHONPATH": str(folder / "src")}
    text = "\n".join(" ".join(words) for words in sentences)
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, env=environment | path
    ) as process:
        assert process.stdin is not None
        process.stdin.write(text)
        process.stdin.close()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    return usage.ru_maxrss // 1024


def row_of(
    name: str, sentences: int, words: int, older: Seconds, newer: Seconds, least: float = 0.0
) -> dict[str, object]:
    """Return a row, and print it."""
    ratio, busy_ratio = older.wall / newer.wall, older.busy / newer.busy
    print(f"{name}: {sentences} sentences, {older.wall:.2f} s and {newer.wall:.2f} s, ratio {ratio:.2f}", end="; ")
    print(
        f"of the processor {older.busy:.2f} s and {newer.busy:.2f} s, ratio {busy_ratio:.2f}, floor {least:.2f} s, "
        f"{sentences / newer.busy:.1f} sentences a second",
        flush=True,
    )
    return {
        "question": name,
        "sentences": sentences,
        "words": words,
        "older_s": round(older.wall, 3),
        "newer_s": round(newer.wall, 3),
        "ratio": round(ratio, 2),
        "older_busy_s": round(older.busy, 3),
        "newer_busy_s": round(newer.busy, 3),
        "busy_ratio": round(busy_ratio, 2),
        "floor_busy_s": round(least, 3) if least else "",
    }


def record(arguments: argparse.Namespace, rows: list[dict[str, object]]) -> None:
    """Append the rows to the table."""
    import torch

    from benchmarking.report import append_rows, environment

    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    commit = subprocess.run(
        ["git", "-C", arguments.older, "rev-parse", "--short", "HEAD"], text=True, capture_output=True, check=True
    )
    machine = environment(torch.device("cpu")) | {"older": commit.stdout.strip(), "load": round(os.getloadavg()[1], 1)}
    append_rows(arguments.csv, [machine | row for row in rows])


if __name__ == "__main__":
    answer() if sys.argv[1:] == ["answer"] else main()
