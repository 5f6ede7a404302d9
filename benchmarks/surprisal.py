"""Seconds of `simplepcfg score RUN TABLE --regions`, start-up included, with an untrained run of a large grammar.

    python benchmarks/surprisal.py [TABLE.tsv] [--nonterminals 4096] [--vocabulary 10000] [--device cuda]

TABLE has a row a word, as the command wants it; without it, words of the built-in treebank. The run has as many
preterminals as nonterminals, and its weights are drawn: how long it takes does not depend on them. Its vocabulary is
filled up with words that do not occur. Making it is outside the clock. On a GPU the command runs twice: the first time
Python and Triton compile what they then keep, as on a new machine, and the second time is `seconds`. On a CPU it runs
once. Appends a row to results/surprisal.csv.

The floor is what the matrix products of the inside algorithm alone would take, two with N × N rules for each span of
two words or more, at the rate of one large product on this device; on a CPU it is in seconds of
the CPU, as cpu_seconds is.
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import torch

import simplepcfg
from benchmarking.report import append_rows, environment
from simplepcfg.data.synthetic_grammar import generate_trees
from simplepcfg.data.vocabulary import EOS, PAD, UNK, Vocabulary
from simplepcfg.inference.run import Run
from simplepcfg.linguistics.item_tables import read_item_table
from simplepcfg.linguistics.regions import tokenise_regions
from simplepcfg.models import build_model
from simplepcfg.runs.config.files import load_config
from simplepcfg.runs.device import resolve_device

RESULTS = Path(__file__).parent / "results" / "surprisal.csv"
SENTENCES = 480  # of the built-in treebank, about 5,000 words


def main() -> None:
    """Measure, print and record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("table", nargs="?", type=Path, help="a row a word; the built-in treebank by default")
    parser.add_argument("--nonterminals", type=int, default=4096, help="and as many preterminals")
    parser.add_argument("--vocabulary", type=int, default=10_000, help="words")
    parser.add_argument("--sentences", type=int, help="only the first so many of the table")
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    arguments = parser.parse_args()
    device = resolve_device(arguments.device)
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder, "table.tsv")
        write_table(arguments.table, arguments.sentences, table)
        run = random_run(table, arguments.nonterminals, arguments.vocabulary)
        lengths = [
            len(run.preprocessing.apply(tokenise_regions(regions).words).tokens)
            for regions in read_item_table(table).texts()
        ]
        words = len(read_item_table(table).rows)
        run.save(Path(folder, "run"))
        del run
        command = ["score", "run", str(table), "--regions", "--device", str(device)]
        bytecode = None if device.type == "cpu" else Path(folder, "bytecode")
        first = measure(command, folder, bytecode)
        seconds, cpu, peak = first if device.type == "cpu" else measure(command, folder, bytecode)
    row = {
        "data": arguments.table.name if arguments.table else "built-in treebank",
        "words": words,
        "tokens": sum(lengths),
        "N": arguments.nonterminals,
        "V": arguments.vocabulary,
        "device": device.type,
        "first_seconds": "" if bytecode is None else round(first.seconds, 1),
        "seconds": round(seconds, 1),
        "cpu_seconds": round(cpu, 1),
        "words_per_s": round(words / seconds, 1),
        "floor_seconds": round(floor(lengths, arguments.nonterminals, device), 1),
        "peak_mb": round(peak / 1e6),
    }
    print(", ".join(f"{name} {value}" for name, value in row.items()))
    append_rows(RESULTS, [{**row, **environment(device)}])


def write_table(source: Path | None, sentences: int | None, target: Path) -> None:
    """The columns that the command needs, of the table's first sentences or of generated ones."""
    if source is None:
        text = [list(tree.words) for tree in islice(generate_trees(seed=0), SENTENCES)]
    else:
        text = [list(regions) for regions in read_item_table(source).texts()]
    rows = [
        f"{number}\t{place}\t{word}\n"
        for number, words in enumerate(text[:sentences], start=1)
        for place, word in enumerate(words, start=1)
    ]
    target.write_text("item\tzone\tword\n" + "".join(rows), encoding="utf-8")


def random_run(table: Path, nonterminals: int, size: int) -> Run:
    """An untrained model that knows the words of a table, and others up to a size."""
    sizes = [f"model.nonterminals={nonterminals}", f"model.preterminals={nonterminals}", "data.lowercase=true"]
    config = load_config("sn-pcfg-4096", [*sizes, "model.dedicated_preterminals=0"], environment={})
    texts = read_item_table(table).texts()
    tokens = (config.data.preprocessing.apply(tokenise_regions(regions).words).tokens for regions in texts)
    known = [word for word in dict.fromkeys(word for item in tokens for word in item) if word not in (EOS, UNK)][:size]
    others = [f"word-{number}" for number in range(size - len(known))]
    vocabulary = Vocabulary([PAD, UNK, EOS, *known, *others])
    torch.manual_seed(0)
    return Run(build_model(config.model, len(vocabulary)), vocabulary, config)


class Measured(NamedTuple):
    """Seconds by the clock and of the CPU, and the peak of the resident set in bytes."""

    seconds: float
    cpu_seconds: float
    peak: int


def measure(arguments: list[str], folder: str, bytecode: Path | None) -> Measured:
    """Run the command; Python's bytecode is kept in a folder of its own, or where it always is."""
    source = str(Path(simplepcfg.__file__).parents[1])
    paths = os.pathsep.join([source, *filter(None, [os.environ.get("PYTHONPATH")])])
    environ = {**os.environ, "PYTHONPATH": paths}
    if bytecode is not None:
        environ["PYTHONPYCACHEPREFIX"] = str(bytecode)
        environ.pop("PYTHONDONTWRITEBYTECODE", None)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    with open(Path(folder, "scored.tsv"), "wb") as out:
        command = [sys.executable, "-m", "simplepcfg", *arguments]
        subprocess.run(command, cwd=folder, env=environ, stdout=out, check=True)
    seconds = time.perf_counter() - began
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = used.ru_utime + used.ru_stime - before.ru_utime - before.ru_stime
    return Measured(seconds, cpu, 1024 * used.ru_maxrss)


def floor(lengths: list[int], nonterminals: int, device: torch.device) -> float:
    """Seconds of the products of the inside algorithm in float32."""
    rows = torch.rand(512, nonterminals, device=device)
    rules = torch.rand(nonterminals, nonterminals, device=device)
    rows @ rules
    clock = time.process_time if device.type == "cpu" else time.perf_counter  # as other programs may share the CPU
    times = []
    for _ in range(3):
        began = clock()
        float((rows @ rules)[0, 0])
        times.append(clock() - began)
    spans = sum(length * (length - 1) // 2 for length in lengths)
    return 2 * spans / len(rows) * min(times)


if __name__ == "__main__":
    main()
