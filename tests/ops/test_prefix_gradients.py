"""Derivatives of prefix probabilities by every rule."""

import math

import pytest
import torch
from torch import Tensor

from naive_prefix import naive_prefix
from prefix_cases import short_grammar
from random_grammars import random_case, rules_and_sentences
from simplepcfg.ops.arguments import SimpleRules, check_arguments
from simplepcfg.ops.inside import inside
from simplepcfg.ops.prefix import (
    prefix_log_probabilities,
    prefix_rules,
)


def test_gradients() -> None:
    case = random_case(3, 5, 3, 4, scale=2.0)
    lengths = torch.tensor([5, 1, 3])
    weights = torch.rand(3, 6, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    logs = [softmaxed.detach().log().requires_grad_() for softmaxed in case.tensors()[1:]]

    def weighted(which: str) -> Tensor:
        # Through a softmax, so that a step keeps rows at a sum of 1: elsewhere the two need not agree.
        rules = [log.softmax(-1) for log in logs]
        if which == "naive":
            found = naive_prefix(check_arguments(*rules_and_sentences(case.log_emissions, *rules, lengths=lengths)))
        else:
            found = prefix_log_probabilities(*rules_and_sentences(case.log_emissions, *rules, lengths=lengths))
        return (found.masked_fill(found == -math.inf, 0.0) * weights).sum()

    inputs = [case.log_emissions, *logs]
    found = torch.autograd.grad(weighted("op"), inputs)
    expected = torch.autograd.grad(weighted("naive"), inputs)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-11)
    assert not found[0][1, 1:].any()


@pytest.mark.parametrize("backend", ["log_einsum_exp", "triton"])
def test_gradients_are_made_in_the_precision_that_is_asked_for(backend: str) -> None:
    case = random_case(2, 4, 5, 6, scale=2.0, dtype=torch.float32)
    found = {
        precision: prefix_log_probabilities(
            *rules_and_sentences(*case.tensors(), precision=precision), backend=backend
        ).detach()
        for precision in (None, "fp32", "bf16")
    }
    assert torch.equal(found[None], found["fp32"])
    assert not torch.equal(found["bf16"], found["fp32"])
    torch.testing.assert_close(found["bf16"], found["fp32"], rtol=0.02, atol=0.02)
    emissions, *rules = (tensor.detach() for tensor in case.tensors())
    whole = inside(emissions, *prefix_rules(SimpleRules(*rules)).tensors, precision="bf16", backend=backend)
    torch.testing.assert_close(found["bf16"][:, -1], whole.double(), rtol=1e-6, atol=1e-6)


def test_gradients_are_finite_where_nothing_is_possible() -> None:
    root, left, right, log_emit = short_grammar()
    log_emissions = torch.full((2, 3, 2), -math.inf, dtype=torch.float64)
    log_emissions[1] = log_emit.T[torch.tensor([0, 1, 1])]
    inputs = [tensor.clone().requires_grad_() for tensor in (log_emissions, root, left, right)]
    found = prefix_log_probabilities(*rules_and_sentences(*inputs))
    assert (found[0, 1:] == -math.inf).all()
    for gradient in torch.autograd.grad(found[found.isfinite()].sum(), inputs):
        assert gradient.isfinite().all()
