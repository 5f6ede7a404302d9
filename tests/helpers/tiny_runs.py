"""Runs so small that they train in a second, for tests of what is done with a run."""

import os
from itertools import islice
from pathlib import Path
from threading import Thread

from simplepcfg.data.synthetic_grammar import generate_trees
from simplepcfg.data.trees import SpanTree
from simplepcfg.runs.config.files import load_config
from simplepcfg.training.start import train

SETTINGS = [
    "model.nonterminals=4",
    "model.preterminals=8",
    "model.embedding=8",
    "training.epochs=1",
    "training.device=cpu",
    "training.threads=1",
]


def tiny_sentences(count: int = 120, seed: int = 44) -> list[str]:
    """Sentences of the built-in treebank, of at most twelve words."""
    return [" ".join(tree.words) for tree in short_trees(count, seed, longest=12)]


def short_trees(count: int, seed: int = 3, longest: int = 8) -> list[SpanTree]:
    """Trees of the built-in treebank without its long sentences, which take most of the time that a text takes."""
    return list(islice((tree for tree in generate_trees(seed) if len(tree.words) <= longest), count))


def make_tiny_run(folder: Path, *settings: str) -> Path:
    """Train for an epoch into a new folder."""
    config = load_config("sn-pcfg-small", [*SETTINGS, *settings], environment={})
    train(config, folder, train_text=tiny_sentences())
    return folder


def make_fifo(path: Path, text: str) -> Path:
    """A pipe that gives `text` to whoever reads it first."""
    os.mkfifo(path)
    Thread(target=path.write_text, args=(text,), daemon=True).start()
    return path
