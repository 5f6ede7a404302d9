"""Constraints: their file, their words against the model's tokens, and what leaves no tree."""

import itertools
import json
import math

import pytest
import torch

import oracle
from simplepcfg.data.constraints import Constraints, has_tree, stacked_bonuses, token_bonuses
from simplepcfg.data.preprocessing import Prepared, Preprocessing
from simplepcfg.errors import InputError

PLAIN = Preprocessing().apply(list("abcdef"))


def allowed_trees(constraints: Constraints, prepared: Prepared) -> list[set[tuple[int, int]]]:
    """The trees over the tokens that the bonus leaves possible."""
    table = constraints.token_bonus(prepared)
    trees = [{span for span, _ in tree} for tree in oracle.binary_trees(0, len(prepared.tokens))]
    return trees if table is None else [tree for tree in trees if all(table[span] > -math.inf for span in tree)]


def test_required_spans_are_in_every_tree_that_is_left() -> None:
    asked = Constraints(require=((1, 4), (2, 4), (0, 6), (3, 4)))
    trees = allowed_trees(asked, PLAIN)
    every = [{span for span, _ in tree} for tree in oracle.binary_trees(0, 6)]
    assert trees == [tree for tree in every if {(1, 4), (2, 4)} <= tree]
    assert trees


def test_forbidden_spans_are_in_none() -> None:
    trees = allowed_trees(Constraints(forbid=((0, 2), (3, 6))), PLAIN)
    assert trees
    assert not any((0, 2) in tree or (3, 6) in tree for tree in trees)


def test_bonuses_add_up() -> None:
    table = Constraints(bonus=((0, 2, 1.5), (0, 2, 1), (3, 4, 9.0))).token_bonus(PLAIN)
    assert table is not None
    assert table[0, 2] == 2.5
    assert table.sum() == 2.5  # a word's own span is in every tree anyway


def test_dropped_words_are_taken_out() -> None:
    words = ["(", "the", "dog", ",", "barks", ")", "."]
    prepared = Preprocessing().apply(words)
    assert prepared.tokens == ["the", "dog", "barks"]
    table = Constraints(require=((1, 4),), bonus=((2, 5, 2.0), (2, 4, 7.0))).token_bonus(prepared)
    assert table is not None
    assert table[1, 3] == -math.inf  # crosses the required (the dog ,)
    table = Constraints(bonus=((2, 5, 2.0), (2, 4, 7.0))).token_bonus(prepared)
    assert table is not None
    assert table[1, 3] == 2.0
    assert table.sum() == 2.0  # (dog ,) is one word to the model


@pytest.mark.parametrize(
    "asked", [{"require": [[1, 3]]}, {"require": [[0, 2]]}, {"forbid": [[1, 3]]}, {"forbid": [[0, 2]]}]
)
def test_an_added_eos_is_not_the_users(asked: dict[str, list[list[int]]]) -> None:
    """Trees over three words and <eos>, seen without it, are those that the constraint allows over three words."""
    prepared = Preprocessing(eos=True).apply(["a", "b", "c"])
    assert len(prepared.tokens) == 4
    constraints = Constraints.from_mapping(asked)
    shown = {frozenset(prepared.word_spans(tree)) for tree in allowed_trees(constraints, prepared)}
    plain = Preprocessing().apply(["a", "b", "c"])
    assert shown == {frozenset(tree) for tree in allowed_trees(constraints, plain)}
    assert len(shown) == 1


@pytest.mark.parametrize("share", [0.2, 0.5, 0.8])
def test_has_tree_against_enumeration(share: float) -> None:
    generator = torch.Generator().manual_seed(0)
    seen = set()
    for n in [*range(2, 7)] * 4:
        allowed = torch.rand(n + 1, n + 1, generator=generator) < share
        truth = any(all(allowed[span] for span, _ in tree) for tree in oracle.binary_trees(0, n))
        assert has_tree(allowed) == truth
        seen.add(truth)
    assert seen == {True, False}
    assert has_tree(torch.zeros(2, 2, dtype=torch.bool))  # one word needs no span


@pytest.mark.parametrize(
    ("asked", "named"),
    [
        ({"require": [[0, 3], [2, 5]]}, r"\[0, 3\] and \[2, 5\] cross"),
        ({"require": [[0, 3]], "forbid": [[0, 3]]}, r"\[0, 3\] is both required and forbidden"),
        ({"forbid": [[0, 6]]}, "the whole sentence"),
        ({"forbid": [[2, 3]]}, "one word"),
        ({"forbid": [[i, i + 2] for i in range(5)]}, "leave no tree"),
        ({"require": [[1, 7]]}, r"span \[1, 7\] ends beyond the sentence, which has 6 words"),
        ({"bonus": [[4, 9, 1.0]]}, r"\[4, 9\] ends beyond"),
    ],
)
def test_what_cannot_be_is_one_line(asked: dict[str, list[list[int]]], named: str) -> None:
    with pytest.raises(InputError, match=named) as caught:
        token_bonuses([None, asked], [PLAIN] * 2)
    assert str(caught.value).startswith("sentence 1: ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("[1, 2]", "is no object"),
        ('{"requires": []}', "'requires' is no constraint"),
        ('{"require": 3}', "must be a list"),
        ('{"require": [3]}', r"a span must be \[start, end\]"),
        ('{"require": [[1, 2, 3]]}', r"must be \[start, end\]"),
        ('{"bonus": [[1, 2]]}', r"\[start, end, bonus\]"),
        ('{"require": [[0.5, 2]]}', "whole numbers"),
        ('{"require": [[true, 2]]}', "whole numbers"),
        ('{"require": [["0", 2]]}', "whole numbers"),
        ('{"forbid": [[-1, 2]]}', "0 <= start < end"),
        ('{"forbid": [[3, 3]]}', "0 <= start < end"),
        ('{"bonus": [[0, 2, NaN]]}', "from -10000 to 10000"),
        ('{"bonus": [[0, 2, -Infinity]]}', "from -10000 to 10000"),
        ('{"bonus": [[0, 2, null]]}', "from -10000 to 10000"),
        ('{"bonus": [[0, 2, 1e30]]}', "from -10000 to 10000"),
    ],
)
def test_bad_constraints_are_named(line: str, named: str) -> None:
    with pytest.raises(InputError, match=named):
        Constraints.from_mapping(json.loads(line))


def test_stacking() -> None:
    assert stacked_bonuses([None, None], 4) is None
    found = stacked_bonuses([None, torch.ones(3, 3)], 4)
    assert found is not None
    assert found.shape == (2, 5, 5)
    assert found.sum() == 9


@pytest.mark.parametrize("words", [0, 1])
def test_short_sentences_ask_for_nothing(words: int) -> None:
    prepared = Preprocessing().apply(["a"] * words)
    assert Constraints().token_bonus(prepared) is None
    if words:
        assert Constraints(require=((0, 1),)).token_bonus(prepared) is None
    with pytest.raises(InputError, match="ends beyond"):
        Constraints(require=((0, 2),)).token_bonus(prepared)


def test_a_wrong_number_is_named() -> None:
    with pytest.raises(InputError, match="1 constraint for 2 sentences"):
        token_bonuses([None], [PLAIN] * 2)


def test_every_pair_of_required_spans_that_does_not_cross_leaves_a_tree() -> None:
    spans = [(i, j) for i in range(6) for j in range(i + 2, 7)]
    for one, other in itertools.combinations(spans, 2):
        crossing = one[0] < other[0] < one[1] < other[1] or other[0] < one[0] < other[1] < one[1]
        asked = Constraints(require=(one, other))
        if crossing:
            with pytest.raises(InputError, match="cross"):
                asked.token_bonus(PLAIN)
        else:
            assert all({one, other} <= tree for tree in allowed_trees(asked, PLAIN))
