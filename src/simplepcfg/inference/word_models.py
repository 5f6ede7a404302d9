"""Language models by name, for tests that take runs and n-gram models alike."""

from __future__ import annotations

from pathlib import Path

from simplepcfg.evaluation.psycholinguistics.word_model import WordModel
from simplepcfg.inference.api import load
from simplepcfg.pretrained import installed


def names_word_model(name: str) -> bool:
    """Whether a name is that of a run's folder or of an installed grammar."""
    path = Path(name)
    if path.exists():
        return (path / "config.toml").is_file()
    return name in installed()


def load_word_model(name: str, device: str = "auto") -> WordModel:
    """The model of a run's folder, or of an installed grammar."""
    return load(name, device)
