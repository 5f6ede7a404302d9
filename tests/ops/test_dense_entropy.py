"""Entropy of ordinary PCFGs over derivations: against full enumeration."""

import math

import pytest
import torch
from torch import Tensor

from dense_oracle import DenseCase, dense_derivations, dense_with_zeros, random_dense_case
from finite_differences import check_derivatives
from random_grammars import random_case
from simplepcfg.grammars import DenseEmissions, SimpleGrammar
from simplepcfg.ops.dense import check_dense_arguments
from simplepcfg.ops.dense.marginals import dense_entropy

LENGTHS = torch.tensor([4, 1, 3, 2])


def cases(number: int, seed: int = 0) -> DenseCase:
    """Flat, with rules of each sentence's own, with zeros."""
    case = random_dense_case(4, 4, 2, 2, scale=1.5, batched=number == 1, seed=seed)
    return dense_with_zeros(case, seed=3 + seed) if number == 2 else case


def bonus_of(n: int = 4) -> Tensor:
    bonus = torch.randn(4, n + 1, n + 1, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    bonus[0, 1, 3] = -math.inf
    return bonus


def weights(case: DenseCase, b: int, bonus: Tensor | None) -> Tensor:
    """log-probabilities of all derivations of a sentence."""
    length = int(LENGTHS[b])
    if length == 1:
        return torch.full((1,), -math.inf, dtype=torch.float64)
    found = dense_derivations(*case.sentence(b, length), None if bonus is None else bonus[b])
    return torch.tensor([weight for weight, _ in found], dtype=torch.float64)


@pytest.mark.parametrize("with_bonus", [False, True])
@pytest.mark.parametrize("number", range(3))
def test_entropy_with_gradients_and_without(number: int, with_bonus: bool) -> None:
    case, bonus = cases(number), bonus_of() if with_bonus else None
    in_graph = dense_entropy(case.arguments(LENGTHS, bonus))
    with torch.no_grad():
        plain = dense_entropy(case.arguments(LENGTHS, bonus))
    assert in_graph.requires_grad
    assert not plain.requires_grad
    for b in range(4):
        logs = weights(case, b, bonus)
        expected = torch.special.entr(logs.softmax(0)).sum() if logs.max() > -math.inf else torch.tensor(-math.inf)
        for found in (in_graph[b].detach(), plain[b]):
            torch.testing.assert_close(found, expected.double(), rtol=1e-9, atol=1e-10)
    grads = torch.autograd.grad(in_graph[in_graph > -math.inf].sum(), case.tensors())
    assert all(grad.isfinite().all() for grad in grads)


def test_gradients_by_finite_differences() -> None:
    case = random_dense_case(2, 3, 2, 2)
    lengths = torch.tensor([3, 2])
    check_derivatives(lambda *p: dense_entropy(check_dense_arguments(*p, lengths)), case.tensors())


def simple(seed: int = 0, batched: bool = False) -> SimpleGrammar:
    case = random_case(4, 6, 3, 4, scale=2.0, batched=batched, seed=seed)
    lead = (4,) if batched else ()
    emit = torch.randn(*lead, 4, 9, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).log_softmax(-1)
    return SimpleGrammar(*(tensor.detach() for tensor in case.tensors()[1:]), DenseEmissions(emit))


@pytest.mark.parametrize("batched", [False, True])
def test_expanded_simple_grammars_answer_alike(batched: bool) -> None:
    words = torch.tensor([[1, 2, 3, 4, 5, 1], [6, 5, 0, 0, 0, 0], [3, 3, 3, 1, 0, 0], [2, 0, 0, 0, 0, 0]])
    lengths = torch.tensor([6, 2, 4, 1])
    p = simple(batched=batched)
    torch.testing.assert_close(p.to_dense().entropy(words, lengths), p.entropy(words, lengths))
