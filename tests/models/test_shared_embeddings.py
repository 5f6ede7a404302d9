"""Symbols with one embedding for every network, or one for each."""

from typing import Any

import pytest
import torch

from contract import check_grammar
from simplepcfg.errors import InputError
from simplepcfg.models import SimpleNPCFG, SimpleNPCFGConfig
from simplepcfg.runs.config.schema import TrainingConfig
from simplepcfg.training.step.state_dropout import StateDropout

WORDS, LENGTHS = torch.tensor([[1, 5, 11, 2, 7], [3, 4, 6, 0, 0]]), torch.tensor([5, 3])
SIZES: dict[str, Any] = {"nonterminals": 5, "preterminals": 9, "embedding": 16}


def make(**choices: Any) -> SimpleNPCFG:
    torch.manual_seed(0)
    return SimpleNPCFG(SimpleNPCFGConfig(**SIZES, **choices), 12).double()


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_equal_embeddings_make_the_shared_model(tied: bool, precision: str) -> None:
    shared, own = make(tied_children=tied), make(tied_children=tied, shared_embeddings=False)
    symbols = shared.symbols.detach()
    children = [symbols] * (1 if tied else 2)
    copies = torch.cat([symbols[:5], *children, symbols[5:]])
    own.load_state_dict(shared.state_dict() | {"symbols": copies})
    for model in (shared, own):
        model.precision = precision
        model.loss(WORDS, LENGTHS).sum().backward()
    torch.testing.assert_close(own.loss(WORDS, LENGTHS), shared.loss(WORDS, LENGTHS))
    assert own.symbols.grad is not None
    by_parent, *by_children, by_tag = own.symbols.grad.split([5, *[14] * len(children), 9])
    summed = sum(by_children) + torch.cat([by_parent, by_tag])
    torch.testing.assert_close(summed, shared.symbols.grad)


def test_is_a_grammar() -> None:
    check_grammar(make(shared_embeddings=False).eval().grammar(), WORDS, LENGTHS)


def test_such_symbols_cannot_be_left_out() -> None:
    model = make(shared_embeddings=False)
    with pytest.raises(InputError, match=r"training\.state_dropout = 0\.5 with model\.shared_embeddings = false"):
        StateDropout(model, TrainingConfig(state_dropout=0.5), seed=0)
