"""Prefix probabilities without improbable nodes: the exact ones without a threshold, and lower bounds with one."""

import math

import pytest
import torch

from naive_prefix import naive_pruned_prefix
from prefix_cases import naive, plain
from random_grammars import random_case, rules_and_sentences
from simplepcfg.errors import InputError
from simplepcfg.ops.arguments import Sentences, SimpleRules, check_arguments
from simplepcfg.ops.prefix import left_corner_closure, prefix_states, pruned_prefix_states
from simplepcfg.ops.prefix.pruned import END_FACTOR


@pytest.mark.parametrize(
    ("batch", "n", "nonterminals", "preterminals", "lengths"),
    [(1, 1, 1, 1, [1]), (4, 6, 2, 5, [4, 6, 1, 2]), (2, 9, 5, 3, None), (1, 2, 63, 65, None)],
)
def test_without_a_threshold_nothing_is_lost(
    batch: int, n: int, nonterminals: int, preterminals: int, lengths: list[int] | None
) -> None:
    tensors = plain(random_case(batch, n, nonterminals, preterminals, scale=4.0))
    each = None if lengths is None else torch.tensor(lengths)
    rules, sentences = rules_and_sentences(*tensors, lengths=each)
    pruned = pruned_prefix_states(rules, sentences, left_corner_closure(rules), threshold=0.0)
    assert pruned is not None
    states, errors = pruned
    exact = prefix_states(rules, sentences)
    torch.testing.assert_close(states.log_prefix, naive(tensors, each))
    torch.testing.assert_close(states.log_sentence, exact.log_sentence)
    possible = exact.log_prefix > -math.inf
    torch.testing.assert_close(states.next_tags(slice(0, n + 1))[possible], exact.next_tags(slice(0, n + 1))[possible])
    assert errors.abs().max() < 1e-9
    without = pruned_prefix_states(rules, sentences, left_corner_closure(rules), threshold=0.0, ends=False)
    assert without is not None
    torch.testing.assert_close(without[0].log_prefix, states.log_prefix)
    assert without[1].abs().max() < 1e-9


@pytest.mark.parametrize("seed", range(3))
def test_nodes_below_the_threshold_are_left_out(seed: int) -> None:
    tensors = plain(random_case(3, 8, 6, 7, scale=5.0, seed=seed))
    rules, sentences = rules_and_sentences(*tensors)
    pruned = pruned_prefix_states(rules, sentences, left_corner_closure(rules), threshold=1e-3)
    assert pruned is not None
    states, errors = pruned
    expected = naive_pruned_prefix(check_arguments(rules, sentences), 1e-3, END_FACTOR)
    torch.testing.assert_close(states.log_prefix, expected[:, :-1])
    torch.testing.assert_close(states.log_sentence[:, -1], expected[:, -1])
    exact = prefix_states(rules, sentences)
    assert (states.log_prefix <= exact.log_prefix + 1e-12).all()
    assert (states.log_sentence[:, 2:] <= exact.log_sentence[:, 2:] + 1e-12).all()
    assert (states.log_prefix < exact.log_prefix - 1e-6).any()
    # What the next words and the end miss to a sum of 1 is what was lost.
    tags = states.next_tags(slice(0, 9)).sum(-1) + (states.log_sentence - states.log_prefix).exp()
    torch.testing.assert_close(tags, (-errors).exp())


def test_float32_is_as_precise_as_its_rounding() -> None:
    case = random_case(2, 12, 33, 31, scale=3.0)
    answers = []
    for dtype in (torch.float64, torch.float32):
        rules, sentences = rules_and_sentences(*plain(case, dtype))
        answers.append(pruned_prefix_states(rules, sentences, left_corner_closure(rules), threshold=0.0))
    wide, narrow = answers
    assert wide is not None
    assert narrow is not None
    torch.testing.assert_close(narrow[0].log_prefix, wide[0].log_prefix, rtol=0, atol=1e-4)


def test_what_loses_most_is_left_to_the_exact_form() -> None:
    log_emissions, root, left, right = plain(random_case(2, 5, 4, 4))
    rules, sentences = SimpleRules(root, left, right), Sentences(log_emissions)
    closure = left_corner_closure(rules)
    assert pruned_prefix_states(rules, sentences, closure, threshold=0.9) is None
    impossible = log_emissions.clone()
    impossible[0, 2] = -math.inf
    assert pruned_prefix_states(rules, Sentences(impossible), closure, threshold=0.0) is None
    with pytest.raises(InputError, match="span_bonus"):
        pruned_prefix_states(rules, Sentences(log_emissions, None, torch.zeros(2, 6, 6)), closure)
