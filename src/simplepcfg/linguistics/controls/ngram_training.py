"""Interpolated modified Kneser-Ney smoothing (Chen and Goodman 1998).

With a(h w) the adjusted count of an n-gram, its own count for the longest n-grams and for those that begin with the
start of a sentence, else the number of different words before it:

    p(w | h) = (a(h w) − D(a(h w))) / a(h ·) + γ(h) p(w | h without its first word)
    γ(h)     = (D1 N1(h ·) + D2 N2(h ·) + D3 N3+(h ·)) / a(h ·)

where Nk(h ·) is the number of words w with a(h w) = k, a(h ·) the sum over all w, and below the unigrams lies the
uniform distribution over the vocabulary and the end. A context that never occurred gives way to the next shorter one.

Every place of the text has the index of the n-gram that ends there; sorting keys (see ``Level``) takes all places from
one length to the next. Memory is about 80 bytes a word of the text and 40 bytes an n-gram.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from simplepcfg.data.encoded_text import EncodedText
from simplepcfg.data.preprocessing import Preprocessing
from simplepcfg.data.spelling import SpellingModel
from simplepcfg.data.vocabulary import EOS, Vocabulary
from simplepcfg.errors import InputError
from simplepcfg.linguistics.controls.ngram import Floats, Ints, Level, NgramModel, lines_of
from simplepcfg.progress import stage

FALLBACK_DISCOUNTS = (0.5, 1.0, 1.5)  # where a text is too small to estimate them
MOST_ORDER = 10


def discounts(counts: ArrayLike) -> Floats:
    """Estimate the discounts of the adjusted counts 0, 1, 2, and 3 or more, [4], from those of all n-grams of a length.

    Chen and Goodman's estimate is from how many n-grams occur once to four times; where it fails, a usual one is taken.
    """
    n1, n2, n3, n4 = np.bincount(np.minimum(counts, 5), minlength=5)[1:5].tolist()
    if n1 and n2 and n3 and n4:
        share = n1 / (n1 + 2 * n2)
        estimated = (1 - 2 * share * n2 / n1, 2 - 3 * share * n3 / n2, 3 - 4 * share * n4 / n3)
        if all(0 < value <= count for count, value in enumerate(estimated, start=1)):
            return np.array([0.0, *estimated])
    return np.array([0.0, *FALLBACK_DISCOUNTS])


@dataclass(slots=True)
class _Counted:
    """The n-grams of one length that end in a word or in the end of a sentence, sorted by their keys."""

    keys: Ints
    counts: Ints  # how often each occurs; afterwards the adjusted count
    contexts: Ints  # index of the words before the last one, in the level below
    shorter: Ints  # index of all words but the first, in the level below
    begins: NDArray[np.bool_]  # whether the first word is the start of a sentence


def train_ngram(
    sentences: Iterable[Sequence[str]],
    vocabulary: Vocabulary,
    preprocessing: Preprocessing,
    order: int = 3,
    name: str = "n-gram",
    spelling: SpellingModel | None = None,
) -> NgramModel:
    """Estimate a model from sentences of prepared tokens, which are read once and held as ids.

    Words outside the vocabulary count as `<unk>`, an `<eos>` at the end of a sentence as the model's own end.
    `spelling` tells unknown words apart.
    """
    if not 1 <= order <= MOST_ORDER:
        raise InputError(f"order = {order}; take 1 to {MOST_ORDER}, usually 3")
    contents = (tokens[:-1] if tokens and tokens[-1] == EOS else tokens for tokens in sentences)
    text = EncodedText.of(vocabulary.encode(tokens) for tokens in contents if tokens)
    if not len(text):
        raise InputError("no sentence with words to learn an n-gram model from; give more text")
    with stage("counting n-grams", order) as advance:
        levels = _smoothed(_counted(text, len(vocabulary), order, advance))
    return NgramModel(levels, vocabulary, preprocessing, name, spelling)


def _counted(text: EncodedText, size: int, order: int, advance: Callable[[float], None]) -> list[_Counted]:
    """Count the n-grams of all lengths, and adjust the counts; tell of each length that is done."""
    codes, depths = lines_of(text, size)
    # The start of a sentence is a context and no event, so its count is 0.
    single = np.bincount(codes[depths > 0], minlength=size + 1)
    begins = np.arange(size + 1) == size
    levels = [_Counted(np.arange(size + 1), single, np.zeros_like(single), np.zeros_like(single), begins)]
    indices = codes  # of the n-gram that ends at each place
    for length in range(2, order + 1):
        advance(1)
        below, places = levels[-1], np.flatnonzero(depths >= length - 1)
        keys, inverse, counts = np.unique(
            indices[places - 1] * (size + 1) + codes[places], return_inverse=True, return_counts=True
        )
        contexts, words = np.divmod(keys, size + 1)
        shorter = words if length == 2 else np.searchsorted(below.keys, below.shorter[contexts] * (size + 1) + words)
        levels.append(_Counted(keys, counts, contexts, shorter, below.begins[contexts]))
        # Every longer n-gram is one more word before its ending.
        before = np.bincount(shorter, minlength=len(below.keys))
        below.counts = np.where(below.begins, below.counts, before)
        indices = np.zeros_like(codes)
        indices[places] = inverse
    return levels


def _smoothed(levels: Sequence[_Counted]) -> list[Level]:
    """Return log-probabilities and back-off weights."""
    smoothed: list[Level] = []
    probabilities, sizes = np.zeros(1), 1  # of the level below; its size
    for level in levels:
        taken = discounts(level.counts)[np.minimum(level.counts, 3)]
        totals = np.bincount(level.contexts, level.counts, sizes)
        weights = np.ones(sizes)
        np.divide(np.bincount(level.contexts, taken, sizes), totals, out=weights, where=totals > 0)
        if smoothed:
            smoothed[-1].log_backoffs[:] = np.log(weights)
            lower = probabilities[level.shorter]
        else:  # uniform over the vocabulary and the end, which has the place of padding; the start is no event
            lower = np.where(level.begins, 0.0, 1 / (len(level.keys) - 1))
        probabilities = (level.counts - taken) / totals[level.contexts] + weights[level.contexts] * lower
        sizes = len(level.keys)
        with np.errstate(divide="ignore"):  # the start
            smoothed.append(Level(level.keys, np.log(probabilities), np.zeros(sizes)))
    return smoothed
