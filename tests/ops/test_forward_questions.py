"""Entropy, k best sequences and differentiable prefixes of hidden Markov models, against every sequence of states."""

import itertools
import math

import pytest
import torch
from torch import Tensor

from finite_differences import check_derivatives
from simplepcfg.errors import InputError
from simplepcfg.ops.forward import (
    ForwardArguments,
    best_states,
    check_arguments,
    forward_prefixes,
    k_best_states,
    state_entropy,
)

KINDS = ["dense", "factored", "batched dense", "batched factored"]
LENGTHS = torch.tensor([4, 1, 3])
S, R = 3, 2


def chain(kind: str = "dense", *, n: int = 4, scale: float = 1.5, zeros: bool = False) -> list[Tensor]:
    """Log-emissions, start and factors of three sentences, leaves."""
    generator = torch.Generator().manual_seed(4)
    lead = (3,) if "batched" in kind else ()

    def rows(*shape: int) -> Tensor:
        scores = scale * torch.randn(*lead, *shape, generator=generator, dtype=torch.float64)
        if zeros:
            scores[..., 0] = -math.inf
        return scores.softmax(-1)

    emissions = scale * torch.randn(3, n, S, generator=generator, dtype=torch.float64) - 3
    if zeros:
        emissions[0, 1, 2] = -math.inf
    factors = [rows(S, R), rows(R, S)] if "factored" in kind else [rows(S, S)]
    return [tensor.requires_grad_() for tensor in (emissions, rows(S), *factors)]


def given(tensors: list[Tensor]) -> tuple[Tensor, Tensor, Tensor | tuple[Tensor, Tensor]]:
    emissions, start, *factors = tensors
    return emissions, start, factors[0] if len(factors) == 1 else (factors[0], factors[1])


def checked(tensors: list[Tensor], lengths: Tensor | None = None) -> ForwardArguments:
    return check_arguments(*given(tensors), lengths)


def paths(tensors: list[Tensor], b: int, n: int) -> tuple[list[tuple[int, ...]], Tensor]:
    """Every sequence of states and its log-weight, differentiable."""
    emissions, start, *factors = tensors
    first = start[b] if start.dim() == 2 else start
    matrices = [factor[b] if factor.dim() == 3 else factor for factor in factors]
    matrix = matrices[0] if len(matrices) == 1 else matrices[0] @ matrices[1]
    names = list(itertools.product(range(S), repeat=n))
    weights = []
    for path in names:
        weight = first[path[0]] * emissions[b, 0, path[0]].exp()
        for t in range(1, n):
            weight = weight * matrix[path[t - 1], path[t]] * emissions[b, t, path[t]].exp()
        weights.append(weight)
    return names, torch.stack(weights)


@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_entropy_and_its_gradients(kind: str, zeros: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("simplepcfg.ops.forward.entropy.PAIRS_AT_ONCE", 7)
    tensors = chain(kind, zeros=zeros)
    found = state_entropy(checked(tensors, LENGTHS))
    expected = []
    for b, n in enumerate(LENGTHS.tolist()):
        _, weights = paths(tensors, b, n)
        shares = weights[weights > 0] / weights.sum()
        expected.append(-(shares * shares.log()).sum())
    torch.testing.assert_close(found, torch.stack(expected), rtol=1e-10, atol=1e-12)
    scale = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)
    mine = torch.autograd.grad((found * scale).sum(), tensors)
    theirs = torch.autograd.grad((torch.stack(expected) * scale).sum(), tensors)
    for one, other, leaf in zip(mine, theirs, tensors, strict=True):
        # By a rule of probability 0 the derivative is not defined, and by a logarithm of it there is none.
        there = (leaf != 0) & (leaf > -math.inf)
        torch.testing.assert_close(one[there], other[there], rtol=1e-8, atol=1e-10)
        assert one.isfinite().all()


def test_entropy_can_be_differentiated_numerically() -> None:
    tensors = chain("factored")
    check_derivatives(lambda *t: state_entropy(checked(list(t), LENGTHS)), tensors)
    check_derivatives(lambda *t: forward_prefixes(*given(list(t))).log_prefix[:, 1:], tensors)


def test_entropy_of_long_peaked_chains() -> None:
    """At most n log S, at least 0, and exactly the sum over words where states are independent."""
    tensors = [tensor.detach() for tensor in chain(n=200, scale=20.0)]
    found = state_entropy(checked(tensors))
    assert (found > -1e-9).all()
    assert (found < 200 * math.log(S)).all()
    emissions, start, _ = tensors
    same = start.expand(S, S)  # every state is followed alike
    alone = torch.special.entr((emissions + start.log()).softmax(-1)).sum((1, 2))
    torch.testing.assert_close(state_entropy(check_arguments(emissions, start, same)), alone)


@pytest.mark.parametrize("kind", KINDS)
def test_k_best_sequences(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("simplepcfg.ops.forward.viterbi.PAIRS_AT_ONCE", 40)
    tensors = chain(kind)
    first, score = best_states(checked(tensors, LENGTHS))
    for k in (1, 4, 200):
        states, scores = k_best_states(checked(tensors, LENGTHS), k)
        assert states.shape == (3, k, 4)
        assert torch.equal(states[:, 0], first)
        torch.testing.assert_close(scores[:, 0], score)
        for b, n in enumerate(LENGTHS.tolist()):
            names, weights = paths(tensors, b, n)
            logs = dict(zip(names, weights.detach().log().tolist(), strict=True))
            expected = sorted(logs.values(), reverse=True)[:k]
            count = len(expected)
            assert scores[b, :count].tolist() == pytest.approx(expected)
            found = [tuple(row[:n]) for row in states[b, :count].tolist()]
            assert len(set(found)) == count
            assert [logs[name] for name in found] == pytest.approx(expected)
            assert (states[b, count:] == -1).all()
            assert (scores[b, count:] == -math.inf).all()
            assert (states[b, :, n:] == -1).all()
    with pytest.raises(InputError, match="k = 0"):
        k_best_states(checked(tensors), 0)


@pytest.mark.parametrize("kind", KINDS)
def test_prefixes_of_every_length(kind: str) -> None:
    tensors = chain(kind)
    lengths = torch.tensor([4, 0, 3])
    found = forward_prefixes(*given(tensors), lengths=lengths)
    assert found.log_prefix.requires_grad
    for b, n in enumerate(lengths.tolist()):
        expected = [torch.zeros((), dtype=torch.float64)]
        expected += [paths(tensors, b, m)[1].sum().log() for m in range(1, n + 1)]
        torch.testing.assert_close(found.log_prefix[b, : n + 1], torch.stack(expected), rtol=1e-10, atol=1e-12)
        assert (found.log_prefix[b, n + 1 :] == -math.inf).all()
    with torch.no_grad():
        narrow = forward_prefixes(*given([tensor.float() for tensor in tensors]), lengths=lengths)
    torch.testing.assert_close(narrow.log_prefix, found.log_prefix.detach(), rtol=1e-5, atol=1e-5)
    nothing = [tensors[0][:, :0], *tensors[1:]]
    assert forward_prefixes(*given(nothing)).log_prefix.tolist() == [[0.0]] * 3
    with pytest.raises(InputError, match="lengths"):
        forward_prefixes(*given(tensors), lengths=torch.tensor([5, 1, 1]))


def test_an_impossible_sentence_spoils_no_other() -> None:
    tensors = chain()
    with torch.no_grad():
        tensors[0][1, 2] = -math.inf  # no state says this word
    entropy = state_entropy(checked(tensors))
    prefixes = forward_prefixes(*given(tensors)).log_prefix
    assert float(entropy[1].detach()) == -math.inf
    assert (prefixes[1, 3:] == -math.inf).all()
    possible = prefixes > -math.inf
    for total in (entropy[[0, 2]].sum(), prefixes[possible].sum()):
        for grad in torch.autograd.grad(total, tensors, retain_graph=True):
            assert grad.isfinite().all()
    states, scores = k_best_states(checked(tensors), 2)
    assert (states[1] == -1).all()
    assert (scores[1] == -math.inf).all()
    assert scores[0].isfinite().all()
    beyond = [tensor.detach().clone() for tensor in tensors]
    beyond[0][1, 2:] = math.nan  # what lies beyond a sentence is not read
    lengths = torch.tensor([4, 2, 4])
    expected = state_entropy(checked(tensors, lengths)).detach()
    torch.testing.assert_close(state_entropy(checked(beyond, lengths)), expected)
