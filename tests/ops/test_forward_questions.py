"""Differentiable prefixes of hidden Markov models, against every sequence of states."""

import itertools
import math

import pytest
import torch
from torch import Tensor

from finite_differences import check_derivatives
from simplepcfg.errors import InputError
from simplepcfg.ops.forward import ForwardArguments, best_states, check_arguments, forward_prefixes

KINDS = ["dense", "factored", "batched dense", "batched factored"]
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


def test_prefixes_can_be_differentiated_numerically() -> None:
    check_derivatives(lambda *t: forward_prefixes(*given(list(t))).log_prefix[:, 1:], chain("factored"))


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
    prefixes = forward_prefixes(*given(tensors)).log_prefix
    assert (prefixes[1, 3:] == -math.inf).all()
    for grad in torch.autograd.grad(prefixes[prefixes > -math.inf].sum(), tensors):
        assert grad.isfinite().all()
    states, scores = best_states(checked(tensors))
    assert (states[1] == -1).all()
    assert scores[1] == -math.inf
    assert scores[0].isfinite()
