"""Rank grammars: enumeration of the dense tensor in float64, the simple grammar over ranks, and what is refused."""

import itertools
import math
from unittest.mock import Mock

import pytest
import torch
from torch import Tensor

from contract import check_grammar
from oracle import binary_trees
from simplepcfg.grammars import DenseEmissions, RankGrammar, SimpleGrammar, simple

N, P, V = 3, 4, 5
WORDS = torch.tensor([[1, 2, 3, 4], [4, 1, 1, 0], [2, 3, 0, 0]])
LENGTHS = torch.tensor([4, 3, 2])


def rank_grammar(rank: int = 2, scale: float = 1.5, seed: int = 0) -> RankGrammar:
    generator = torch.Generator().manual_seed(seed)

    def rows(*size: int) -> Tensor:
        return (scale * torch.randn(*size, generator=generator, dtype=torch.float64)).softmax(-1).requires_grad_()

    emit = rows(P, V - 1).log()
    padding = emit.new_full((P, 1), -math.inf)
    factors = rows(N), rows(N, rank), rows(rank, N + P), rows(rank, N + P)
    return RankGrammar(*factors, DenseEmissions(torch.cat((padding, emit), 1)))


def dense_rules(grammar: RankGrammar) -> Tensor:
    """π(A → B C): [N, S, S]."""
    return torch.einsum("ar,rb,rc->abc", grammar.up, grammar.to_left, grammar.to_right)


def enumerated(grammar: RankGrammar, words: Tensor) -> dict[tuple[tuple[tuple[int, int], int], ...], Tensor]:
    """Every tree's probability, summed over every assignment of symbols, from the dense tensor."""
    rules, emit = dense_rules(grammar), grammar.emissions.log_probabilities(words[None])[0].exp()
    n, found = len(words), {}
    for tree in binary_trees(0, n):
        spans, total = [span for span, _ in tree], torch.zeros((), dtype=torch.float64)
        for symbols in itertools.product(range(N), repeat=len(spans)):
            label, weight = dict(zip(spans, symbols, strict=True)), grammar.root[symbols[0]]
            for (i, j), k in tree:
                sides = [emit[a] if b - a == 1 else None for a, b in ((i, k), (k, j))]
                rule = rules[label[i, j]]
                rule = sides[0] @ rule[N:] if sides[0] is not None else rule[label[i, k]]
                weight = weight * (rule[N:] @ sides[1] if sides[1] is not None else rule[label[k, j]])
            total = total + weight
        found[tree] = total
    return found


@pytest.mark.parametrize("rank", [1, 2, 7])
def test_against_enumeration(rank: int) -> None:
    grammar = rank_grammar(rank)
    log_z = grammar.log_partition(WORDS, LENGTHS)
    marginals = grammar.span_marginals(WORDS, LENGTHS)
    for b, length in enumerate(LENGTHS.tolist()):
        trees = enumerated(grammar, WORDS[b, :length])
        truth = torch.stack(list(trees.values())).sum()
        torch.testing.assert_close(log_z[b], truth.log())
        for span in itertools.combinations(range(length + 1), 2):
            if span[1] - span[0] > 1:
                share = sum(weight for tree, weight in trees.items() if span in dict(tree)) / truth
                torch.testing.assert_close(marginals[b][span], share + truth.new_zeros(()))
    leaves = [grammar.root, grammar.up, grammar.to_left, grammar.to_right]
    expected = sum(
        torch.stack(list(enumerated(grammar, WORDS[b, :n]).values())).sum().log()
        for b, n in enumerate(LENGTHS.tolist())
    )
    for mine, theirs in zip(
        torch.autograd.grad(log_z.sum(), leaves, retain_graph=True), torch.autograd.grad(expected, leaves), strict=True
    ):
        torch.testing.assert_close(mine, theirs)


@pytest.mark.parametrize("rank", [1, 2, 7])
def test_rules_are_normalised_in_both_spaces(rank: int) -> None:
    grammar = rank_grammar(rank)
    simple = grammar.to_simple()
    for rows in (simple.root, simple.left, simple.right):
        torch.testing.assert_close(rows.sum(-1), torch.ones(rows.shape[:-1], dtype=torch.float64))
    assert simple.left.shape == (rank, rank + P)
    torch.testing.assert_close(dense_rules(grammar).sum((1, 2)), torch.ones(N, dtype=torch.float64))
    torch.testing.assert_close(grammar.to_dense().rules, dense_rules(grammar))


def test_each_question_has_a_graph_of_its_own() -> None:
    """Two backward passes in a row, each through its own log Z."""
    grammar = rank_grammar(3)
    leaves = [factor.detach().requires_grad_() for factor in grammar.factors]
    grammar = RankGrammar(*leaves, grammar.emissions)
    first, second = (torch.autograd.grad(grammar.log_partition(WORDS, LENGTHS).sum(), leaves) for _ in range(2))
    torch.testing.assert_close(first, second)


def test_rank_one_is_a_simple_grammar_of_one_state() -> None:
    grammar = rank_grammar(1)
    one = SimpleGrammar(
        grammar.root, *(rules.expand(N, -1) for rules in (grammar.to_left, grammar.to_right)), grammar.emissions
    )
    torch.testing.assert_close(grammar.log_partition(WORDS, LENGTHS), one.log_partition(WORDS, LENGTHS))


def test_a_simple_grammar_is_a_rank_grammar_with_a_rank_a_symbol() -> None:
    grammar = rank_grammar(N)
    same = RankGrammar(
        grammar.root, torch.eye(N, dtype=torch.float64), grammar.to_left, grammar.to_right, grammar.emissions
    )
    simple = SimpleGrammar(grammar.root, grammar.to_left, grammar.to_right, grammar.emissions)
    torch.testing.assert_close(same.log_partition(WORDS, LENGTHS), simple.log_partition(WORDS, LENGTHS))
    torch.testing.assert_close(same.tag_marginals(WORDS, LENGTHS), simple.tag_marginals(WORDS, LENGTHS))
    torch.testing.assert_close(same.surprisal(WORDS, LENGTHS), simple.surprisal(WORDS, LENGTHS))


def test_pruned_questions_go_to_the_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simple, "LEAST_NONTERMINALS", 1)
    grammar = rank_grammar(3)
    pruned = Mock(wraps=simple.pruned_prefix_states)
    monkeypatch.setattr(simple, "pruned_prefix_states", pruned)
    log_z, _ = grammar.pruned_log_partition(WORDS, LENGTHS)
    states, _ = grammar.pruned_prefix_states(WORDS, LENGTHS)
    assert pruned.call_count == 2
    torch.testing.assert_close(log_z, grammar.log_partition(WORDS, LENGTHS))
    torch.testing.assert_close(states.log_prefix, grammar.prefix_log_probabilities(WORDS, LENGTHS))


def test_contract() -> None:
    with torch.no_grad():
        grammar = rank_grammar(2)
        words = torch.tensor([[1, 2, 3, 4, 1], [4, 1, 0, 0, 0], [3, 0, 0, 0, 0]])
        check_grammar(grammar, words, torch.tensor([5, 2, 1]))


def test_prefixes_and_their_words_add_up() -> None:
    grammar = rank_grammar(2)
    prefixes = grammar.prefix_log_probabilities(WORDS[:1])[0].exp()
    following = grammar.next_word_log_probabilities(WORDS[:1, :3]).exp()[0]
    torch.testing.assert_close(prefixes[4] / prefixes[3], following[WORDS[0, 3]])
    torch.testing.assert_close(following.sum(), torch.ones((), dtype=torch.float64))


def test_computed_once_but_with_gradients_where_they_are_wanted() -> None:
    grammar = rank_grammar(2)
    with torch.no_grad():
        simple = grammar.to_simple()
        assert grammar.to_simple() is simple
    assert grammar.log_partition(WORDS, LENGTHS).requires_grad
    with torch.no_grad():
        assert grammar.to_simple() is simple
