"""Entropy and divergence of ordinary PCFGs over derivations: against full enumeration."""

import math

import pytest
import torch
from torch import Tensor

from dense_oracle import DenseCase, dense_derivations, dense_with_zeros, random_dense_case
from finite_differences import check_derivatives
from random_grammars import random_case
from simplepcfg.errors import InputError
from simplepcfg.grammars import DenseEmissions, DenseGrammar, HiddenMarkovModel, SimpleGrammar
from simplepcfg.ops.dense import check_dense_arguments
from simplepcfg.ops.dense.entropy import dense_entropy, dense_kl

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
    case, other = random_dense_case(2, 3, 2, 2), random_dense_case(2, 3, 2, 2, seed=1)
    lengths = torch.tensor([3, 2])
    check_derivatives(lambda *p: dense_entropy(check_dense_arguments(*p, lengths)), case.tensors())
    inputs = (*case.tensors(), *other.tensors())

    def divergence(*t: Tensor) -> Tensor:
        return dense_kl(check_dense_arguments(*t[:3], lengths), check_dense_arguments(*t[3:], lengths))

    check_derivatives(divergence, inputs)


@pytest.mark.parametrize("with_bonus", [False, True])
@pytest.mark.parametrize("number", range(3))
def test_divergence_over_derivations(number: int, with_bonus: bool) -> None:
    """Where the other lacks what is used +inf, where there is nothing to compare −inf."""
    p, q, bonus = cases(0 if number == 2 else number), cases(number, seed=1), bonus_of() if with_bonus else None
    with torch.no_grad():
        for first, second in ((p, q), (q, p)):
            found = dense_kl(first.arguments(LENGTHS, bonus), second.arguments(LENGTHS, bonus))
            for b in range(4):
                one, other = weights(first, b, bonus), weights(second, b, bonus)
                if one.max() == -math.inf:
                    assert float(found[b]) == -math.inf
                    continue
                shares, log_q = one.softmax(0), other.log_softmax(0)
                used = shares > 0
                ratio = shares[used].log() - log_q[used]
                expected = float((shares[used] * ratio).sum()) if other.max() > -math.inf else math.inf
                assert float(found[b]) == pytest.approx(expected, rel=1e-9, abs=1e-10)
    if number < 2:
        in_graph = dense_kl(p.arguments(LENGTHS, bonus), q.arguments(LENGTHS, bonus))
        with torch.no_grad():
            plain = dense_kl(p.arguments(LENGTHS, bonus), q.arguments(LENGTHS, bonus))
        torch.testing.assert_close(in_graph.detach(), plain)


def simple(seed: int = 0, batched: bool = False) -> SimpleGrammar:
    case = random_case(4, 6, 3, 4, scale=2.0, batched=batched, seed=seed)
    lead = (4,) if batched else ()
    emit = torch.randn(*lead, 4, 9, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).log_softmax(-1)
    return SimpleGrammar(*(tensor.detach() for tensor in case.tensors()[1:]), DenseEmissions(emit))


@pytest.mark.parametrize("batched", [False, True])
def test_expanded_simple_grammars_answer_alike(batched: bool) -> None:
    words = torch.tensor([[1, 2, 3, 4, 5, 1], [6, 5, 0, 0, 0, 0], [3, 3, 3, 1, 0, 0], [2, 0, 0, 0, 0, 0]])
    lengths = torch.tensor([6, 2, 4, 1])
    p, q = simple(batched=batched), simple(1, batched)
    torch.testing.assert_close(p.to_dense().entropy(words, lengths), p.entropy(words, lengths))
    expected = p.kl_divergence(q, words, lengths)
    torch.testing.assert_close(p.to_dense().kl_divergence(q.to_dense(), words, lengths), expected)
    torch.testing.assert_close(p.to_dense().kl_divergence(q, words, lengths), expected)


def test_what_cannot_be_compared_is_named() -> None:
    p, words = simple(), torch.tensor([[1, 2, 3]])
    dense = p.to_dense()
    chain = HiddenMarkovModel(torch.ones(4) / 4, torch.ones(4, 4) / 4, p.emissions)
    with pytest.raises(InputError, match="hmm has no labelled derivations to compare"):
        dense.kl_divergence(chain, words)
    with pytest.raises(InputError, match="DenseGrammar has no left and right rules to compare with"):
        p.kl_divergence(dense, words)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="between grammars of the same symbols only"):
        dense.kl_divergence(DenseGrammar(dense.root[:2], dense.rules[:2, 1:, 1:], dense.emissions), words)
    lacking = dense.rules.clone().requires_grad_()
    with torch.no_grad():
        lacking[0] = 0
    with pytest.raises(InputError, match="KL has no gradient there"):
        dense.kl_divergence(DenseGrammar(dense.root, lacking, dense.emissions), words)
