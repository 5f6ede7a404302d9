"""The n-gram model or LSTM of a file."""

from pathlib import Path

from simplepcfg.linguistics.controls.lstm_files import is_lstm_file, load_lstm
from simplepcfg.linguistics.controls.ngram_files import is_ngram_file, load_ngram
from simplepcfg.linguistics.word_model import SequenceModel


def names_sequence_model(name: str) -> bool:
    """Return whether a name is that of a file with an n-gram model or an LSTM."""
    return Path(name).is_file() and (is_ngram_file(name) or is_lstm_file(name))


def load_sequence_model(name: str, device: str = "auto") -> SequenceModel:
    """Load the n-gram model or LSTM of a file."""
    return load_ngram(name) if is_ngram_file(name) else load_lstm(name, device)
