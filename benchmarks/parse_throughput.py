"""Throughput of parse and score beside the time of the operations that they call, measured in the same run.

    python benchmarks/parse_throughput.py [FILE] [--sentences 1000] [--nonterminals 128]

The weights are random: time does not depend on them. Appends two rows to results/parse_throughput.csv.
"""

import argparse
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import median

import torch

from benchmarking.report import append_rows, environment
from simplepcfg import Run
from simplepcfg.data.batching import Batch, collate, evaluation_batches
from simplepcfg.data.readers import read_sentences, read_trees, sniff
from simplepcfg.data.synthetic_grammar import generate_treebank
from simplepcfg.data.vocabulary import Vocabulary
from simplepcfg.models import build_model
from simplepcfg.runs.config.files import load_config
from simplepcfg.runs.device import resolve_device

RESULTS = Path(__file__).parent / "results" / "parse_throughput.csv"


def main() -> None:
    """Measure, print and record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", nargs="?", help="sentences or trees; the built-in treebank by default")
    parser.add_argument("--sentences", type=int, default=1000)
    parser.add_argument("--nonterminals", type=int, default=128)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--threads", type=int, default=0, help="CPU threads; 0 leaves the choice to torch")
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    if arguments.threads:
        torch.set_num_threads(arguments.threads)

    sentences = read(arguments.file, arguments.sentences)
    run = random_run(sentences, arguments.nonterminals, resolve_device(arguments.device))
    batches = prepared_batches(run, sentences)
    rows = []
    jobs: tuple[tuple[str, Callable[[Batch], object], Callable[..., object]], ...] = (
        ("parse", lambda batch: run.grammar.decode(batch.words, batch.lengths), run.parse),
        ("score", lambda batch: run.grammar.log_partition(batch.words, batch.lengths), run.score),
    )
    for name, operation, command in jobs:
        bare, whole = compare(partial(apply, operation, batches), partial(command, sentences), arguments.repeats)
        words = sum(int(batch.lengths.sum()) for batch in batches)
        rows.append(row(name, arguments, run, len(sentences), words, bare, whole))
        print(
            f"{name}: {len(sentences) / whole:,.0f} sentences/s, {words / whole:,.0f} words/s, "
            f"{whole / bare:.3f} times the operation's own {bare:.3f} s"
        )
    append_rows(RESULTS, rows)


def read(path: str | None, count: int) -> list[list[str]]:
    """The first `count` sentences of a file, or of the built-in treebank."""
    if path is None:
        return [list(tree.words) for tree in generate_treebank(count, seed=0)]
    if sniff(path) == "trees":
        return [list(tree.words) for tree, _ in zip(read_trees(path), range(count), strict=False)]
    return [words for words, _ in zip(read_sentences(path), range(count), strict=False)]


def random_run(sentences: Sequence[Sequence[str]], nonterminals: int, device: torch.device) -> Run:
    """An untrained model of the given size with the sentences' vocabulary."""
    overrides = [f"model.nonterminals={nonterminals}", f"model.preterminals={2 * nonterminals}"]
    config = load_config("sn-pcfg-small", overrides, environment={})
    tokens = [config.data.preprocessing.apply(words).tokens for words in sentences]
    vocabulary = Vocabulary.from_sentences(tokens, config.data.vocabulary_size)
    torch.manual_seed(0)
    return Run(build_model(config.model, len(vocabulary)).to(device), vocabulary, config)


def prepared_batches(run: Run, sentences: Sequence[Sequence[str]]) -> list[Batch]:
    """What the operations are given, prepared outside the clock."""
    tokens = [run.preprocessing.apply(words).tokens for words in sentences]
    encoded = [run.vocabulary.encode(item) for item in tokens if len(item) >= 2]
    lengths = [len(item) for item in encoded]
    return [collate(encoded, part).to(run.device) for part in evaluation_batches(lengths, run.cells_a_batch)]


def apply(operation: Callable[[Batch], object], batches: Sequence[Batch]) -> None:
    """The operation alone, on every batch."""
    with torch.no_grad():
        for batch in batches:
            operation(batch)
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def compare(bare: Callable[[], object], whole: Callable[[], object], repeats: int) -> tuple[float, float]:
    """Median seconds of both, measured in turns so that a busy machine slows both."""
    times: tuple[list[float], list[float]] = ([], [])
    for measured in range(repeats + 1):
        for job, seconds in zip((bare, whole), times, strict=True):
            began = time.perf_counter()
            job()
            if measured:  # the first turn warms up
                seconds.append(time.perf_counter() - began)
    return median(times[0]), median(times[1])


def row(
    name: str, arguments: argparse.Namespace, run: Run, sentences: int, words: int, bare: float, whole: float
) -> dict[str, object]:
    """One line of the results, with where it was measured."""
    return {
        "command": name,
        "data": Path(arguments.file).name if arguments.file else "built-in treebank",
        "sentences": sentences,
        "words": words,
        "nonterminals": arguments.nonterminals,
        "operation_s": round(bare, 4),
        "command_s": round(whole, 4),
        "ratio": round(whole / bare, 4),
        "sentences_per_s": round(sentences / whole, 1),
        **environment(run.device),
    }


if __name__ == "__main__":
    main()
