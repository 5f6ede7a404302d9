"""Rank-PCFG and TN-PCFG: proper distributions, the contract, and that they learn."""

from typing import Any

import pytest
import torch
from torch import nn

from contract import check_grammar
from model_checks import check_gradients, train_on
from simplepcfg.errors import InputError
from simplepcfg.models import RankPCFG, RankPCFGConfig, TensorPCFG, TensorPCFGConfig

SIZES = {"nonterminals": 5, "preterminals": 9, "rank": 6, "embedding": 16}
KINDS = ["rank-pcfg", "residual rank-pcfg", "tn-pcfg"]


def model(kind: str, **sizes: Any) -> nn.Module:
    torch.manual_seed(0)
    if kind != "tn-pcfg":
        networks = "residual" if kind.startswith("residual") else "released"
        return RankPCFG(RankPCFGConfig(networks=networks, **{**SIZES, **sizes}), 12)  # type: ignore[arg-type]
    return TensorPCFG(TensorPCFGConfig(**{**SIZES, **sizes}), 12)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", KINDS)
def test_rows_sum_to_one(kind: str) -> None:
    grammar = model(kind).grammar()
    simple = grammar.to_simple()
    assert grammar.up.shape == (5, 6)
    assert simple.left.shape == (6, 15)
    for rules in (grammar.root, grammar.up, grammar.to_left, grammar.to_right, simple.root, simple.left, simple.right):
        torch.testing.assert_close(rules.sum(-1), torch.ones(rules.shape[:-1]))
    every_word = torch.arange(1, 12)[None]
    torch.testing.assert_close(grammar.emissions.log_probabilities(every_word).logsumexp(1), torch.zeros(1, 9))


@pytest.mark.parametrize("kind", KINDS)
def test_contract(kind: str) -> None:
    words = torch.tensor([[1, 5, 11, 2, 7], [3, 4, 0, 0, 0], [9, 0, 0, 0, 0]])
    with torch.no_grad():
        check_grammar(model(kind).grammar(), words, torch.tensor([5, 2, 1]))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_every_parameter_gets_a_gradient(kind: str, precision: str) -> None:
    network = model(kind)
    network.precision = precision
    network.loss(torch.tensor([[1, 2, 3, 4], [5, 6, 7, 0]]), torch.tensor([4, 3])).sum().backward()
    check_gradients(network)


@pytest.mark.parametrize("kind", KINDS)
def test_learns_more_than_word_frequencies(kind: str) -> None:
    # From logits that are all near 0 the ranks of residual networks do not part on so little text.
    start = {"init_logit_std": 1} if kind == "residual rank-pcfg" else {}
    network = model(kind, nonterminals=16, preterminals=24, rank=16, embedding=32, **start)
    words = torch.tensor([[1, 2, 3, 4, 5, 6], [7, 8, 9, 10, 11, 1]])
    frequencies = words.flatten().bincount().double() / words.numel()
    unigram = -frequencies[words].log().sum(1).mean()
    train_on(network, words)
    after = -network.eval().log_likelihood(words).mean().detach()
    assert float(after) < 0.8 * float(unigram)


@pytest.mark.parametrize("key", ["nonterminals", "preterminals", "rank", "embedding"])
@pytest.mark.parametrize("config", [RankPCFGConfig, TensorPCFGConfig])
def test_impossible_sizes_are_named(config: type, key: str) -> None:
    with pytest.raises(InputError, match=f"model.{key} = -1"):
        config(**{key: -1})
