"""One memory budget for everything that is computed in batches."""

import math
from types import SimpleNamespace

import pytest
import torch

from simplepcfg.evaluation.likelihood import BATCH_BYTES, MOST_CELLS, bytes_a_cell, cells_a_batch, log_likelihoods


@pytest.mark.parametrize("states", [1, 4096, 10**9])
def test_a_batch_fits_the_budget_or_is_one_sentence(states: int) -> None:
    grammar = SimpleNamespace(root=torch.empty(states, device="meta"))
    cells = cells_a_batch(grammar, torch.device("cpu"))
    assert 1 <= cells <= MOST_CELLS
    assert cells == 1 or cells * bytes_a_cell(grammar) <= BATCH_BYTES


class CountingModel:
    """Scores a sentence by its first word, and notes the sizes of the batches it is given."""

    training = True
    shares_rules = True

    def __init__(self) -> None:
        self.sizes: list[tuple[int, ...]] = []
        self.root = torch.ones(10**6)

    def eval(self) -> None:
        self.training = False

    def train(self, mode: bool) -> None:
        self.training = mode

    def grammar(self) -> "CountingModel":
        return self

    def log_partition(self, words: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        assert not self.training
        self.sizes.append(tuple(words.shape))
        return -words[:, 0].float()


def test_every_sentence_gets_its_own_score() -> None:
    sentences = [[number + 1] * (1 + number % 4) for number in range(23)]
    model, calls = CountingModel(), []
    found = log_likelihoods(model, sentences, torch.device("cpu"), lambda: calls.append(1))
    expected = [-math.inf if len(sentence) < 2 else -float(sentence[0]) for sentence in sentences]
    assert found.tolist() == expected
    assert found.dtype == torch.float64
    assert len(calls) == len(model.sizes) > 1
    assert model.training
    assert log_likelihoods(model, [[3], []], torch.device("cpu")).tolist() == [-math.inf] * 2
