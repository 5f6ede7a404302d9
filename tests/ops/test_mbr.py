"""Minimum-Bayes-risk trees against the best of all trees."""

import pytest
import torch

import oracle
from simplepcfg.errors import InputError
from simplepcfg.ops.mbr import best_tree_mask, best_trees


@pytest.mark.parametrize(("seed", "bonus"), [(0, 0.0), (1, 0.0), (2, 0.3), (3, 0.3), (4, 1.0)])
def test_best_trees_against_enumeration(seed: int, bonus: float) -> None:
    generator = torch.Generator().manual_seed(seed)
    lengths = [7, 2, 1, 5]
    marginals = torch.rand(4, 8, 8, generator=generator, dtype=torch.float64)
    found = best_trees(marginals, torch.tensor(lengths), final_bonus=bonus)
    for b, length in enumerate(lengths):
        marginals[b, :, length] += bonus
        trees = [[span for span, _ in tree] for tree in oracle.binary_trees(0, length)]
        best = max(trees, key=lambda tree: sum(float(marginals[b, i, j]) for i, j in tree))
        assert found[b] == best


def test_spans_come_in_preorder_and_ties_go_left() -> None:
    assert best_trees(torch.zeros(1, 5, 5)) == [[(0, 4), (1, 4), (2, 4)]]


def test_a_sentence_does_not_depend_on_its_neighbours() -> None:
    marginals = torch.rand(3, 12, 12, generator=torch.Generator().manual_seed(1))
    lengths = torch.tensor([11, 6, 9])
    together = best_trees(marginals, lengths)
    for b, length in enumerate(lengths.tolist()):
        assert best_trees(marginals[b : b + 1, : length + 1, : length + 1]) == [together[b]]


def test_marks_are_a_binary_tree() -> None:
    marks = best_tree_mask(torch.rand(2, 61, 61, generator=torch.Generator().manual_seed(2)))
    assert marks.sum((1, 2)).tolist() == [59, 59]


def test_bad_shape_is_named() -> None:
    with pytest.raises(InputError, match=r"marginals has shape \[2, 3, 4\]"):
        best_trees(torch.zeros(2, 3, 4))


@pytest.mark.parametrize("seed", range(5))
def test_forbidden_spans_against_enumeration(seed: int) -> None:
    """Also where all that is allowed has no weight at all."""
    generator = torch.Generator().manual_seed(seed)
    lengths = [6, 2, 1, 5]
    marginals = torch.rand(4, 7, 7, generator=generator, dtype=torch.float64)
    marginals[3] = 0.0
    forbidden = torch.rand(4, 7, 7, generator=generator) < 0.2
    for b, length in enumerate(lengths):
        forbidden[b, 0, length] = False
        for j in range(2, length):
            forbidden[b, 0, j] = False  # the left-branching tree stays
    found = best_trees(marginals, torch.tensor(lengths), forbidden)
    for b, length in enumerate(lengths):
        trees = [[span for span, _ in tree] for tree in oracle.binary_trees(0, length)]
        allowed = [tree for tree in trees if not any(forbidden[b, i, j] for i, j in tree)]
        assert found[b] in allowed
        best = max(sum(float(marginals[b, i, j]) for i, j in tree) for tree in allowed)
        assert sum(float(marginals[b, i, j]) for i, j in found[b]) == pytest.approx(best)


def test_no_tree_left_is_named() -> None:
    forbidden = torch.zeros(2, 4, 4, dtype=torch.bool)
    forbidden[1, 0, 2] = forbidden[1, 1, 3] = True
    with pytest.raises(InputError, match="sentence 1: the forbidden spans leave no tree"):
        best_trees(torch.rand(2, 4, 4), None, forbidden)
    best_trees(torch.rand(2, 4, 4), torch.tensor([3, 2]), forbidden[[0, 0]])
    with pytest.raises(InputError, match="forbidden has shape"):
        best_trees(torch.rand(2, 4, 4), None, forbidden[:1])
