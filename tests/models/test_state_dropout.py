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
from simplepcfg.models.step_dropout import StepDropout

WORDS = torch.tensor([[1, 5, 11, 2, 7], [3, 4, 6, 2, 0]])
LENGTHS = torch.tensor([5, 4])
GRAMMAR: dict[str, Any] = {"nonterminals": 6, "preterminals": 9, "embedding": 16}
SPREAD = GRAMMAR | {"init_logit_std": 1.0}
FEWER = {"nonterminals": 4, "preterminals": 5}
KEPT_SYMBOLS = [0, 2, 3, 5, 6, 8, 9, 12, 14]
CHAIN: dict[str, Any] = {"states": 8, "embedding": 16}
KEPT_STATES = [0, 1, 4, 6, 7]
RESIDUAL = {"networks": "residual", "init_logit_std": 1.0}
# With a row for each symbol that can be left out; of the roots' tables, for each nonterminal.
TABLES = ("symbols", "next_symbols", "emitting_symbols", "start_symbols")
ROOT_TABLES = ("root_embeddings", "root_scores.weight", "root_scores.bias")
CASES: list[Any] = [
    pytest.param(SimpleNPCFGConfig, SPREAD, FEWER, KEPT_SYMBOLS, id="sn-pcfg"),
    pytest.param(SimpleNPCFGConfig, SPREAD | {"rms_norm": True}, FEWER, KEPT_SYMBOLS, id="normalised sn-pcfg"),
    pytest.param(SimpleNPCFGConfig, SPREAD | {"tied_children": True}, FEWER, KEPT_SYMBOLS, id="pcfg-ie"),
    pytest.param(RankPCFGConfig, GRAMMAR | {"rank": 7}, FEWER, KEPT_SYMBOLS, id="rank-pcfg"),
    pytest.param(RankPCFGConfig, GRAMMAR | {"rank": 7} | RESIDUAL, FEWER, KEPT_SYMBOLS, id="residual rank-pcfg"),
    pytest.param(NeuralHMMConfig, CHAIN, {"states": 5}, KEPT_STATES, id="hmm"),
    pytest.param(NeuralHMMConfig, CHAIN | RESIDUAL, {"states": 5}, KEPT_STATES, id="residual hmm"),
    pytest.param(LowRankHMMConfig, CHAIN | {"rank": 3}, {"states": 5}, KEPT_STATES, id="lhmm"),
    pytest.param(LowRankHMMConfig, CHAIN | {"rank": 3} | RESIDUAL, {"states": 5}, KEPT_STATES, id="residual lhmm"),
    pytest.param(RankHMMConfig, CHAIN | {"rank": 3}, {"states": 5}, KEPT_STATES, id="rank-hmm"),
    pytest.param(RankHMMConfig, CHAIN | {"rank": 3} | RESIDUAL, {"states": 5}, KEPT_STATES, id="residual rank-hmm"),
]


def rows_of(name: str, kept: list[int], large: Any) -> Any:
    """Which rows of a table take part where these symbols do."""
    if name in ROOT_TABLES:
        return [row for row in kept if row < large.symbol_groups[0]]
    return kept if name in TABLES else slice(None)


def pair(kind: Any, sizes: dict[str, Any], fewer: dict[str, Any], kept: list[int]) -> tuple[Any, Any]:
    """A model, and the smaller one of those of its symbols that are kept, with the same weights otherwise."""
    torch.manual_seed(0)
    large: Any = build_model(kind(**sizes), 12).double()
    small: Any = build_model(kind(**sizes | fewer), 12).double()
    weights = {name: table[rows_of(name, kept, large)] for name, table in large.state_dict().items()}
    small.load_state_dict(weights)
    return large, small


@pytest.mark.parametrize(("kind", "sizes", "fewer", "kept"), CASES)
@pytest.mark.parametrize("precision", [None, "bf16"])
def test_is_the_smaller_model(kind: Any, sizes: dict, fewer: dict, kept: list[int], precision: str | None) -> None:
    large, small = pair(kind, sizes, fewer, kept)
    large.precision = small.precision = precision
    large.step_dropout = StepDropout(small.symbol_groups, torch.tensor(kept))
    losses = [model.train().loss(WORDS, LENGTHS) for model in (large, small)]
    torch.testing.assert_close(*losses)
    for loss in losses:
        loss.sum().backward()
    for (name, one), (_, other) in zip(large.named_parameters(), small.named_parameters(), strict=True):
        rows = rows_of(name, kept, large)
        left_out = torch.ones(len(one), dtype=torch.bool)
        left_out[rows] = False
        torch.testing.assert_close(one.grad[rows], other.grad)
        assert not one.grad[left_out].any()


@pytest.mark.parametrize(("kind", "sizes", "fewer", "kept"), CASES)
def test_evaluation_sees_everything(kind: Any, sizes: dict, fewer: dict, kept: list[int]) -> None:
    large, small = pair(kind, sizes, fewer, kept)
    expected = large.eval().log_likelihood(WORDS, LENGTHS)
    large.step_dropout = StepDropout(small.symbol_groups, torch.tensor(kept), features=0.5)
    torch.testing.assert_close(large.log_likelihood(WORDS, LENGTHS), expected, rtol=0, atol=0)
    assert not torch.allclose(large.train().log_likelihood(WORDS, LENGTHS), expected)


@pytest.mark.parametrize(("kind", "sizes", "fewer", "kept"), CASES)
def test_features_are_dropped_by_torchs_random_state(kind: Any, sizes: dict, fewer: dict, kept: list[int]) -> None:
    large, _ = pair(kind, sizes, fewer, kept)
    large.train().step_dropout = StepDropout(large.symbol_groups, features=0.3)
    found = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        found.append(large.loss(WORDS, LENGTHS))
    assert torch.equal(found[0], found[1])
    assert not torch.equal(found[0], found[2])


def test_dropped_features_leave_the_rest_larger() -> None:
    torch.manual_seed(0)
    dropped = StepDropout((1,), features=0.25).drop_features(torch.ones(400, 100))
    assert dropped.unique().tolist() == [0.0, pytest.approx(4 / 3)]
    assert float(dropped.mean()) == pytest.approx(1, abs=0.01)


def test_an_lhmm_does_without_some_features() -> None:
    """The step is that of the model which has the others alone, start included; evaluation sees all of them."""
    sizes, rows = CHAIN | {"rank": 6}, [0, 2, 3, 5]
    torch.manual_seed(0)
    large: Any = build_model(LowRankHMMConfig(**sizes), 12).double()
    small: Any = build_model(LowRankHMMConfig(**sizes | {"rank": 4}), 12).double()
    small.load_state_dict(large.state_dict() | {"features": large.features.detach()[rows]})
    whole = large.eval().log_likelihood(WORDS, LENGTHS)
    large.step_dropout = StepDropout(large.symbol_groups, kernel_rows=torch.tensor(rows))
    torch.testing.assert_close(large.train().loss(WORDS, LENGTHS), small.train().loss(WORDS, LENGTHS))
    assert torch.equal(large.eval().log_likelihood(WORDS, LENGTHS), whole)


@pytest.mark.parametrize("networks", ["released", "residual"])
def test_a_rank_hmm_does_without_some_logits(networks: str) -> None:
    """As softmax of the same logits with some at −∞; the rows sum to 1 all the same."""
    torch.manual_seed(0)
    large: Any = build_model(RankHMMConfig(states=200, rank=100, embedding=16, networks=networks), 12).double()
    whole, states = large.eval().log_likelihood(WORDS, LENGTHS), large.symbol_groups
    large.train().step_dropout = StepDropout(states, logits=0.1)
    torch.manual_seed(1)
    _, into, out_of, *_ = large.factors()
    by_state, by_rank = large.symbols @ large.ranks.T, large.ranks @ large.next_symbols.T
    for found, full in ((into, by_state), (out_of, by_rank)):
        gone = found < 1e-9
        assert float(gone.double().mean()) == pytest.approx(0.1, abs=0.01)
        torch.testing.assert_close(found, full.masked_fill(gone, -torch.inf).softmax(-1), rtol=1e-9, atol=1e-12)
    losses = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        losses.append(large.loss(WORDS, LENGTHS))
    assert torch.equal(losses[0], losses[1])
    assert not torch.equal(losses[0], losses[2])
    assert torch.equal(large.eval().log_likelihood(WORDS, LENGTHS), whole)


def test_a_row_may_lose_all_its_logits() -> None:
    torch.manual_seed(0)
    p = torch.full((64, 2), 0.5, requires_grad=True)
    found = StepDropout((64,), logits=0.9).drop_logits(p)
    assert found.isfinite().all()
    assert (found > 0).all()
    found.sum().backward()
    assert p.grad is not None
    assert p.grad.isfinite().all()
