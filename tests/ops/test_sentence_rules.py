"""Rule probabilities of each sentence: every path against plain autograd, and the layout that the chart wants."""

import pytest
import torch
from torch import Tensor

from simplepcfg.errors import InputError
from simplepcfg.ops.inside.packed_chart import stacked_rules
from simplepcfg.ops.neural import rule_probabilities, sentence_rule_probabilities
from simplepcfg.ops.neural.naive import naive_sentence_rule_probabilities
from simplepcfg.ops.neural.sentence_rules import _SentenceRules

OWN = [(True, False, False), (False, False, True), (False, True, False), (True, True, True)]


def case(own: tuple[bool, ...], batch: int = 3, n: int = 5, s: int = 13, d: int = 6) -> list[Tensor]:
    generator = torch.Generator().manual_seed(1)
    shapes = [((batch,) if each else ()) + (rows, d) for each, rows in zip(own, (n, s, s), strict=True)]
    return [torch.randn(shape, generator=generator, dtype=torch.float64).requires_grad_() for shape in shapes]


def grads(batch: int = 3, n: int = 5, s: int = 13) -> list[Tensor]:
    generator = torch.Generator().manual_seed(2)
    return [torch.randn(batch, n, s, generator=generator, dtype=torch.float64) for _ in range(2)]


@pytest.mark.parametrize("own", OWN)
def test_exact(own: tuple[bool, ...]) -> None:
    inputs = case(own)
    found, truth = sentence_rule_probabilities(*inputs), naive_sentence_rule_probabilities(*inputs)
    for one, two in zip(found, truth, strict=True):
        torch.testing.assert_close(one, two)
    mine, autograd = (torch.autograd.grad(outputs, inputs, grads()) for outputs in (found, truth))
    for one, two in zip(mine, autograd, strict=True):
        torch.testing.assert_close(one, two)


@pytest.mark.parametrize("own", OWN)
def test_each_sentence_is_one_grammar(own: tuple[bool, ...]) -> None:
    inputs = [tensor.detach() for tensor in case(own)]
    left, right = sentence_rule_probabilities(*inputs)
    for sentence in range(3):
        alone = rule_probabilities(*(each[sentence] if each.dim() == 3 else each for each in inputs))
        torch.testing.assert_close((left[sentence], right[sentence]), alone)


@pytest.mark.parametrize("own", OWN)
def test_kernels_are_as_exact_as_their_storage(own: tuple[bool, ...]) -> None:
    inputs = [tensor.detach().float().requires_grad_() for tensor in case(own)]
    found = _SentenceRules.apply(*inputs, 3, "bf16", True)
    truth = naive_sentence_rule_probabilities(*(tensor.detach().bfloat16().double() for tensor in inputs))
    for one, two in zip(found, truth, strict=True):
        assert one.dtype == torch.bfloat16
        torch.testing.assert_close(one.double(), two, atol=1e-5, rtol=2**-7)
    exact = case(own)
    mine = torch.autograd.grad(found, inputs, [grad.float().bfloat16() for grad in grads()])
    theirs = torch.autograd.grad(naive_sentence_rule_probabilities(*exact), exact, grads())
    for one, two in zip(mine, theirs, strict=True):
        assert (one - two).norm() < 0.03 * two.norm()


def test_gradients_can_be_differentiated() -> None:
    inputs = case((False, False, True), batch=2, n=2, s=3, d=2)
    assert torch.autograd.gradgradcheck(lambda *tensors: sentence_rule_probabilities(*tensors), inputs)


def test_one_side_alone_and_a_graph_that_is_kept() -> None:
    inputs = case((False, False, True))
    left, right = sentence_rule_probabilities(*inputs)
    truth = naive_sentence_rule_probabilities(*inputs)
    for one, two, grad in ((left, truth[0], grads()[0]), (right, truth[1], grads()[1])):
        for _ in range(2):
            mine = torch.autograd.grad(one, inputs[0], grad, retain_graph=True)[0]
            torch.testing.assert_close(mine, torch.autograd.grad(two, inputs[0], grad, retain_graph=True)[0])


def test_the_chart_takes_both_without_a_copy() -> None:
    left, right = sentence_rule_probabilities(*(tensor.detach() for tensor in case((True, False, False))))
    both = stacked_rules(left, right, left.dtype)
    assert both.data_ptr() == left.data_ptr()
    torch.testing.assert_close(both, torch.cat([left, right], 1))
    copied = stacked_rules(left.clone(), right.clone(), left.dtype)
    torch.testing.assert_close(copied, both)
    single = stacked_rules(left[:1], right[:1], left.dtype)
    torch.testing.assert_close(single, both[:1])


def test_shapes_are_named() -> None:
    a = torch.zeros
    for shapes in (((2, 3), (4, 3), (4, 3)), ((2, 2, 3), (5, 4, 3), (4, 3)), ((2, 2, 3), (4, 3), (5, 3))):
        with pytest.raises(InputError, match="at least one of them with a leading B"):
            sentence_rule_probabilities(*(a(shape) for shape in shapes))
