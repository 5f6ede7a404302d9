"""Numbers for each word of a reading experiment: length, frequency, and what a model says about it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from simplepcfg.data.raw_text import sentences_of_paragraph
from simplepcfg.errors import InputError
from simplepcfg.linguistics.item_tables import ItemTable, score_item_table
from simplepcfg.linguistics.word_model import ENTROPIES, INFORMATION, WordModel, words_of_item

Array = NDArray[np.float64]


class Predictor(StrEnum):
    """A number that a model gives a word. The last one looks ahead: it is of the trees of the whole sentence."""

    surprisal = "surprisal"
    entropy = "entropy"
    entropy_reduction = "entropy-reduction"
    syntactic_surprisal = "syntactic-surprisal"
    lexical_surprisal = "lexical-surprisal"
    depth = "depth"


PARTS = frozenset([Predictor.syntactic_surprisal, Predictor.lexical_surprisal])
FROM_TREES = frozenset([Predictor.depth])


@dataclass(frozen=True, slots=True)
class ModelPredictors:
    """A model's predictors, each [rows] with NaN where there is none, and where it sees an unknown word."""

    model: str
    values: dict[Predictor, Array]
    unknown: NDArray[np.bool_]


def model_predictors(model: WordModel, table: ItemTable, wanted: Iterable[Predictor]) -> ModelPredictors:
    """Compute the predictors of each row of a table, information in bits.

    `surprisal` and its parts, `syntactic-surprisal` and `lexical-surprisal`, are summed over a word's tokens. `entropy`
    is that of the next token before the word is seen, and `entropy-reduction` by how much it is larger than that after
    the word, or 0. `depth` is the expected number of constituents of two words or more over the word's last
    token, in the trees of the whole sentence: it depends on words that the reader has not seen.
    """
    chosen = {Predictor.surprisal, *wanted}
    asked = {"entropies": any(name.name in ENTROPIES for name in chosen), "depths": Predictor.depth in chosen}
    scores = score_item_table(model, table, **asked)
    values = {
        Predictor[name]: _column([getattr(score, name) for score in scores]) / math.log(2) for name in INFORMATION
    }
    for part in chosen & PARTS:
        if np.isnan(values[part]).all():
            raise InputError(
                f"{model.name}: has no preterminals, hence no {part.value}; ask for other predictors, or give a run"
            )
    if Predictor.depth in chosen:
        values[Predictor.depth] = _column([score.depth for score in scores])
        if np.isnan(values[Predictor.depth]).all():
            raise InputError(f"{model.name}: has no trees, hence no depth; ask for other predictors")
    unknown = np.array([score.has_unknown for score in scores])
    return ModelPredictors(model.name, {name: values[name] for name in Predictor if name in chosen}, unknown)


def word_lengths(words: Sequence[str]) -> Array:
    """Count the letters and digits of each word."""
    return np.array([sum(map(str.isalnum, word)) for word in words], dtype=np.float64)


def log_frequencies(words: Sequence[str], counts: Counter[str]) -> Array:
    """log2 of each word's share of a text, one added to its count; of a word of several tokens, the rarest one's."""
    total = sum(counts.values()) + 1
    frequencies = {word: math.log2((_rarest(word, counts) + 1) / total) for word in set(words)}
    return np.array([frequencies[word] for word in words])


def _rarest(word: str, counts: Counter[str]) -> int:
    """Return the count of a word's rarest token, of `Mr.` that of its more frequent form."""
    written = word.lower()
    return min(
        (max(counts[token], counts[f"{token}."] * (f"{token}." in written)) for token in plain_tokens(word)), default=0
    )


def token_counts(lines: Iterable[str]) -> Counter[str]:
    """Count each token in lines of text, whatever its case: sentences, raw or tokenised, or paragraphs."""
    counts: Counter[str] = Counter()
    for line in lines:
        for sentence in sentences_of_paragraph(line):
            counts.update(plain_tokens(sentence))
    return counts


def plain_tokens(text: str) -> list[str]:
    """Return the tokens with a letter or digit, in lower case."""
    return [token.lower() for token in words_of_item(text) if any(map(str.isalnum, token))]


def _column(values: Iterable[float | None]) -> Array:
    return np.array([math.nan if value is None else value for value in values], dtype=np.float64)
