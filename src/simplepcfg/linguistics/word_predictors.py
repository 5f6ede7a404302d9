"""Numbers for each word of a reading experiment: length, frequency, and its surprisal."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from simplepcfg.data.raw_text import sentences_of_paragraph
from simplepcfg.linguistics.item_tables import ItemTable, score_item_table
from simplepcfg.linguistics.word_model import WordModel, words_of_item

Array = NDArray[np.float64]


def row_surprisals(model: WordModel, table: ItemTable) -> tuple[Array, NDArray[np.bool_]]:
    """Compute the surprisal of each row (bits, NaN where there is none), and where the model sees an unknown word."""
    scores = score_item_table(model, table)
    nats = [math.nan if score.surprisal is None else score.surprisal for score in scores]
    return np.array(nats) / math.log(2), np.array([score.has_unknown for score in scores])


def word_lengths(words: Sequence[str]) -> Array:
    """Count the letters and digits of each word."""
    return np.array([sum(map(str.isalnum, word)) for word in words], dtype=np.float64)


def log_frequencies(words: Sequence[str], counts: Counter[str]) -> Array:
    """Return log2 of each word's share of a text, one added to its count; a word of several tokens has its rarest's."""
    total = sum(counts.values()) + 1
    frequencies = {word: math.log2((_rarest(word, counts) + 1) / total) for word in set(words)}
    return np.array([frequencies[word] for word in words])


def _rarest(word: str, counts: Counter[str]) -> int:
    """Return the count of a word's rarest token; of `mr` and `mr.` the larger one counts."""
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
