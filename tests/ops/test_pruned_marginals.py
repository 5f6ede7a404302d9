"""Span marginals over few nodes: exact without thresholds, those of the nodes that are kept with them, or refused."""

import pytest
import torch
from torch import Tensor

from naive_prefix import naive_pruned_prefix
from random_grammars import random_case, rules_and_sentences, with_zeros
from simplepcfg.grammars import SimpleGrammar, simple
from simplepcfg.ops.arguments import Sentences, check_arguments
from simplepcfg.ops.inside import span_marginals
from simplepcfg.ops.marginals import symbol_marginals
from simplepcfg.ops.marginals.pruned import pruned_span_marginals
from simplepcfg.ops.prefix import left_corner_closure
from simplepcfg.ops.prefix.pruned import END_FACTOR


def some_bonus(batch: int, n: int) -> Tensor:
    bonus = torch.randn(batch, n + 1, n + 1, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    bonus[0, 1, 3] = -torch.inf
    return bonus


def pruned_of(*given: Tensor, threshold: float, marginal: float = 0.0, **options: Tensor | None) -> Tensor | None:
    rules, sentences = rules_and_sentences(*given, **options)
    closure = left_corner_closure(rules)
    return pruned_span_marginals(rules, sentences, closure, threshold=threshold, marginal_threshold=marginal)


@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize(("batch", "n", "nonterminals"), [(1, 2, 1), (3, 7, 63), (2, 11, 65)])
@pytest.mark.parametrize("with_bonus", [False, True])
def test_without_a_threshold_all_marginals_are_exact(
    zeros: bool, batch: int, n: int, nonterminals: int, with_bonus: bool
) -> None:
    case = random_case(batch, n, nonterminals, 5, scale=2.0)
    _, *rules = (tensor.detach() for tensor in (with_zeros(case) if zeros else case).tensors())
    tensors = [case.tensors()[0].detach(), *(rule / rule.sum(-1, keepdim=True) for rule in rules)]
    lengths = torch.arange(n, n - batch, -1)
    bonus = some_bonus(batch, n) if with_bonus and n > 2 else None
    marginals = pruned_of(*tensors, threshold=0.0, lengths=lengths, span_bonus=bonus)
    _, spans = span_marginals(*tensors, lengths=lengths, span_bonus=bonus)
    torch.testing.assert_close(marginals, spans, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("with_bonus", [False, True])
def test_marginals_are_those_of_derivations_of_probable_nodes(with_bonus: bool) -> None:
    """The derivatives of their log Z by the bonus of each span."""
    tensors = [tensor.detach() for tensor in random_case(3, 9, 6, 7, scale=5.0).tensors()]
    bonus = (some_bonus(3, 9) if with_bonus else torch.zeros(3, 10, 10, dtype=torch.float64)).requires_grad_()
    rules, sentences = rules_and_sentences(*tensors)
    arguments = check_arguments(rules, Sentences(sentences.log_emissions, None, bonus))
    log_z = naive_pruned_prefix(arguments, 1e-3, END_FACTOR)[:, -1]
    (expected,) = torch.autograd.grad(log_z.sum(), bonus)
    given = bonus.detach() if with_bonus else None
    marginals = pruned_of(*tensors, threshold=1e-3, span_bonus=given)
    torch.testing.assert_close(marginals, expected, rtol=1e-9, atol=1e-12)
    assert (marginals - span_marginals(*tensors, span_bonus=given)[1]).abs().max() > 1e-6


def test_thresholds_cost_little() -> None:
    tensors = [tensor.detach() for tensor in random_case(2, 20, 300, 300, scale=6.0, dtype=torch.float32).tensors()]
    marginals = pruned_of(*tensors, threshold=1e-8, marginal=1e-6)
    assert marginals is not None
    _, spans = span_marginals(*tensors)
    assert float((marginals - spans).abs().max()) < 0.02
    torch.testing.assert_close(marginals.sum((1, 2)), torch.full((2,), 19.0), rtol=0, atol=0.05)


def test_what_loses_all_trees_is_left_to_the_exact_form() -> None:
    tensors = [tensor.detach() for tensor in random_case(2, 14, 70, 4).tensors()]
    assert pruned_of(*tensors, threshold=1e-4) is None  # random rules: no symbol is probable
    impossible = tensors[0].clone()
    impossible[0, 3] = -torch.inf
    assert pruned_of(impossible, *tensors[1:], threshold=0.0) is None


def test_decoded_trees_are_those_of_the_exact_form(monkeypatch: pytest.MonkeyPatch) -> None:
    log_emissions, *rules = (tensor.detach() for tensor in random_case(3, 9, 40, 5, scale=9.0).tensors())
    grammar, lengths = SimpleGrammar(*rules), torch.tensor([9, 1, 6])
    exact = grammar.decode(log_emissions, lengths, exact=True)
    assert grammar._closure_to_prune() is None
    monkeypatch.setattr(simple, "LEAST_NONTERMINALS", 1)
    assert grammar._closure_to_prune() is not None
    assert grammar.decode(log_emissions, lengths) == exact
    stuck = SimpleGrammar(torch.ones(1), torch.tensor([[1.0, 0.0]]), torch.tensor([[0.5, 0.5]]))
    assert stuck._closure_to_prune() is None  # it has no closure


@pytest.mark.parametrize("n", [2, 3, 8])
def test_spans_of_two_words_need_no_outside(n: int) -> None:
    """Span marginals alone end before the words, and are those of a pass that goes on to them."""
    tensors = [tensor.detach() for tensor in random_case(3, n, 7, 5, scale=3.0).tensors()]
    lengths = torch.tensor([n, 2, n])
    _, spans = span_marginals(*tensors, lengths=lengths)
    _, symbols = symbol_marginals(*rules_and_sentences(*tensors, lengths=lengths))
    torch.testing.assert_close(spans, symbols.sum(-1), rtol=1e-9, atol=1e-12)
