"""Models of words by their names: a run, an installed grammar, or a file with an n-gram model."""

from pathlib import Path

from simplepcfg.inference.run import load
from simplepcfg.linguistics.controls.ngram_files import is_ngram_file, load_ngram
from simplepcfg.linguistics.word_model import WordModel
from simplepcfg.pretrained import installed


def names_word_model(name: str) -> bool:
    """Return whether a name is that of a run's folder, an installed grammar, or a file with an n-gram model."""
    path = Path(name)
    if path.exists():
        return (path / "config.toml").is_file() or is_ngram_file(name)
    return name in installed()


def load_word_model(name: str, device: str = "auto", *, closed_vocabulary: bool = False) -> WordModel:
    """Load the model of a run's folder, an installed grammar, or the n-gram model of a file.

    With `closed_vocabulary` unknown words count as `<unk>`, whatever their spelling.
    """
    if is_ngram_file(name):
        return load_ngram(name, closed_vocabulary=closed_vocabulary)
    return load(name, device, closed_vocabulary=closed_vocabulary)
