"""N-gram models as ARPA files, which other programs read too; a comment before the tables holds the preprocessing."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator
from os import PathLike, fspath
from pathlib import Path

from pydantic import ValidationError

from simplepcfg.data.preprocessing import Preprocessing
from simplepcfg.data.readers import open_text
from simplepcfg.data.vocabulary import PAD, Vocabulary
from simplepcfg.errors import InputError
from simplepcfg.evaluation.psycholinguistics.ngram import RESERVED, Ngram, NgramModel

MARK = "# simplepcfg n-gram model "
_NEVER = "-99"  # log10 p of the start of a sentence, which is not predicted


def is_ngram_file(path: str | PathLike[str]) -> bool:
    """Whether a file begins as `save_ngram` begins one; a pipe is not looked into, since it can be read once only."""
    if not Path(path).is_file():
        return False
    try:
        with open(path, "rb") as stream:
            return stream.read(len(MARK)) == MARK.encode()
    except OSError:
        return False


def save_ngram(model: NgramModel, path: str | PathLike[str]) -> None:
    """Write a model, replacing the file in one step; numbers have all their digits."""
    target = Path(path)
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        with open(temporary, "w", encoding="utf-8", newline="\n") as stream:
            stream.writelines(line + "\n" for line in _lines(model))
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)


def load_ngram(path: str | PathLike[str]) -> NgramModel:
    """Read what `save_ngram` wrote."""
    name = fspath(path)
    lines = enumerate(open_text(path), start=1)
    _, first = next(lines, (1, ""))
    number = 1
    try:
        if not first.startswith(MARK):
            raise ValueError
        facts = json.loads(first.removeprefix(MARK))
        vocabulary = Vocabulary([PAD, *facts["words"]])
        preprocessing = Preprocessing.model_validate(facts["preprocessing"])
        ids = {word: index for index, word in enumerate(vocabulary.words)} | {text: n for n, text in RESERVED.items()}
        log_probabilities: list[dict[Ngram, float]] = []
        log_backoffs: list[dict[Ngram, float]] = []
        for number, line in lines:  # noqa: B007 (for the error below)
            if line.endswith("-grams:"):
                log_probabilities.append({})
                log_backoffs.append({})
            elif "\t" in line:
                value, words, *weight = line.split("\t")
                ngram = tuple(ids[word] for word in words.split(" "))
                if value != _NEVER:
                    log_probabilities[-1][ngram] = float(value) * math.log(10)
                if weight:
                    log_backoffs[-1][ngram] = float(weight[0]) * math.log(10)
            elif line == "\\end\\":
                return NgramModel(log_probabilities, log_backoffs[:-1], vocabulary, preprocessing, name)
    except (ValueError, KeyError, TypeError, IndexError, ValidationError):
        raise InputError(
            f"{name}:{number}: is no n-gram model of simplepcfg; make one by simplepcfg baseline ngram"
        ) from None
    raise InputError(f"{name}: ends before \\end\\; make the model again by simplepcfg baseline ngram")


def _lines(model: NgramModel) -> Iterator[str]:
    words = model.vocabulary.words
    facts = {"preprocessing": model.preprocessing.model_dump(), "words": list(words[1:])}
    yield MARK + json.dumps(facts, ensure_ascii=False)
    yield "\\data\\"
    tables = [dict(level) for level in model.log_probabilities]
    for level, weights in zip(tables, model.log_backoffs, strict=False):
        for context in weights:  # the start of a sentence is a context and no event
            level.setdefault(context, math.nan)
    for length, level in enumerate(tables, start=1):
        yield f"ngram {length}={len(level)}"
    for length, level in enumerate(tables, start=1):
        yield ""
        yield f"\\{length}-grams:"
        weights = model.log_backoffs[length - 1] if length < model.order else {}
        for ngram, value in level.items():
            cells = [_NEVER if math.isnan(value) else repr(value / math.log(10))]
            cells.append(" ".join(RESERVED.get(word) or words[word] for word in ngram))
            if ngram in weights:
                cells.append(repr(weights[ngram] / math.log(10)))
            yield "\t".join(cells)
    yield ""
    yield "\\end\\"
