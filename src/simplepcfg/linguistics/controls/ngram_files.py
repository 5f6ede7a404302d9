"""Files of n-gram models: ARPA's text, or one safetensors file, which is smaller and loads in a moment."""

from os import PathLike
from pathlib import Path

import numpy as np
import torch
from pydantic import ValidationError

from simplepcfg.data.preprocessing import Preprocessing
from simplepcfg.data.vocabulary import Vocabulary
from simplepcfg.errors import InputError
from simplepcfg.linguistics.controls.ngram import Level, NgramModel, check_levels
from simplepcfg.linguistics.controls.ngram_arpa import is_arpa_file, load_arpa, save_arpa
from simplepcfg.training.storage.checksums import DamagedFileError
from simplepcfg.training.storage.tensor_files import is_kind_of_file, read_checked_tensor_file, write_tensor_file

KIND = "ngram"
SUFFIX = ".safetensors"
_NAMES = ("keys", "log_probabilities", "log_backoffs")


def save_ngram(model: NgramModel, path: str | PathLike[str]) -> None:
    """Write a model, replacing the file in one step: a name that ends in .safetensors as such, any other as ARPA."""
    if Path(path).suffix != SUFFIX:
        save_arpa(model, path)
        return
    record = {
        "kind": KIND,
        "order": model.order,
        "preprocessing": model.preprocessing.model_dump(),
        "words": list(model.vocabulary.words),
    }
    tensors = {
        f"{name}.{length}": torch.from_numpy(getattr(level, name))
        for length, level in enumerate(model.levels, start=1)
        for name in (_NAMES if length < model.order else _NAMES[:2])
    }
    write_tensor_file(Path(path), tensors, record, vocabulary=model.vocabulary.checksum)


def is_ngram_file(path: str | PathLike[str]) -> bool:
    """Whether a file is one that `save_ngram` wrote, by how it begins."""
    return is_arpa_file(path) or is_kind_of_file(path, KIND)


def load_ngram(path: str | PathLike[str]) -> NgramModel:
    """Read what `save_ngram` wrote.

    Raises DamagedFileError if a safetensors file is damaged and InputError if it is no n-gram model.
    """
    name = Path(path)
    if not is_kind_of_file(name, KIND):
        return load_arpa(path)
    found = read_checked_tensor_file(name)
    try:
        vocabulary = Vocabulary(found.record["words"])
        preprocessing = Preprocessing.model_validate(found.record["preprocessing"])
        levels = []
        for length in range(1, found.record["order"] + 1):
            keys, values = (found.tensors[f"{part}.{length}"].numpy() for part in _NAMES[:2])
            weights = found.tensors.get(f"{_NAMES[2]}.{length}")
            levels.append(Level(keys, values, np.zeros(len(keys)) if weights is None else weights.numpy()))
        check_levels(levels, len(vocabulary))
    except (KeyError, TypeError, ValueError, ValidationError, InputError) as error:
        raise DamagedFileError(name, str(error).splitlines()[0]) from None
    return NgramModel(levels, vocabulary, preprocessing, str(path))
