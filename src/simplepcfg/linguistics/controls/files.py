"""Controls as one safetensors file each, with vocabulary, preprocessing and sizes in its header and a checksum."""

from dataclasses import asdict
from os import PathLike
from pathlib import Path

import numpy as np
import torch
from pydantic import ValidationError

from simplepcfg.data.preprocessing import Preprocessing
from simplepcfg.data.spelling import SpellingModel
from simplepcfg.data.vocabulary import Vocabulary
from simplepcfg.errors import InputError
from simplepcfg.linguistics.controls.lstm import LSTMConfig, LSTMModel, LSTMNetwork
from simplepcfg.linguistics.controls.ngram import Level, NgramModel, check_levels
from simplepcfg.linguistics.word_model import SequenceModel
from simplepcfg.models.without_memory import without_memory
from simplepcfg.runs.checksums import DamagedFileError
from simplepcfg.runs.device import resolve_device
from simplepcfg.runs.tensor_files import (
    TensorFile,
    check_shapes,
    host_copy,
    is_kind_of_file,
    load_weights,
    read_checked_tensor_file,
    write_tensor_file,
)

NGRAM, LSTM = "ngram", "lstm"
_NAMES = (
    "keys",
    "log_probabilities",
    "log_backoffs",
)  # the longest n-grams have no back-offs
_SPELLING = "spelling."  # before the names of tensors with the spellings of unknown words
_WRONG_CONTENT = (KeyError, TypeError, ValueError, ValidationError, InputError)


def save_ngram(model: NgramModel, path: str | PathLike[str]) -> None:
    """Write an n-gram model, replacing the file in one step."""
    tensors = {
        f"{name}.{length}": torch.from_numpy(getattr(level, name))
        for length, level in enumerate(model.levels, start=1)
        for name in (_NAMES if length < model.order else _NAMES[:2])
    }
    _save(path, tensors, {"kind": NGRAM, "order": model.order}, model)


def save_lstm(model: LSTMModel, path: str | PathLike[str]) -> None:
    """Write an LSTM, replacing the file in one step."""
    weights = host_copy(model.network.state_dict())
    _save(path, weights, {"kind": LSTM, "config": asdict(model.network.config)}, model)


def is_ngram_file(path: str | PathLike[str]) -> bool:
    """Return whether a file is one that `save_ngram` wrote, by how it begins."""
    return is_kind_of_file(path, NGRAM)


def is_lstm_file(path: str | PathLike[str]) -> bool:
    """Return whether a file is one that `save_lstm` wrote, by how it begins."""
    return is_kind_of_file(path, LSTM)


def names_sequence_model(name: str) -> bool:
    """Return whether a name is that of a file with an n-gram model or an LSTM."""
    return Path(name).is_file() and (is_ngram_file(name) or is_lstm_file(name))


def load_sequence_model(name: str, device: str = "auto", *, closed_vocabulary: bool = False) -> SequenceModel:
    """Load the n-gram model or LSTM of a file; with a `closed_vocabulary`, without spellings of unknown words."""
    model: SequenceModel = load_ngram(name) if is_ngram_file(name) else load_lstm(name, device)
    if closed_vocabulary:
        model.spelling = None
    return model


def load_ngram(path: str | PathLike[str]) -> NgramModel:
    """Read what `save_ngram` wrote.

    Raises DamagedFileError if it is damaged and InputError if it is no such file.
    """
    file = _read(Path(path), NGRAM, "n-gram model")
    try:
        levels = []
        for length in range(1, file.record["order"] + 1):
            keys, values = (file.tensors[f"{part}.{length}"].numpy() for part in _NAMES[:2])
            weights = file.tensors.get(f"{_NAMES[2]}.{length}")
            levels.append(Level(keys, values, np.zeros(len(keys)) if weights is None else weights.numpy()))
        vocabulary, preprocessing = _words_of(file)
        check_levels(levels, len(vocabulary))
    except _WRONG_CONTENT as error:
        raise DamagedFileError(Path(path), str(error).splitlines()[0]) from None
    return NgramModel(levels, vocabulary, preprocessing, str(path), _spelling_of(file, vocabulary, Path(path)))


def load_lstm(path: str | PathLike[str], device: str = "auto") -> LSTMModel:
    """Read what `save_lstm` wrote, onto a device.

    Raises DamagedFileError if it is damaged and InputError if it is no such file.
    """
    target, name = resolve_device(device), Path(path)
    file = _read(name, LSTM, "LSTM")
    try:
        config = LSTMConfig(**file.record["config"])
        vocabulary, preprocessing = _words_of(file)
    except _WRONG_CONTENT as error:
        raise DamagedFileError(name, str(error).splitlines()[0]) from None
    weights = {key: tensor for key, tensor in file.tensors.items() if not key.startswith(_SPELLING)}
    shapes = {key: list(tensor.shape) for key, tensor in weights.items()}
    with without_memory():
        check_shapes(LSTMNetwork(config, len(vocabulary)), shapes, name)
    network = LSTMNetwork(config, len(vocabulary))
    load_weights(network, weights, name)
    if not all(bool(torch.isfinite(tensor).all()) for tensor in weights.values()):
        raise DamagedFileError(name, "weights are not finite")
    return LSTMModel(network.to(target), vocabulary, preprocessing, str(path), _spelling_of(file, vocabulary, name))


def _save(
    path: str | PathLike[str],
    tensors: dict[str, torch.Tensor],
    record: dict[str, object],
    model: NgramModel | LSTMModel,
) -> None:
    spelling = {} if model.spelling is None else model.spelling.to_tensors()
    tensors = tensors | {f"{_SPELLING}{name}": tensor for name, tensor in spelling.items()}
    words = {"preprocessing": model.preprocessing.model_dump(), "words": list(model.vocabulary.words)}
    write_tensor_file(Path(path), tensors, record | words, vocabulary=model.vocabulary.checksum)


def _read(path: Path, kind: str, name: str) -> TensorFile:
    if path.is_file() and not is_kind_of_file(path, kind):
        raise InputError(f"{path}: is no {name} of simplepcfg; make one by simplepcfg baseline {kind}")
    return read_checked_tensor_file(path)


def _words_of(file: TensorFile) -> tuple[Vocabulary, Preprocessing]:
    """Return the vocabulary and the preprocessing of a file. Raises one of `_WRONG_CONTENT` where they are damaged."""
    return Vocabulary(file.record["words"]), Preprocessing.model_validate(file.record["preprocessing"])


def _spelling_of(file: TensorFile, vocabulary: Vocabulary, path: Path) -> SpellingModel | None:
    """Return the spellings of unknown words; None for a file of an earlier version, which has none."""
    tensors = {key.removeprefix(_SPELLING): tensor for key, tensor in file.tensors.items() if key.startswith(_SPELLING)}
    return SpellingModel.from_tensors(tensors, vocabulary, path) if tensors else None
