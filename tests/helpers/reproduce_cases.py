"""Small text and settings with which the tests of `simplepcfg reproduce` train."""

import json
from pathlib import Path
from typing import Any

from simplepcfg.data.synthetic_grammar import generate_treebank

SMALL = [
    *("--set", "model.nonterminals=16", "--set", "model.preterminals=16", "--set", "model.embedding=8"),
    *("--set", "training.epochs=2", "--set", "training.threads=1", "--set", "training.checkpoint_steps=2"),
    *("--device", "cpu"),
]


def write_text(folder: Path) -> Path:
    """Three splits of the built-in treebank, as text and as trees."""
    folder.mkdir(parents=True, exist_ok=True)
    for seed, (name, count) in enumerate((("train", 48), ("valid", 12), ("test", 12))):
        trees = generate_treebank(count, seed)
        (folder / f"{name}.txt").write_text("".join(" ".join(tree.words) + "\n" for tree in trees))
        (folder / f"{name}.trees").write_text("".join(f"(TOP {tree.to_brackets()})\n" for tree in trees))
    return folder


def no_training(*arguments: Any, **options: Any) -> None:
    raise AssertionError("trained again")


def results(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (out / "results.jsonl").read_text().splitlines()]
