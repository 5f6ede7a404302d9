"""A training step that leaves symbols out is the step of the smaller model; evaluation sees everything."""

from typing import Any

import pytest
import torch

from simplepcfg.models import build_model
from simplepcfg.models.low_rank_hmm import LowRankHMMConfig
from simplepcfg.models.neural_hmm import NeuralHMMConfig
from simplepcfg.models.rank_hmm import RankHMMConfig
from simplepcfg.models.rank_pcfg import RankPCFGConfig
from simplepcfg.models.simple_npcfg import SimpleNPCFGConfig
from simplepcfg.models.thinning import Thinning

WORDS = torch.tensor([[1, 5, 11, 2, 7], [3, 4, 6, 2, 0]])
LENGTHS = torch.tensor([5, 4])
GRAMMAR = {"nonterminals": 6, "preterminals": 9, "embedding": 16, "residual_blocks": 1}
FEWER = {"nonterminals": 4, "preterminals": 5}
KEPT_SYMBOLS = [0, 2, 3, 5, 6, 8, 9, 12, 14]
TABLES = ("symbols", "next_symbols")  # with a row for each symbol that can be left out
CASES: list[Any] = [
    pytest.param(SimpleNPCFGConfig, GRAMMAR, FEWER, KEPT_SYMBOLS, id="sn-pcfg"),
    pytest.param(SimpleNPCFGConfig, GRAMMAR | {"normalised": True}, FEWER, KEPT_SYMBOLS, id="normalised sn-pcfg"),
    pytest.param(SimpleNPCFGConfig, GRAMMAR | {"tied_children": True}, FEWER, KEPT_SYMBOLS, id="pcfg-ie"),
    pytest.param(RankPCFGConfig, GRAMMAR | {"rank": 7}, FEWER, KEPT_SYMBOLS, id="rank-pcfg"),
    pytest.param(NeuralHMMConfig, {"states": 8, "embedding": 16}, {"states": 5}, [0, 1, 4, 6, 7], id="hmm"),
    pytest.param(
        LowRankHMMConfig, {"states": 8, "rank": 3, "embedding": 16}, {"states": 5}, [0, 1, 4, 6, 7], id="lhmm"
    ),
    pytest.param(
        RankHMMConfig, {"states": 8, "rank": 3, "embedding": 16}, {"states": 5}, [0, 1, 4, 6, 7], id="rank-hmm"
    ),
]


def pair(kind: Any, sizes: dict[str, Any], fewer: dict[str, Any], kept: list[int]) -> tuple[Any, Any]:
    """A model, and the smaller one of those of its symbols that are kept, with the same weights otherwise."""
    torch.manual_seed(0)
    large: Any = build_model(kind(**sizes, initial_scores=1.0), 12).double()
    small: Any = build_model(kind(**sizes | fewer, initial_scores=1.0), 12).double()
    tables = {name: table for name, table in large.state_dict().items() if name in TABLES}
    small.load_state_dict(large.state_dict() | {name: table[kept] for name, table in tables.items()})
    return large, small


@pytest.mark.parametrize(("kind", "sizes", "fewer", "kept"), CASES)
@pytest.mark.parametrize("precision", [None, "bf16"])
def test_is_the_smaller_model(kind: Any, sizes: dict, fewer: dict, kept: list[int], precision: str | None) -> None:
    large, small = pair(kind, sizes, fewer, kept)
    large.precision = small.precision = precision
    large.thinning = Thinning(small.symbol_groups, torch.tensor(kept))
    losses = [model.train().loss(WORDS, LENGTHS) for model in (large, small)]
    torch.testing.assert_close(*losses)
    for loss in losses:
        loss.sum().backward()
    for (name, one), (_, other) in zip(large.named_parameters(), small.named_parameters(), strict=True):
        if name in TABLES:
            left_out = torch.ones(len(one), dtype=torch.bool)
            left_out[kept] = False
            torch.testing.assert_close(one.grad[kept], other.grad)
            assert not one.grad[left_out].any()
        else:
            torch.testing.assert_close(one.grad, other.grad)


@pytest.mark.parametrize(("kind", "sizes", "fewer", "kept"), CASES)
def test_evaluation_sees_everything(kind: Any, sizes: dict, fewer: dict, kept: list[int]) -> None:
    large, small = pair(kind, sizes, fewer, kept)
    expected = large.eval().log_likelihood(WORDS, LENGTHS)
    large.thinning = Thinning(small.symbol_groups, torch.tensor(kept), features=0.5)
    torch.testing.assert_close(large.log_likelihood(WORDS, LENGTHS), expected, rtol=0, atol=0)
    assert not torch.allclose(large.train().log_likelihood(WORDS, LENGTHS), expected)


@pytest.mark.parametrize(("kind", "sizes", "fewer", "kept"), CASES)
def test_features_are_dropped_by_torchs_random_state(kind: Any, sizes: dict, fewer: dict, kept: list[int]) -> None:
    large, _ = pair(kind, sizes, fewer, kept)
    large.train().thinning = Thinning(large.symbol_groups, features=0.3)
    found = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        found.append(large.loss(WORDS, LENGTHS))
    assert torch.equal(found[0], found[1])
    assert not torch.equal(found[0], found[2])


def test_dropped_features_leave_the_rest_larger() -> None:
    torch.manual_seed(0)
    thinned = Thinning((1,), features=0.25).thin(torch.ones(400, 100))
    assert thinned.unique().tolist() == [0.0, pytest.approx(4 / 3)]
    assert float(thinned.mean()) == pytest.approx(1, abs=0.01)
