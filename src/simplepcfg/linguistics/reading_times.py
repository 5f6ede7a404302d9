"""Do a model's surprisals predict reading times beyond the length and frequency of words?"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

from simplepcfg.errors import InputError
from simplepcfg.linguistics.item_tables import ItemTable, previous_rows
from simplepcfg.linguistics.regression import (
    Array,
    Gain,
    design_matrix,
    gain,
    held_out_log_likelihood,
    least_squares,
    sentence_folds,
)
from simplepcfg.linguistics.word_model import WordModel
from simplepcfg.linguistics.word_predictors import log_frequencies, row_surprisals, word_lengths

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

    def to_dict(self) -> dict[str, object]:
        """Return plain values for JSON."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class UsedWords:
    """The words of a table that all models are compared on, and why the other ones are left out."""

    rows: NDArray[np.int64]
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
    known, whole = (
        _Regression(
            _with_previous(some.rows, before),
            np.log(times[some.rows]),
            _numbers_of_sentences(table)[some.rows],
            baseline,
            folds,
            resamples,
            seed,
        )
        for some in (used, every)
    )
    results = []
    for model, values in zip(models, surprisals, strict=True):
        alone, all_words = (each.gain(values) for each in (known, whole))
        results.append(
            ReadingTimeGain(
                model.name,
                time,
                len(known.outcome),
                len(np.unique(known.sentences)),
                *(alone.mean, alone.low, alone.high),
                len(whole.outcome),
                *(all_words.mean, all_words.low, all_words.high),
                *known.slopes(values),
            )
        )
    return results, used


@dataclass(frozen=True)
class _Regression:
    """Times of some words, and regressions of them on values of this word and of those before."""

    places: list[NDArray[np.int64]]  # rows of the words, of those before, and so on
    outcome: Array
    sentences: NDArray[np.int64]  # the number of the sentence of each word
    baseline: list[Array]
    folds: int
    resamples: int
    seed: int

    def gain(self, values: Array) -> Gain:
        """Return what values add to the baseline."""
        difference = self._log_likelihood([values]) - self._log_likelihood([])
        return gain(difference, self.sentences, self.resamples, self.seed)

    def slopes(self, values: Array) -> tuple[float, float, float]:
        """Return the slopes of values, of this word and of the two before, in the linear fit to all words."""
        *_, this, before, before_that = least_squares(self._design([values]), self.outcome)[0].tolist()
        return this, before, before_that

    def _design(self, values: Sequence[Array]) -> Array:
        return design_matrix([column[rows] for column in (*self.baseline, *values) for rows in self.places])

    def _log_likelihood(self, values: Sequence[Array]) -> Array:
        dealt = sentence_folds(self.sentences, self.folds, self.seed)
        return held_out_log_likelihood(self._design(values), self.outcome, dealt)


def _numbers_of_sentences(table: ItemTable) -> NDArray[np.int64]:
    numbers = np.empty(len(table.rows), dtype=np.int64)
    for number, rows in enumerate(table.sentences):
        numbers[rows] = number
    return numbers


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
    return UsedWords(np.array(rows, dtype=np.int64), dict(left_out))


def _with_previous(rows: NDArray[np.int64], before: Sequence[Sequence[int | None]]) -> list[NDArray[np.int64]]:
    """Return the rows themselves, those of the word before, and so on."""
    steps = [[before[row][step] for row in rows.tolist()] for step in range(BEFORE)]
    return [rows, *(np.array(step, dtype=np.int64) for step in steps)]
