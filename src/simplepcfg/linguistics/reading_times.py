"""Do a model's surprisals predict reading times beyond the length and frequency of words?"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from simplepcfg.errors import InputError
from simplepcfg.linguistics.item_tables import ItemTable, previous_rows
from simplepcfg.linguistics.word_model import WordModel
from simplepcfg.linguistics.word_predictors import Array, log_frequencies, row_surprisals, word_lengths

BEFORE = 2  # words before this one whose predictors count too: effects spill over
MISSING = ("", "NA", "NaN", "nan")


@dataclass(frozen=True, slots=True)
class ReadingTimeGain:
    """The gain of a model's surprisal: log-likelihood a word in nats, on sentences that were not fitted.

    `gain` is over the baseline of lengths and frequencies; `gain_with_unknown` is `gain` where unknown words and those
    after them are not left out. The slopes are those of the linear model fitted to all words, of this word and of the
    two before, per bit in units of the natural logarithm of the time.
    """

    model: str
    time: str
    words: int
    sentences: int
    gain: float
    low: float
    high: float
    words_with_unknown: int
    gain_with_unknown: float
    with_unknown_low: float
    with_unknown_high: float
    slope: float
    slope_prev1: float
    slope_prev2: float


class Gain(NamedTuple):
    """Mean gain in log-likelihood a word (nats) on held-out sentences, with a 95 % interval over sentences."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class UsedWords:
    """The words of a table that all models are compared on, and why the other ones are left out."""

    rows: list[int]
    left_out: dict[str, int]


def evaluate_reading_times(
    models: Sequence[WordModel],
    table: ItemTable,
    counts: Counter[str],
    *,
    time: str = "mean_rt",
    folds: int = 10,
    resamples: int = 1000,
    seed: int = 0,
) -> tuple[list[ReadingTimeGain], UsedWords]:
    """Measure what the surprisal of each model adds, in order; the words used are the same for all.

    `counts` are those of the tokens of some text, for frequencies. Left out are the first two words of a sentence (they
    have no two before them), its last word, words without a time, and words where they themselves or one of the two
    before have no finite surprisal or are unknown to a model; for one of the gains unknown words are kept.
    """
    if resamples < 1:
        raise InputError(f"resamples = {resamples}; give at least one")
    words = table.column(table.text_column)
    times = _times(table, time)
    before = previous_rows(table, BEFORE)
    surprisals, unknown = zip(*(row_surprisals(model, table) for model in models), strict=True)
    used, every = (_used_words(table, times, before, surprisals, unknown, kept) for kept in (False, True))
    baseline = [word_lengths(words), log_frequencies(words, counts)]
    sentence_of = {row: number for number, rows in enumerate(table.sentences) for row in rows}

    def compare(chosen: UsedWords, values: Array) -> tuple[Gain, list[float]]:
        """Return what surprisals add to the baseline, and their slopes in the linear fit to all words."""
        near = np.array([(row, *before[row]) for row in chosen.rows], dtype=np.int64).T  # [3, words]
        without, within = (
            design_matrix([column[rows] for column in columns for rows in near])
            for columns in (baseline, [*baseline, values])
        )
        outcome, sentences = np.log(times[chosen.rows]), np.array([sentence_of[row] for row in chosen.rows])
        dealt = sentence_folds(sentences, folds, seed)
        difference = held_out_log_likelihood(within, outcome, dealt) - held_out_log_likelihood(without, outcome, dealt)
        slopes = least_squares(within, outcome)[0][-len(near) :]
        return gain(difference, sentences, resamples, seed), slopes.tolist()

    results = []
    for model, values in zip(models, surprisals, strict=True):
        (known, slopes), (all_words, _) = compare(used, values), compare(every, values)
        counted = len(used.rows), len({sentence_of[row] for row in used.rows})
        results.append(ReadingTimeGain(model.name, time, *counted, *known, len(every.rows), *all_words, *slopes))
    return results, used


def _times(table: ItemTable, name: str) -> Array:
    """Return a column of numbers, NaN where one is missing."""
    numbers = []
    for number, cell in zip(table.numbers, table.column(name), strict=True):
        try:
            numbers.append(math.nan if cell.strip() in MISSING else float(cell))
        except ValueError:
            raise InputError(f"{table.name}:{number}: {name} is {cell!r}; give a number, or NA") from None
    return np.array(numbers)


def _used_words(
    table: ItemTable,
    times: Array,
    before: Sequence[Sequence[int | None]],
    surprisals: Sequence[Array],
    unknown_to: Sequence[NDArray[np.bool_]],
    keep_unknown: bool,
) -> UsedWords:
    last = {rows[-1] for rows in table.sentences}
    unknown = np.any(unknown_to, axis=0)
    missing = np.any([~np.isfinite(values) for values in surprisals], axis=0)
    rows, left_out = [], Counter[str]()
    for row, earlier in enumerate(before):
        near = [row, *(place for place in earlier if place is not None)]
        if len(near) <= BEFORE or row in last:
            left_out["at the beginning or end of a sentence"] += 1
        elif not times[row] > 0 or not math.isfinite(times[row]):
            left_out["without a reading time"] += 1
        elif not keep_unknown and unknown[near].any():
            left_out["unknown to a model, or after such a word"] += 1
        elif missing[near].any():
            left_out["without a surprisal, or after such a word"] += 1
        else:
            rows.append(row)
    if not rows:
        reasons = ", ".join(f"{count} {reason}" for reason, count in left_out.items())
        raise InputError(f"{table.name}: no word is left to predict ({reasons}); give more, or whole sentences")
    return UsedWords(rows, dict(left_out))


def least_squares(design: Array, outcome: Array) -> tuple[Array, float]:
    """Compute the coefficients of ordinary least squares, [columns], and the variance of the residuals."""
    coefficients: Array = np.linalg.lstsq(design, outcome, rcond=None)[0].astype(np.float64)
    residuals = outcome - design @ coefficients
    return coefficients, float(np.mean(residuals**2))


def held_out_log_likelihood(design: Array, outcome: Array, folds: NDArray[np.int64]) -> Array:
    """Compute log p of each outcome under the normal linear model fitted to all other folds, [rows]."""
    log_likelihoods = np.empty(len(outcome))
    for fold in np.unique(folds):
        inside = folds == fold
        coefficients, variance = least_squares(design[~inside], outcome[~inside])
        if not variance > 0:
            raise InputError("the reading times are predicted without any error; give more than a few different words")
        squares = (outcome[inside] - design[inside] @ coefficients) ** 2
        log_likelihoods[inside] = -0.5 * (np.log(2 * np.pi * variance) + squares / variance)
    return log_likelihoods


def sentence_folds(sentences: NDArray[np.int64], count: int, seed: int) -> NDArray[np.int64]:
    """Draw a fold for each row, [rows], so that all words of a sentence are in the same fold."""
    names, which = np.unique(sentences, return_inverse=True)
    if not 2 <= count <= len(names):
        raise InputError(f"folds = {count}; take 2 or more, and at most as many as there are sentences: {len(names)}")
    order = np.random.default_rng(seed).permutation(len(names))
    return (order % count)[which]


def gain(differences: Array, sentences: NDArray[np.int64], resamples: int, seed: int) -> Gain:
    """Compute the mean of differences a word, with an interval by a bootstrap over sentences."""
    _, which = np.unique(sentences, return_inverse=True)
    sums, counts = np.bincount(which, weights=differences), np.bincount(which).astype(np.float64)
    generator = np.random.default_rng(seed)
    drawn = np.empty(resamples)
    for place in range(resamples):
        chosen = generator.integers(len(sums), size=len(sums))
        drawn[place] = sums[chosen].sum() / counts[chosen].sum()
    low, high = np.quantile(drawn, [0.025, 0.975])
    return Gain(float(differences.mean()), float(low), float(high))


def design_matrix(columns: Sequence[Array]) -> Array:
    """Return an intercept and the columns, [rows, 1 + columns]."""
    return np.stack([np.ones(len(columns[0])), *columns], 1)
