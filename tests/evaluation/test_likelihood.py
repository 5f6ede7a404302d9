"""One memory budget for everything that is computed in batches."""

import math
from dataclasses import dataclass

import pytest
import torch

from simplepcfg.evaluation.likelihood import BATCH_BYTES, MAX_CELLS, bytes_a_cell, cells_a_batch, log_likelihoods
from simplepcfg.models import SimpleNPCFG, SimpleNPCFGConfig
from simplepcfg.models.settings import ModelSizes


@pytest.mark.parametrize("states", [1, 4096, 10**9])
def test_a_batch_fits_the_budget_or_is_one_sentence(states: int) -> None:
    grammar = ModelSizes(activations=0, rules=0, tags=0, span_numbers=states)
    cells = cells_a_batch(grammar, torch.device("cpu"))
    assert 1 <= cells <= MAX_CELLS
    assert cells == 1 or cells * bytes_a_cell(grammar) <= BATCH_BYTES


class CountingModel:
    """Scores a sentence by its first word, and notes the sizes of the batches it is given."""

    training = True
    shares_rules = True

    def __init__(self) -> None:
        self.sizes: list[tuple[int, ...]] = []
        self.span_numbers = 10**6

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


@dataclass(frozen=True)
class Choosing:
    """A grammar that has a choice of precision; its scores say which it was asked to take."""

    precision: str | None = None
    span_numbers: int = 3

    def log_partition(self, words: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        return torch.full((len(words),), -1.0 if self.precision is None else -2.0)


@pytest.mark.parametrize(("precision", "score"), [(None, -1.0), ("tf32", -2.0)])
def test_precision_is_that_of_the_shared_grammar(precision: str | None, score: float) -> None:
    model = CountingModel()
    model.grammar = lambda: Choosing()
    assert log_likelihoods(model, [[1, 2]], torch.device("cpu"), precision=precision).tolist() == [score]
    assert log_likelihoods(CountingModel(), [[3, 2]], torch.device("cpu"), precision=precision).tolist() == [-3.0]


@pytest.mark.gpu
def test_tf32_charts_give_the_perplexity_of_float32() -> None:
    torch.manual_seed(0)
    config = SimpleNPCFGConfig(nonterminals=512, preterminals=1024, embedding=64, rms_norm=True, init_logit_std=2.0)
    model = SimpleNPCFG(config, 500).cuda()
    sentences = torch.randint(1, 500, (64, 20)).tolist()
    device = torch.device("cuda")
    exact, fast = (log_likelihoods(model, sentences, device, precision=choice) for choice in (None, "tf32"))
    assert not torch.equal(exact, fast)
    tokens = sum(map(len, sentences))
    assert (fast - exact).sum().abs() / tokens < 1e-4  # of the logarithm of perplexity
