"""The bracket reader: every layout that treebanks use, and every way in which they break."""

from collections.abc import Iterator

import pytest

from simplepcfg.data.brackets import parse_tree, parse_trees
from simplepcfg.errors import InputError

PLAIN = "(S (NP (DT a) (NN dog)) (VP (VBZ barks)))"


@pytest.mark.parametrize(
    "text",
    [
        PLAIN,
        f"( {PLAIN} )",
        f"({PLAIN})",
        "( (S\n    (NP (DT a)\n      (NN dog) )\n    (VP (VBZ barks) )))\n",
        "(\nS (NP (DT\n a\n) (\nNN\ndog)) (VP\t(VBZ barks ) ) )",
        "(S (NP (DT a) (NN dog)) (VP (VBZ barks) (NP (-NONE- *T*-1))))",
        "(S (NP (DT a) (NN dog)) (VP (VBZ barks) (SBAR (-NONE- 0) (S (-NONE-\n*T*-1)))))",
    ],
)
def test_one_tree_many_layouts(text: str) -> None:
    assert parse_tree(text).to_brackets() == PLAIN


@pytest.mark.parametrize(
    "text",
    [
        "(ROOT (S (NP-SBJ=2 (NN x)) (VP|ADVP (VB y))))",
        "(TOP (S (-LRB- -LRB-) (NN x) (-RRB- -RRB-)))",
        "(NN word)",
        "(S (CD 10\u00a0000) (NN x))",
    ],
)
def test_labels_and_words_are_kept_as_they_are(text: str) -> None:
    assert parse_tree(text).to_brackets() == text


def test_an_empty_label_over_several_nodes_stays() -> None:
    assert parse_tree("( (NP (NN a)) (. .) )").spans[0] == (0, 2, "")
    assert parse_tree("( (NN a) )").spans == ()


def test_several_trees_over_and_on_lines() -> None:
    lines = ["(S (A a)", "", " (B b)) (S (A c) (B d))", "(T e)"]
    assert [tree.words for tree in parse_trees(lines, "f")] == [("a", "b"), ("c", "d"), ("e",)]


def test_reading_is_a_stream() -> None:
    def lines() -> Iterator[str]:
        yield "(T a)"
        raise AssertionError("read further than asked for")

    assert next(parse_trees(lines(), "f")).words == ("a",)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("(T a)\n(S (A a)\n(B b)\n", r"^f:2: the tree that begins here is not closed; 1 '\)' missing$"),
        ("(T a))\n", r"^f:1: '\)' outside any tree; remove it$"),
        ("(T a)\n(T b) so\n", r"^f:2: 'so' outside any tree; a tree must begin with '\('$"),
        ("word\n", r"^f:1: 'word' outside any tree"),
        ("(NP foo bar)", r"^f:1: \(NP foo bar\) holds 2 words under one tag; write \(TAG foo\) for each$"),
        ("(NP foo (NN bar))", r"^f:1: \(NP ...\) mixes the untagged word 'foo' with nodes"),
        ("(S (NN bar)\n(NP (NN foo) bar))", r"^f:2: \(NP ...\) mixes .* \(tree begun at line 1\)$"),
        ("(S (NP) (NN b))", r"^f:1: \(NP\) has neither a word nor children"),
        ("()", r"^f:1: \(\) has neither"),
        ("(T a)\n(S (NP (-NONE- *)))", r"^f:2: tree without words"),
    ],
)
def test_errors_name_the_line(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        list(parse_trees(text.split("\n"), "f"))


def test_parse_tree_wants_exactly_one() -> None:
    with pytest.raises(InputError, match="expected one bracketed tree, found 2"):
        parse_tree("(T a) (T b)")
