"""Language models by name, for tests that take runs and n-gram models alike."""

from __future__ import annotations

from pathlib import Path

from simplepcfg.data.preprocessing import Preprocessing
from simplepcfg.data.vocabulary import Vocabulary
from simplepcfg.evaluation.psycholinguistics.ngram_files import is_ngram_file, load_ngram
from simplepcfg.evaluation.psycholinguistics.word_model import WordModel
from simplepcfg.inference.api import load
from simplepcfg.pretrained import installed, run_directory
from simplepcfg.training.storage.run_folder import RunFolder


def names_word_model(name: str) -> bool:
    """Whether a name is that of a run's folder, of an installed grammar, or of a file with an n-gram model."""
    path = Path(name)
    if path.exists():
        return (path / "config.toml").is_file() or is_ngram_file(path)
    return name in installed()


def load_word_model(name: str, device: str = "auto") -> WordModel:
    """The model of a run's folder, an installed grammar, or the n-gram model of a file."""
    return load_ngram(name) if is_ngram_file(name) else load(name, device)


def vocabulary_of_run(name: str) -> tuple[Vocabulary, Preprocessing]:
    """The words that a run knows and what it does to words; it need not have been trained to its end."""
    folder = RunFolder(run_directory(name))
    folder.require_own(folder.config, folder.vocabulary)
    return Vocabulary.load(folder.vocabulary), folder.read_config().data.preprocessing
