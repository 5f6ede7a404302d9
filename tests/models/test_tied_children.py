"""PCFG-IE: an SN-PCFG whose left and right rules are the same, and the inside algorithm given one tensor twice."""

import pytest
import torch

from contract import check_grammar
from random_grammars import random_case
from simplepcfg.models import SimpleNPCFG, SimpleNPCFGConfig
from simplepcfg.ops.inside import BACKENDS, inside

WORDS = torch.tensor([[1, 5, 11, 2, 7], [3, 4, 6, 0, 0]])
LENGTHS = torch.tensor([5, 3])


def models() -> tuple[SimpleNPCFG, SimpleNPCFG]:
    """A tied model, and an untied one with the same weights."""
    torch.manual_seed(0)
    sizes = {"nonterminals": 5, "preterminals": 9, "embedding": 16}
    tied = SimpleNPCFG(SimpleNPCFGConfig(**sizes, tied_children=True), 12)  # type: ignore[arg-type]
    untied = SimpleNPCFG(SimpleNPCFGConfig(**sizes), 12)  # type: ignore[arg-type]
    weights = tied.state_dict()
    copies = {f"right{name[4:]}": value for name, value in weights.items() if name.startswith("left_child")}
    untied.load_state_dict(weights | copies)
    return tied, untied


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_equals_the_untied_model_with_equal_networks(precision: str) -> None:
    tied, untied = models()
    tied.precision = untied.precision = precision
    assert torch.equal(tied.grammar().left, tied.grammar().right)
    torch.testing.assert_close(tied.loss(WORDS, LENGTHS), untied.loss(WORDS, LENGTHS))
    for network in (tied, untied):
        network.loss(WORDS, LENGTHS).sum().backward()
    both = dict(untied.named_parameters())
    for name, parameter in tied.named_parameters():
        expected = both[name].grad
        if name.startswith("left_child"):
            expected = expected + both[f"right{name[4:]}"].grad  # type: ignore[operator]
        torch.testing.assert_close(parameter.grad, expected, rtol=1e-4, atol=1e-6)


def test_has_fewer_weights_and_keeps_the_contract() -> None:
    tied, untied = models()
    assert len(list(tied.parameters())) < len(list(untied.parameters()))
    with torch.no_grad():
        check_grammar(tied.grammar(), WORDS, LENGTHS)


@pytest.mark.parametrize("backend", sorted(BACKENDS))
@pytest.mark.parametrize("batched", [False, True])
def test_one_tensor_as_left_and_right(backend: str, batched: bool) -> None:
    case = random_case(2, 4, 3, 5, batched=batched)
    emissions, root, left, _ = case.tensors()
    twin = left.detach().clone().requires_grad_()
    once = inside(emissions, root, left, left, backend=backend)
    twice = inside(emissions, root, left, twin, backend=backend)
    torch.testing.assert_close(once, twice)
    (mine,) = torch.autograd.grad(once.sum(), left)
    torch.testing.assert_close(mine, sum(torch.autograd.grad(twice.sum(), (left, twin))))
