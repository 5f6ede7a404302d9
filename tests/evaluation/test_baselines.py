"""Trees without a model: well-formed, of the stated distribution, and the oracle is the best there is."""

from collections import Counter
from collections.abc import Iterable

import pytest
import torch

from simplepcfg.data.brackets import parse_tree
from simplepcfg.data.trees import check_nested
from simplepcfg.errors import InputError
from simplepcfg.evaluation.baselines import left_branching, oracle, random_tree, right_branching
from simplepcfg.evaluation.f1 import evaluation_spans, f1_of_counts, proper_spans


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def all_binary_trees(i: int, j: int) -> list[list[tuple[int, int]]]:
    if j - i == 1:
        return [[]]
    return [
        [(i, j), *left, *right]
        for k in range(i + 1, j)
        for left in all_binary_trees(i, k)
        for right in all_binary_trees(k, j)
    ]


def test_branching() -> None:
    assert left_branching(4) == [(0, 4), (0, 3), (0, 2)]
    assert right_branching(4) == [(0, 4), (1, 4), (2, 4)]


@pytest.mark.parametrize("n", [1, 2, 3, 17, 2_000])
def test_each_is_a_binary_tree_in_preorder(n: int) -> None:
    gold = [(i, i + 3) for i in range(0, n - 3, 3)]
    for spans in (left_branching(n), right_branching(n), random_tree(n, generator()), oracle(gold, n)):
        assert len(set(spans)) == len(spans) == n - 1
        assert spans == sorted(spans, key=lambda span: (span[0], -span[1]))
        assert all(j - i >= 2 for i, j in spans)
        check_nested(spans, n)


def test_random_tree_follows_its_generator() -> None:
    assert random_tree(30, generator(4)) == random_tree(30, generator(4))
    assert random_tree(30, generator(4)) != random_tree(30, generator(5))


def test_random_tree_splits_uniformly() -> None:
    source = generator()
    draws = 6_000
    counts = Counter(str(random_tree(4, source)) for _ in range(draws))
    # Splitting 1|3 or 3|1 leaves two trees each, 2|2 leaves one: 1/6 four times, 1/3 once.
    assert sorted(round(count / draws, 1) for count in counts.values()) == [0.2, 0.2, 0.2, 0.2, 0.3]


@pytest.mark.parametrize(
    "text",
    [
        "(S (A a) (B b) (C c) (D d) (E e) (F f))",
        "(S (NP (A a) (B b)) (VP (C c) (X (D d) (E e) (F f))))",
        "(S (X (Y (A a) (B b) (C c))) (D d) (Z (E e)) (F f))",
        "(S (A a) (X (B b) (C c) (D d)) (Y (E e) (F f)))",
    ],
)
def test_no_binary_tree_beats_the_oracle(text: str) -> None:
    tree = parse_tree(text)
    n, gold = len(tree), evaluation_spans(tree)

    def f1(spans: Iterable[tuple[int, int]]) -> float:
        found = proper_spans(spans, n)
        return f1_of_counts(len(gold & found), len(gold), len(found))

    best = max(f1(spans) for spans in all_binary_trees(0, n))
    predicted = oracle([(i, j) for i, j, _ in tree.spans], n)
    assert gold <= set(predicted)
    assert f1(predicted) == best


def test_refused() -> None:
    for baseline in (
        left_branching,
        right_branching,
        lambda n: random_tree(n, generator()),
        lambda n: oracle([], n),
    ):
        with pytest.raises(InputError, match="n = 0; a tree needs at least one word"):
            baseline(0)
    with pytest.raises(InputError, match="crosses"):
        oracle([(0, 2), (1, 3)], 4)
