"""Perplexity: its two conventions, and what is left out."""

import math

import pytest
import torch

from simplepcfg.errors import InputError, NumericalError
from simplepcfg.evaluation.perplexity import perplexity


@pytest.mark.parametrize(("eos", "tokens"), [(False, 3 + 5), (True, 2 + 4)])
def test_denominator(eos: bool, tokens: int) -> None:
    report = perplexity(torch.tensor([-3.0, -7.0, -99.0]), torch.tensor([2, 4, 1]), eos)
    assert (report.tokens, report.sentences, report.skipped_one_word) == (tokens, 2, 1)
    assert report.log_likelihood == -10.0
    assert report.perplexity == pytest.approx(math.exp(10 / tokens))
    assert f"{tokens} tokens" in report.describe()
    assert "1 one-word sentence left out" in report.describe()


def test_impossible_sentence_makes_it_infinite_and_is_counted() -> None:
    report = perplexity([-3.0, -math.inf], [2, 2], False)
    assert report.perplexity == math.inf
    assert (report.impossible, report.log_likelihood) == (1, -3.0)
    assert "1 sentence of probability 0" in report.describe()
    assert report.rank < perplexity([-1000.0, -1000.0], [2, 2], False).rank


def test_overflow_is_infinite_not_an_error() -> None:
    assert perplexity([-1e6], [2], True).perplexity == math.inf


def test_nan_and_mismatch() -> None:
    with pytest.raises(NumericalError, match="NaN"):
        perplexity([math.nan], [2], True)
    with pytest.raises(InputError, match="2 log-likelihoods for 1 lengths"):
        perplexity([0.0, 0.0], [2], True)


def test_no_sentences() -> None:
    assert math.isnan(perplexity([], [], True).perplexity)
