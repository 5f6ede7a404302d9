"""LSTM language models as one safetensors file with sizes, vocabulary and preprocessing in its header."""

from dataclasses import asdict
from os import PathLike
from pathlib import Path

import torch
from pydantic import ValidationError

from simplepcfg.data.preprocessing import Preprocessing
from simplepcfg.data.vocabulary import Vocabulary
from simplepcfg.errors import InputError
from simplepcfg.linguistics.controls.lstm import LSTMConfig, LSTMModel, LSTMNetwork
from simplepcfg.models.without_memory import without_memory
from simplepcfg.training.machine.device import resolve_device
from simplepcfg.training.storage.checksums import DamagedFileError
from simplepcfg.training.storage.tensor_files import (
    check_shapes,
    host_copy,
    is_kind_of_file,
    load_weights,
    read_checked_tensor_file,
    write_tensor_file,
)

KIND = "lstm"


def save_lstm(model: LSTMModel, path: str | PathLike[str]) -> None:
    """Write a model with a checksum, replacing the file in one step."""
    record = {
        "kind": KIND,
        "config": asdict(model.network.config),
        "preprocessing": model.preprocessing.model_dump(),
        "words": list(model.vocabulary.words),
    }
    weights = host_copy(model.network.state_dict())
    write_tensor_file(Path(path), weights, record, vocabulary=model.vocabulary.checksum)


def is_lstm_file(path: str | PathLike[str]) -> bool:
    """Whether a file is one that `save_lstm` wrote, by how it begins."""
    return is_kind_of_file(path, KIND)


def load_lstm(path: str | PathLike[str], device: str = "auto") -> LSTMModel:
    """Read what `save_lstm` wrote, onto a device.

    Raises DamagedFileError if it is damaged and InputError if it is no such file.
    """
    target, name = resolve_device(device), Path(path)
    if name.is_file() and not is_lstm_file(name):
        raise InputError(f"{name}: is no LSTM of simplepcfg; make one by simplepcfg baseline lstm")
    found = read_checked_tensor_file(name)
    try:
        config = LSTMConfig(**found.record["config"])
        vocabulary = Vocabulary(found.record["words"])
        preprocessing = Preprocessing.model_validate(found.record["preprocessing"])
    except (KeyError, TypeError, ValidationError, InputError) as error:
        raise DamagedFileError(name, str(error).splitlines()[0]) from None
    with without_memory():
        check_shapes(
            LSTMNetwork(config, len(vocabulary)), {key: list(t.shape) for key, t in found.tensors.items()}, name
        )
    network = LSTMNetwork(config, len(vocabulary))
    load_weights(network, found.tensors, name)
    if not all(bool(torch.isfinite(tensor).all()) for tensor in found.tensors.values()):
        raise DamagedFileError(name, "weights are not finite")
    return LSTMModel(network.to(target), vocabulary, preprocessing, str(path))
