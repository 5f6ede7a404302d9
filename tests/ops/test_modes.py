"""Operations compute in the precision of their arguments within autocast, too; `inside` has its own test."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from prefix_cases import next_word
from random_grammars import random_case, rules_and_sentences
from simplepcfg.ops.dense import check_dense_arguments, dense_inside
from simplepcfg.ops.dense.marginals import dense_span_marginals
from simplepcfg.ops.entropy import derivation_entropy
from simplepcfg.ops.forward import check_arguments, forward, forward_prefixes, state_marginals
from simplepcfg.ops.inside import span_marginals
from simplepcfg.ops.marginals import rule_counts, symbol_marginals, tag_marginals
from simplepcfg.ops.modes import without_modes
from simplepcfg.ops.prefix import prefix_log_probabilities, prefix_states
from simplepcfg.ops.sample import sample_trees
from simplepcfg.ops.viterbi import viterbi

LENGTHS = torch.tensor([4, 2, 3])


def simple() -> tuple[Tensor, ...]:
    return tuple(tensor.detach().float() for tensor in random_case(3, 4, 5, 6, seed=1).tensors())


def dense() -> tuple[Tensor, ...]:
    emissions, root, left, right = simple()
    return emissions, root, left[:, :, None] * right[:, None, :]


def chain() -> tuple[Tensor, ...]:
    emissions, _, left, _ = simple()
    return emissions, left[0, :6] / left[0, :6].sum(), left.repeat(2, 1)[:6, :6].softmax(-1)


def drawn(*tensors: Tensor) -> Tensor:
    generator = torch.Generator().manual_seed(1)
    return sample_trees(*rules_and_sentences(*tensors, lengths=LENGTHS), 3, generator).log_probability


QUESTIONS: dict[str, tuple[Callable[[], tuple[Tensor, ...]], Callable[..., Tensor]]] = {
    "span_marginals": (simple, lambda *given: span_marginals(*given, lengths=LENGTHS)[1]),
    "symbol_marginals": (simple, lambda *given: symbol_marginals(*rules_and_sentences(*given, lengths=LENGTHS))[1]),
    "tag_marginals": (simple, lambda *given: tag_marginals(*rules_and_sentences(*given, lengths=LENGTHS))[1]),
    "rule_counts": (simple, lambda *given: rule_counts(*rules_and_sentences(*given, lengths=LENGTHS))[1].left),
    "viterbi": (simple, lambda *given: viterbi(*rules_and_sentences(*given, lengths=LENGTHS)).log_probability),
    "sample_trees": (simple, drawn),
    "derivation_entropy": (simple, lambda *given: derivation_entropy(*rules_and_sentences(*given, lengths=LENGTHS))),
    "prefix_log_probabilities": (
        simple,
        lambda *given: prefix_log_probabilities(*rules_and_sentences(*given, lengths=LENGTHS)),
    ),
    "next_tags": (
        simple,
        lambda *given: prefix_states(*rules_and_sentences(*given, lengths=LENGTHS)).next_tags(slice(0, 2)),
    ),
    "next_word": (simple, lambda *given: next_word(*rules_and_sentences(*given, lengths=LENGTHS)).tags),
    "dense_inside": (dense, lambda *given: dense_inside(*given, lengths=LENGTHS)),
    "dense_span_marginals": (dense, lambda *given: dense_span_marginals(check_dense_arguments(*given, LENGTHS))[1]),
    "forward": (chain, lambda *given: forward(*given, lengths=LENGTHS)),
    "forward_prefixes": (chain, lambda *given: forward_prefixes(*given, lengths=LENGTHS).log_prefix),
    "state_marginals": (chain, lambda *given: state_marginals(check_arguments(*given, LENGTHS))[1]),
}


@pytest.mark.parametrize("name", QUESTIONS)
def test_answers(name: str) -> None:
    make, ask = QUESTIONS[name]
    expected = ask(*make())
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = ask(*make())
    assert found.dtype == expected.dtype
    assert torch.equal(found, expected)


@pytest.mark.parametrize("name", ["forward", "viterbi", "sample_trees"])
def test_gradients_of_a_backward_pass_within_autocast(name: str) -> None:
    make, ask = QUESTIONS[name]
    tensors = tuple(tensor.requires_grad_() for tensor in make())
    expected = torch.autograd.grad(ask(*tensors).sum(), tensors)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = torch.autograd.grad(ask(*tensors).sum(), tensors)
    for one, other in zip(found, expected, strict=True):
        assert torch.equal(one, other)


def test_autocast_is_back_after_a_call() -> None:
    @without_modes
    def product(left: Tensor, right: Tensor) -> Tensor:
        return left @ right

    factor = torch.ones(2, 2)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert product(factor, factor).dtype == torch.float32
        assert (factor @ factor).dtype == torch.bfloat16
