"""Span marginals over few spans and symbols: exact without thresholds, near the true ones with them, or refused."""

import math

import pytest
import torch
from torch import Tensor

from random_grammars import random_case, rules_and_sentences, with_zeros
from simplepcfg.grammars import SimpleGrammar
from simplepcfg.ops.arguments import check_arguments
from simplepcfg.ops.inside import span_marginals
from simplepcfg.ops.marginals import coarse, pruned, symbol_marginals
from simplepcfg.ops.marginals.pruned import pruned_span_marginals


@pytest.fixture(autouse=True)
def small_grammars(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pruned, "LEAST_NONTERMINALS", 1)
    monkeypatch.setattr(pruned, "SHORT", 8)
    monkeypatch.setattr(pruned, "MOST_SYMBOLS", 1.0)


def some_bonus(batch: int, n: int) -> Tensor:
    bonus = torch.randn(batch, n + 1, n + 1, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    bonus[0, 1, 3] = -torch.inf
    return bonus


def pruned_of(*given: Tensor, threshold: float, span_threshold: float = 0.0, **options: Tensor) -> Tensor | None:
    rules, sentences = rules_and_sentences(*given, **options)
    return pruned_span_marginals(
        rules, sentences, threshold=threshold, span_threshold=span_threshold, symbol_threshold=0.0
    )


@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize(("batch", "n", "nonterminals"), [(1, 2, 1), (3, 7, 63), (2, 11, 65)])
@pytest.mark.parametrize("with_bonus", [False, True])
def test_without_a_threshold_all_marginals_are_exact(
    zeros: bool, batch: int, n: int, nonterminals: int, with_bonus: bool
) -> None:
    case = random_case(batch, n, nonterminals, 5, scale=2.0)
    tensors = [tensor.detach() for tensor in (with_zeros(case) if zeros else case).tensors()]
    lengths = torch.arange(n, n - batch, -1)
    bonus = some_bonus(batch, n) if with_bonus and n > 2 else None
    marginals = pruned_of(*tensors, threshold=0.0, lengths=lengths, span_bonus=bonus)
    _, spans = span_marginals(*tensors, lengths=lengths, span_bonus=bonus)
    torch.testing.assert_close(marginals, spans, rtol=1e-9, atol=1e-12)


def test_a_threshold_costs_little() -> None:
    tensors = [tensor.detach() for tensor in random_case(2, 20, 300, 300, scale=4.0, dtype=torch.float32).tensors()]
    marginals = pruned_of(*tensors, threshold=1e-5)
    assert marginals is not None
    _, spans = span_marginals(*tensors)
    assert float((marginals - spans).abs().max()) < 0.01
    torch.testing.assert_close(marginals.sum((1, 2)), torch.full((2,), 19.0), rtol=0, atol=0.05)


@pytest.mark.parametrize("with_bonus", [False, True])
def test_marginals_of_few_spans_are_those_of_trees_without_the_others(with_bonus: bool) -> None:
    tensors = [tensor.detach() for tensor in random_case(3, 14, 80, 12, scale=3.0).tensors()]
    lengths, bonus = torch.tensor([14, 11, 6]), some_bonus(3, 14) if with_bonus else None
    rules, sentences = rules_and_sentences(*tensors, lengths=lengths, span_bonus=bonus)
    guessed = coarse.coarse_guess(check_arguments(rules, sentences)).spans
    torch.testing.assert_close(guessed.sum((1, 2)), lengths.double() - 1)
    kept = guessed >= 0.01
    kept[2] = True  # a short sentence loses nothing
    kept[torch.arange(3), 0, lengths] = True
    assert not kept[0].triu(2).eq(torch.ones(15, 15, dtype=torch.bool).triu(2)).all()
    forbidden = torch.zeros(3, 15, 15, dtype=torch.float64).masked_fill(~kept, -torch.inf)
    _, expected = span_marginals(
        *tensors, lengths=lengths, span_bonus=forbidden if bonus is None else forbidden + bonus
    )
    marginals = pruned_of(*tensors, threshold=0.0, span_threshold=0.01, lengths=lengths, span_bonus=bonus)
    torch.testing.assert_close(marginals, expected, rtol=1e-9, atol=1e-12)


def test_a_coarse_grammar_with_a_cluster_for_each_symbol_is_the_grammar_itself() -> None:
    tensors = [tensor.detach() for tensor in random_case(2, 9, 40, 5, scale=3.0).tensors()]
    _, expected = span_marginals(*tensors)
    marginals = coarse.coarse_guess(check_arguments(*rules_and_sentences(*tensors))).spans
    torch.testing.assert_close(marginals, expected, rtol=1e-9, atol=1e-12)


def test_what_cannot_be_pruned_is_left_to_the_exact_form(monkeypatch: pytest.MonkeyPatch) -> None:
    batched = [tensor.detach() for tensor in random_case(2, 5, 3, 4, batched=True).tensors()]
    single = [tensor.detach() for tensor in random_case(2, 1, 3, 4).tensors()]
    sharp = [tensor.detach() for tensor in random_case(2, 14, 32, 64, scale=32.0, dtype=torch.float32).tensors()]
    for tensors in (batched, single, sharp):
        assert pruned_of(*tensors, threshold=0.0) is None
    monkeypatch.setattr(pruned, "LEAST_NONTERMINALS", 4)
    assert pruned_of(*(tensor.detach() for tensor in random_case(2, 5, 3, 4).tensors()), threshold=0.0) is None
    monkeypatch.setattr(pruned, "LEAST_NONTERMINALS", 1)
    long = [tensor.detach() for tensor in random_case(2, 14, 70, 4).tensors()]
    assert pruned_of(*long, threshold=0.0, span_threshold=0.999) is None  # no tree is left
    assert pruned_of(*long, threshold=1e-5) is not None
    monkeypatch.setattr(pruned, "MOST_SYMBOLS", 0.5)
    assert pruned_of(*long, threshold=1e-5) is None  # random rules: all symbols are probable


def test_decoded_trees_are_those_of_the_exact_form() -> None:
    log_emissions, *rules = (tensor.detach() for tensor in random_case(3, 9, 40, 5, scale=3.0).tensors())
    grammar, lengths = SimpleGrammar(*rules), torch.tensor([9, 1, 6])
    assert grammar.decode(log_emissions, lengths) == grammar.decode(log_emissions, lengths, exact=True)


@pytest.mark.parametrize("n", [2, 3, 8])
def test_spans_of_two_words_need_no_outside(n: int) -> None:
    """Span marginals alone end before the words, and are those of a pass that goes on to them."""
    tensors = [tensor.detach() for tensor in random_case(3, n, 7, 5, scale=3.0).tensors()]
    lengths = torch.tensor([n, 2, n])
    _, spans = span_marginals(*tensors, lengths=lengths)
    _, symbols = symbol_marginals(*rules_and_sentences(*tensors, lengths=lengths))
    torch.testing.assert_close(spans, symbols.sum(-1), rtol=1e-9, atol=1e-12)


def test_symbols_that_are_clusters_of_their_own_lose_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    tensors = [tensor.detach() for tensor in random_case(3, 12, 60, 5, scale=3.0).tensors()]
    rules, sentences = rules_and_sentences(*tensors, lengths=torch.tensor([12, 9, 4]))
    options = {"span_threshold": 1e-30, "symbol_threshold": 1e-3}
    marginals = pruned_span_marginals(rules, sentences, threshold=0.0, **options)
    torch.testing.assert_close(marginals, span_marginals(*tensors, lengths=sentences.lengths)[1], rtol=1e-9, atol=1e-12)


def test_symbols_below_a_threshold_have_mean_rules(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The formulas, span by span in float64, with every span kept."""
    monkeypatch.setattr(coarse, "CLUSTERS", 7)
    log_emissions, root, left, right = (tensor.detach() for tensor in random_case(1, 9, 20, 5, scale=4.0).tensors())
    rules, sentences = rules_and_sentences(log_emissions, root, left, right)
    arguments = check_arguments(rules, sentences)
    guess = coarse.coarse_guess(arguments)
    groups = [(guess.members == cluster).nonzero()[:, 0] for cluster in range(7)]
    both, n = torch.cat([left, right]), 9
    mean = torch.stack([both[:, group].mean(1) for group in groups], 1).nan_to_num(0.0)[:, guess.members]  # [2N, N]
    children = {(i, i + 1): both[:, 20:] @ log_emissions[0, i].exp() for i in range(n)}
    dropped = 0
    for width in range(2, n + 1):
        for i in range(n - width + 1):
            splits = range(i + 1, i + width)
            beta = sum(children[i, k][:20] * children[k, i + width][20:] for k in splits)
            estimates = guess.outside[0, i, i + width][guess.members] * beta
            chosen = estimates / estimates.sum() * guess.spans[0, i, i + width] >= 1e-3
            dropped += int((~chosen).sum())
            children[i, i + width] = both[:, :20] @ (beta * chosen) + mean @ (beta * ~chosen)
    assert dropped > 100
    ((_, chart),) = pruned.pruned_charts(arguments, "torch", 1e-30, 1e-3) or []
    assert chart is not None
    best = log_emissions[0].amax(-1).sum()  # to which the chart is relative
    torch.testing.assert_close(chart.beta[-1].log() + chart.beta_exponents[-1] * math.log(2) + best, beta.log())
