"""N-gram models as one safetensors file each, with vocabulary, preprocessing and order in its header and a checksum."""

from os import PathLike
from pathlib import Path

import numpy as np
import torch
from pydantic import ValidationError

from simplepcfg.data.preprocessing import Preprocessing
from simplepcfg.data.spelling import SpellingModel
from simplepcfg.data.vocabulary import Vocabulary
from simplepcfg.errors import InputError
from simplepcfg.linguistics.controls.ngram import Level, NgramModel
from simplepcfg.runs.checksums import DamagedFileError
from simplepcfg.runs.tensor_files import read_tensor_file, write_tensor_file

NGRAM = "ngram"
_HEADER_START = 1024  # bytes within which the record begins
_BEGINNING = b'"record":"{\\"kind\\": \\"ngram\\"'
_NAMES = ("keys", "log_probabilities", "log_backoffs")  # the longest n-grams have no back-offs
_SPELLING = "spelling."  # before the names of tensors with the spellings of unknown words


def save_ngram(model: NgramModel, path: str | PathLike[str]) -> None:
    """Write an n-gram model, replacing the file in one step."""
    tensors = {
        f"{name}.{length}": torch.from_numpy(getattr(level, name))
        for length, level in enumerate(model.levels, start=1)
        for name in (_NAMES if length < model.order else _NAMES[:2])
    }
    spelling = {} if model.spelling is None else model.spelling.to_tensors()
    tensors |= {f"{_SPELLING}{name}": tensor for name, tensor in spelling.items()}
    record: dict[str, object] = {
        "kind": NGRAM,
        "order": model.order,
        "preprocessing": model.of_training.model_dump(),
        "words": list(model.vocabulary.words),
    }
    write_tensor_file(Path(path), tensors, record, vocabulary=model.vocabulary.checksum)


def is_ngram_file(path: str | PathLike[str]) -> bool:
    """Return whether a file is one that `save_ngram` wrote, by the start of its header: a truncated file has it.

    A pipe is not looked into, since it can be read once only.
    """
    if not Path(path).is_file():
        return False
    try:
        with open(path, "rb") as stream:
            return _BEGINNING in stream.read(_HEADER_START)
    except OSError:
        return False


def load_ngram(path: str | PathLike[str], *, closed_vocabulary: bool = False) -> NgramModel:
    """Read what `save_ngram` wrote; with a `closed_vocabulary`, without spellings of unknown words.

    Raises DamagedFileError if it is damaged and InputError if it is no such file.
    """
    place = Path(path)
    if place.is_file() and not is_ngram_file(place):
        raise InputError(f"{path}: is no n-gram model of simplepcfg; make one by simplepcfg baseline ngram")
    file = read_tensor_file(place)
    try:
        levels = []
        for length in range(1, file.record["order"] + 1):
            keys, values = (file.tensors[f"{part}.{length}"].numpy() for part in _NAMES[:2])
            weights = file.tensors.get(f"{_NAMES[2]}.{length}")
            levels.append(Level(keys, values, np.zeros(len(keys)) if weights is None else weights.numpy()))
        vocabulary = Vocabulary(file.record["words"])
        preprocessing = Preprocessing.model_validate(file.record["preprocessing"])
    except (KeyError, TypeError, ValueError, ValidationError, InputError) as error:
        raise DamagedFileError(place, str(error).splitlines()[0]) from None
    spelled = {key.removeprefix(_SPELLING): value for key, value in file.tensors.items() if key.startswith(_SPELLING)}
    spelling = SpellingModel.from_tensors(spelled, vocabulary, place) if spelled and not closed_vocabulary else None
    return NgramModel(levels, vocabulary, preprocessing, str(path), spelling)
