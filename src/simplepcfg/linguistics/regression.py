"""Regression of reading times with and without a predictor: cross-validated log-likelihood, by numpy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simplepcfg.errors import InputError

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Gain:
    """Mean gain in log-likelihood a word (nats) on held-out sentences, with a 95 % interval over sentences."""

    mean: float
    low: float
    high: float


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
