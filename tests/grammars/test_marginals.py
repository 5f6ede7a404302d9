"""The grammar's questions about derivations: words in, the ops' answers out; constraints in all of them."""

import math

import pytest
import torch

from derivations import answers
from random_grammars import random_case
from simplepcfg.errors import InputError
from simplepcfg.grammars import DenseEmissions, SimpleGrammar

WORDS = torch.tensor([[1, 2, 3, 4], [5, 0, 0, 0], [4, 4, 0, 0], [2, 1, 3, 0]])
LENGTHS = torch.tensor([4, 1, 2, 3])


def grammar(seed: int = 0, N: int = 2, P: int = 2, grad: bool = False) -> SimpleGrammar:
    case = random_case(4, 4, N, P, scale=2.0, seed=seed)
    log_emit = torch.randn(P, 6, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).log_softmax(-1)
    rules = (case.root, case.left, case.right) if grad else (t.detach() for t in (case.root, case.left, case.right))
    return SimpleGrammar(*rules, DenseEmissions(log_emit))


def bonus() -> torch.Tensor:
    """Something is forbidden, something is favoured, and every sentence keeps a tree."""
    found = torch.zeros(4, 5, 5, dtype=torch.float64)
    found[0, 0, 2] = -math.inf
    found[0, 1, 3] = 2.0
    found[3, 1, 3] = -math.inf
    return found


def test_constraints_enter_every_answer_alike() -> None:
    one = grammar()
    bonuses = bonus()
    log_z = one.log_partition(WORDS, LENGTHS, span_bonus=bonuses)
    spans = one.span_marginals(WORDS, LENGTHS, span_bonus=bonuses)
    symbols = one.symbol_marginals(WORDS, LENGTHS, span_bonus=bonuses)
    tags = one.tag_marginals(WORDS, LENGTHS, span_bonus=bonuses)
    entropy = one.entropy(WORDS, LENGTHS, span_bonus=bonuses)
    counts = one.rule_counts(WORDS, LENGTHS, span_bonus=bonuses)
    trees = one.decode(WORDS, LENGTHS, span_bonus=bonuses)
    total = torch.zeros_like(counts.left)
    for b, length in enumerate(LENGTHS.tolist()):
        emissions = one.emissions.log_probabilities(WORDS[b : b + 1, :length])[0]
        truth = answers(emissions, one.root, one.left, one.right, span_bonus=bonuses[b])
        assert log_z[b].item() == pytest.approx(truth.log_z)
        assert entropy[b].item() == pytest.approx(truth.entropy)
        torch.testing.assert_close(spans[b, : length + 1, : length + 1], truth.spans)
        torch.testing.assert_close(symbols[b, : length + 1, : length + 1], truth.symbols)
        torch.testing.assert_close(tags[b, :length], truth.tags)
        assert not any(bonuses[b, i, j] == -math.inf for i, j in trees[b])
        total += truth.left
    torch.testing.assert_close(counts.left, total)


def test_a_mask_enters_gradients() -> None:
    """Only the right-branching tree is left to three words: its rules alone have a gradient."""
    one = grammar(grad=True)
    bonuses = bonus()[3:]
    bonuses[0, 1, 3], bonuses[0, 0, 2] = 0.0, -math.inf
    log_z = one.log_partition(WORDS[3:, :3], span_bonus=bonuses[:, :4, :4])
    (by_left,) = torch.autograd.grad(log_z.sum(), one.left)
    assert not by_left[:, :2].any()  # no left child is a nonterminal
    assert by_left[:, 2:].any()


def test_a_bonus_that_forbids_nothing_changes_nothing() -> None:
    one = grammar()
    zeros = torch.zeros(4, 5, 5, dtype=torch.float64)
    torch.testing.assert_close(
        one.log_partition(WORDS, LENGTHS, span_bonus=zeros), one.log_partition(WORDS, LENGTHS), rtol=0, atol=0
    )
    torch.testing.assert_close(one.entropy(WORDS, LENGTHS, span_bonus=zeros), one.entropy(WORDS, LENGTHS))
    assert one.decode(WORDS, LENGTHS, span_bonus=zeros) == one.decode(WORDS, LENGTHS)


def test_decode_names_the_sentence_that_has_no_tree_left() -> None:
    none = bonus()
    none[3, 0, 2] = -math.inf
    with pytest.raises(InputError, match="sentence 3"):
        grammar().decode(WORDS, LENGTHS, span_bonus=none)


def test_chosen_spans() -> None:
    one = grammar()
    spans = torch.tensor([[3, 0, 2], [0, 1, 4]])
    chosen = one.symbol_marginals(WORDS, LENGTHS, spans=spans)
    everything = one.symbol_marginals(WORDS, LENGTHS)
    torch.testing.assert_close(chosen, everything[spans[:, 0], spans[:, 1], spans[:, 2]])


def test_what_is_differentiable() -> None:
    one = grammar(grad=True)
    for answer in (
        one.span_marginals(WORDS, LENGTHS),
        one.tag_marginals(WORDS, LENGTHS),
        one.rule_counts(WORDS, LENGTHS).left,
        one.entropy(WORDS, LENGTHS)[LENGTHS > 1],
    ):
        (slope,) = torch.autograd.grad(answer.square().sum(), one.left)
        assert slope.isfinite().all()
        assert slope.any()
    assert not one.symbol_marginals(WORDS, LENGTHS).requires_grad
    with torch.no_grad():
        assert not one.entropy(WORDS, LENGTHS).requires_grad
