"""The demo's figures over three seeds: perplexity beside the true grammar's, S-F1 beside the best trivial trees.

    python benchmarks/demo.py [--seeds 0 1 2]

Trains exactly what `simplepcfg demo` trains, in a temporary folder. Appends a row a seed and their mean to
results/demo.csv.
"""

import argparse
import tempfile
import time
from pathlib import Path
from statistics import mean

import torch

from benchmarking.report import append_rows, environment
from simplepcfg.cli.demo import TEST, with_builtin_text
from simplepcfg.data.readers import read_trees
from simplepcfg.evaluation.perplexity import perplexity
from simplepcfg.evaluation.treebank import Treebank
from simplepcfg.inference.run import load
from simplepcfg.runs.config.files import load_config
from simplepcfg.training import train
from true_grammar import true_log_probability

RESULTS = Path(__file__).parent / "results" / "demo.csv"
TRIVIAL = ("left-branching", "right-branching", "random")
Figures = dict[str, float]


def main() -> None:
    """Measure, print and record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    seeds = parser.parse_args().seeds
    figures: dict[str, Figures] = {}
    for seed in seeds:
        with tempfile.TemporaryDirectory() as folder:
            figures[str(seed)] = measure(seed, Path(folder) / "demo")
        show(f"seed {seed}", figures[str(seed)])
    if len(seeds) > 1:
        figures["mean"] = {name: mean(item[name] for item in figures.values()) for name in figures[str(seeds[0])]}
        show("mean", figures["mean"])
    threads = load_config("demo", environment={}).training.threads or torch.get_num_threads()
    where = {**environment(torch.device("cpu")), "threads": threads}
    rows = [
        {"seed": seed, **{name: round(value, 2) for name, value in item.items()}, **where}
        for seed, item in figures.items()
    ]
    append_rows(RESULTS, rows)


def measure(seed: int, folder: Path) -> Figures:
    """Train one demo and evaluate it on the held-out trees."""
    config = with_builtin_text(load_config("demo", [f"seed={seed}"], environment={}), folder)
    began = time.monotonic()
    train(config, folder, device="cpu")
    seconds = time.monotonic() - began
    run = load(folder, "cpu")
    treebank = Treebank(read_trees(folder / TEST), run.preprocessing)
    induced = run.evaluate(treebank, "SN-PCFG")
    assert induced.perplexity is not None
    lengths = [len(item.tokens) for item in treebank.prepared]
    true = perplexity(true_log_probability([tree.words for tree in treebank.original]), lengths, False)
    best = max(treebank.baseline(name).sentence_f1 for name in TRIVIAL)
    return {
        "training_s": seconds,
        "perplexity": induced.perplexity.perplexity,
        "true_perplexity": true.perplexity,
        "over_true_percent": 100 * (induced.perplexity.perplexity / true.perplexity - 1),
        "sentence_f1": induced.sentence_f1,
        "best_trivial_f1": best,
        "over_trivial": induced.sentence_f1 - best,
    }


def show(name: str, figures: Figures) -> None:
    """One line for a person."""
    print(
        f"{name}: {figures['training_s']:.0f} s of training, perplexity {figures['perplexity']:.2f} "
        f"({figures['over_true_percent']:+.1f} % of the true {figures['true_perplexity']:.2f}), "
        f"S-F1 {figures['sentence_f1']:.1f} ({figures['over_trivial']:+.1f} over the best trivial trees)",
        flush=True,
    )


if __name__ == "__main__":
    main()
