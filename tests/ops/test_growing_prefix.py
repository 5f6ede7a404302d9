"""Prefixes that grow word by word, and the left-corner closure that they start from."""

import math
from fractions import Fraction

import pytest
import torch
from torch import Tensor

from prefix_cases import plain, short_grammar
from random_grammars import random_case, rules_and_sentences
from simplepcfg.ops.arguments import SimpleRules
from simplepcfg.ops.prefix import (
    GrowingPrefix,
    left_corner_closure,
    prefix_log_probabilities,
    prefix_states,
)


@pytest.mark.parametrize(("n", "scale"), [(8, 1.0), (40, 12.0)])
def test_growing_prefixes(n: int, scale: float) -> None:
    tensors = plain(random_case(3, n, 6, 8, scale=scale, seed=2))
    states = prefix_states(*rules_and_sentences(*tensors))
    growing = GrowingPrefix(SimpleRules(*tensors[1:]))
    growing.select(torch.tensor([0, 0, 0]))
    for m in range(n + 1):
        torch.testing.assert_close(growing.log_prefix, states.log_prefix[:, m], rtol=0, atol=1e-11)
        torch.testing.assert_close(growing.log_sentence, states.log_sentence[:, m], rtol=0, atol=1e-11)
        tags = states.next_tags(slice(m, m + 1))[:, 0]
        torch.testing.assert_close(growing.next_tags(), tags, rtol=1e-10, atol=1e-12)
        if m < n:
            growing.push(tensors[0][:, m])
    branch = growing.copy()
    branch.select(torch.tensor([2, 0]))
    branch.push(tensors[0][[1, 1], 0])
    assert len(growing.eta) == n
    repeated = torch.cat([tensors[0][[2, 0]], tensors[0][[1, 1], :1]], 1)
    expected = prefix_log_probabilities(*rules_and_sentences(repeated, *tensors[1:]))[:, -1]
    torch.testing.assert_close(branch.log_prefix, expected, rtol=0, atol=1e-10)


def test_growing_prefixes_stay_impossible() -> None:
    root, left, right, log_emit = short_grammar()
    growing = GrowingPrefix(SimpleRules(root, left, right))
    growing.push(torch.full((1, 2), -math.inf, dtype=torch.float64))
    for _ in range(2):
        growing.push(log_emit.T[:1])
        assert growing.log_prefix == -math.inf
        assert growing.log_end() == -math.inf
        assert not growing.next_tags().any()


def test_small_entries_of_the_closure_keep_their_digits() -> None:
    """Against exact fractions, for grammars so peaked that elimination alone gets some of them wrong."""
    for seed in range(40, 100):
        _, _, left, right = plain(random_case(1, 1, 5, 3, scale=8.0, seed=seed))
        edges = exact_closure(left)
        found = left_corner_closure(
            SimpleRules(torch.eye(5, dtype=torch.float64), *(rules.expand(5, -1, -1) for rules in (left, right)))
        )
        torch.testing.assert_close(found.start, edges, rtol=1e-7, atol=0)


def exact_closure(left: Tensor) -> Tensor:
    """(I − L_N)⁻¹ by elimination over the rationals."""
    size = left.shape[0]
    rows = [[Fraction(value) for value in row] for row in left.tolist()]
    rules = [[value / sum(row) for value in row] for row in rows]
    system = [[Fraction(int(i == j)) - rules[i][j] for j in range(size)] for i in range(size)]
    both = [row + [Fraction(int(i == j)) for j in range(size)] for i, row in enumerate(system)]
    for c in range(size):
        both[c] = [value / both[c][c] for value in both[c]]
        for r in range(size):
            if r != c:
                both[r] = [x - both[r][c] * y for x, y in zip(both[r], both[c], strict=True)]
    return torch.tensor([[float(value) for value in row[size:]] for row in both], dtype=torch.float64)


@pytest.mark.parametrize(("n", "scale", "copies"), [(3, 1.0, 1), (9, 1.0, 2), (30, 12.0, 1)])
def test_many_words_at_once(n: int, scale: float, copies: int) -> None:
    """One chart for all words gives the states of words that were added one by one, and they grow on alike."""
    tensors = plain(random_case(1, n + 1, 6, 8, scale=scale, seed=3))
    one, other = GrowingPrefix(SimpleRules(*tensors[1:])), GrowingPrefix(SimpleRules(*tensors[1:]))
    for prefix in (one, other):
        prefix.select(torch.zeros(copies, dtype=torch.int64))
    one.push_all(tensors[0][0, :n])
    for word in tensors[0][0, :n]:
        other.push(word.expand(copies, -1))
    for _ in range(2):
        assert one.length == other.length
        for name in ("log_prefix", "log_sentence"):
            torch.testing.assert_close(getattr(one, name), getattr(other, name), rtol=0, atol=1e-10)
        torch.testing.assert_close(one.next_tags(), other.next_tags(), rtol=1e-9, atol=1e-12)
        one.push_all(tensors[0][0, n:])
        other.push(tensors[0][0, n:].expand(copies, -1))
