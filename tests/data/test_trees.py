"""SpanTree: what it accepts, and the way to nltk.Tree and brackets and back, at any depth."""

import random
import sys

import pytest
from nltk.tree import Tree

from simplepcfg.data.brackets import parse_tree
from simplepcfg.data.trees import SpanTree
from simplepcfg.errors import InputError


def random_span_tree(rng: random.Random, n: int) -> SpanTree:
    """A tree with flat phrases, unary chains and phrases over one word."""
    spans: list[tuple[int, int, str]] = []
    waiting = [(0, n)]
    while waiting:
        i, j = waiting.pop()
        chain = rng.choice([1, 1, 1, 2, 3]) if j - i > 1 else rng.choice([0, 0, 1, 2])
        spans += [(i, j, rng.choice(["S", "NP", "NP-SBJ", "VP"])) for _ in range(chain)]
        if j - i > 1:
            cuts = sorted(rng.sample(range(i + 1, j), rng.randint(1, min(3, j - i - 1))))
            waiting += reversed(list(zip([i, *cuts], [*cuts, j], strict=True)))
    words = tuple(rng.choice(["a", "dog", "-LRB-", "ünïcode", "3,000.5"]) for _ in range(n))
    return SpanTree(words, tuple(rng.choice(["DT", "NN"]) for _ in range(n)), tuple(spans))


@pytest.mark.parametrize("seed", range(40))
def test_round_trips(seed: int) -> None:
    rng = random.Random(seed)
    tree = random_span_tree(rng, rng.randint(1, 25))
    assert SpanTree.from_nltk(tree.to_nltk()) == tree
    assert parse_tree(tree.to_brackets()) == tree
    assert Tree.fromstring(tree.to_brackets()) == tree.to_nltk()
    assert parse_tree(tree.to_nltk().pformat(margin=30)) == tree


@pytest.mark.parametrize("shape", ["right", "left", "unary"])
def test_depth_5000_needs_no_recursion(shape: str) -> None:
    n = 1 if shape == "unary" else 5_001
    spans = {
        "right": tuple((i, n, "X") for i in range(n - 1)),
        "left": tuple((0, j, "X") for j in range(n, 1, -1)),
        "unary": tuple((0, 1, "X") for _ in range(5_000)),
    }[shape]
    tree = SpanTree(("w",) * n, ("T",) * n, spans)
    assert len(spans) == 5_000 > sys.getrecursionlimit()
    assert SpanTree.from_nltk(tree.to_nltk()) == tree
    assert parse_tree(tree.to_brackets()) == tree


def test_preorder_and_unary_chains_outermost_first() -> None:
    tree = SpanTree.from_nltk(Tree.fromstring("(S (NP (NP (NN dogs))) (VP (VBP bark)))"))
    assert tree == SpanTree(("dogs", "bark"), ("NN", "VBP"), ((0, 2, "S"), (0, 1, "NP"), (0, 1, "NP"), (1, 2, "VP")))
    assert len(tree) == 2


def test_from_nltk_drops_traces_and_the_empty_wrapper() -> None:
    tree = SpanTree.from_nltk(Tree.fromstring("( (S (NP (-NONE- *)) (VP (VB go) (ADVP (RB now)))))"))
    assert tree.to_brackets() == "(S (VP (VB go) (ADVP (RB now))))"


def test_a_word_with_brackets_is_escaped() -> None:
    assert SpanTree(("(a)",), ("NN",), ()).to_brackets() == "(NN -LRB-a-RRB-)"


def test_a_parser_s_spans() -> None:
    words = ["the", "dog", "barks"]
    assert SpanTree.from_spans(words, [(0, 3), (0, 2)]).to_brackets() == "(X (X (T the) (T dog)) (T barks))"
    assert SpanTree.from_spans(["one"], []).to_brackets() == "(X (T one))"


def test_the_empty_tree() -> None:
    empty = SpanTree((), (), ())
    assert len(empty) == 0
    assert empty.to_brackets() == ""
    with pytest.raises(InputError, match="without words"):
        empty.to_nltk()


@pytest.mark.parametrize(
    ("words", "tags", "spans", "message"),
    [
        (("a",), (), (), "1 words has 0 tags"),
        (("a", "b"), ("T", "T"), (), r"no spans; the first must be \(0, 2"),
        (("a", "b"), ("T", "T"), ((0, 1, "X"),), "must cover all 2 words"),
    ],
)
def test_refused_trees(words: tuple, tags: tuple, spans: tuple, message: str) -> None:
    with pytest.raises(InputError, match=message):
        SpanTree(words, tags, spans)


@pytest.mark.parametrize(
    ("spans", "message"),
    [
        ([(0, 2), (1, 3)], r"\(1, 3\) crosses one that ends at 2"),
        ([(1, 5)], r"\(1, 5\) lies outside .* 4 words"),
    ],
)
def test_refused_spans(spans: list[tuple[int, int]], message: str) -> None:
    with pytest.raises(InputError, match=message):
        SpanTree.from_spans(list("abcd"), spans)


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        (Tree("NP", ["a", "dog"]), r"\(NP a dog\) holds 2 words under one tag"),
        (Tree("NP", ["a", Tree("NN", ["dog"])]), "mixes the untagged word 'a' with nodes"),
        (Tree("S", [Tree("NP", [])]), r"\(NP\) has neither a word nor children"),
        (Tree("S", [3]), "leaves must be strings"),
        (Tree("S", [Tree("-NONE-", ["*"])]), "tree without words"),
    ],
)
def test_refused_nltk_trees(tree: Tree, message: str) -> None:
    with pytest.raises(InputError, match=message):
        SpanTree.from_nltk(tree)


def test_spans_out_of_order_are_refused_when_the_tree_is_built() -> None:
    tree = SpanTree(("a", "b", "c", "d"), ("T",) * 4, ((0, 4, "X"), (2, 4, "X"), (0, 2, "X")))
    with pytest.raises(InputError, match=r"\(0, 2\) comes after one that starts at 2; sort parents first"):
        tree.to_nltk()
