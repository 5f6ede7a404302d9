"""The whole way from bracketed text to F1, against a second one over nltk alone, in exact fractions."""

import random
from fractions import Fraction
from pathlib import Path

import pytest
from nltk.tree import Tree

from simplepcfg.data.preprocessing import PENN_WORD_TAGS, Preprocessing
from simplepcfg.data.readers import read_trees
from simplepcfg.data.synthetic_grammar import generate_treebank
from simplepcfg.evaluation.treebank import Treebank

HAND_MADE = [
    "(TOP (S (NP-SBJ (DT the) (NN dog)) (, ,) (VP (VBZ sees) (NP (-NONE- *T*-1)) (NP (CD 1,000) (NNS cats))) (. .)))",
    "(TOP (S (`` ``) (NP (PRP It)) (VP (VBZ is) (ADJP (JJ old))) ('' '') (. .)))",  # unary chains
    "(TOP (INTJ (UH Yes) (. .)))",  # one word
    "(TOP (NP (NN dog) (NN food)))",  # two words
    "(TOP (FRAG (NN a) (NN b) (NN c) (. .)))",  # no gold span that counts
    "(TOP (S (S (NP (NP (NN man)) (PRN (-LRB- -LRB-) (PP (IN in) (NP (NN town))) (-RRB- -RRB-))) (VP (VBD slept)))))",
]


def words_only(tree: Tree) -> Tree | None:
    """A copy without the leaves whose tag is no word's, and without what that empties."""
    if len(tree) == 1 and isinstance(tree[0], str):
        return tree if tree.label() in PENN_WORD_TAGS else None
    kept = [child for child in map(words_only, tree) if child is not None]
    return Tree(tree.label(), kept) if kept else None


def left(leaves: list[str], rng: random.Random) -> Tree | str:
    return leaves[0] if len(leaves) == 1 else Tree("X", [left(leaves[:-1], rng), leaves[-1]])


def right(leaves: list[str], rng: random.Random) -> Tree | str:
    return leaves[0] if len(leaves) == 1 else Tree("X", [leaves[0], right(leaves[1:], rng)])


def anyhow(leaves: list[str], rng: random.Random) -> Tree | str:
    if len(leaves) == 1:
        return leaves[0]
    split = rng.randint(1, len(leaves) - 1)
    return Tree("X", [anyhow(leaves[:split], rng), anyhow(leaves[split:], rng)])


def brackets(tree: Tree) -> set[tuple[str, ...]]:
    """Constituents as the tuples of their leaves, which are made unlike each other first."""
    return {tuple(node.leaves()) for node in tree.subtrees() if 1 < len(node.leaves()) < len(tree.leaves())}


def second_metric(golds: list[Tree], guesses: list[Tree]) -> tuple[Fraction, Fraction]:
    scores, hits, said, true = [], 0, 0, 0
    for gold, guess in zip(golds, guesses, strict=True):
        want, have = brackets(gold), brackets(guess)
        common = len(want & have)
        recall = Fraction(common, len(want)) if want else Fraction(1)
        precision = Fraction(common, len(have)) if have else Fraction(0 if want else 1)
        scores.append(2 * precision * recall / (precision + recall) if precision + recall else Fraction(0))
        hits, said, true = hits + common, said + len(have), true + len(want)
    return 100 * sum(scores, Fraction(0)) / len(scores), Fraction(200 * hits, said + true)


@pytest.fixture(scope="module")
def treebank(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("trees") / "gold.trees"
    drawn = [f"(TOP {tree.to_brackets()} (. .))" for tree in generate_treebank(150, seed=3)]
    path.write_text("\n".join([*HAND_MADE, *drawn]) + "\n")
    return path


@pytest.mark.parametrize(("name", "branch"), [("left-branching", left), ("right-branching", right), ("x", anyhow)])
def test_agrees_to_the_last_digit(treebank: Path, tmp_path: Path, name: str, branch) -> None:  # type: ignore[no-untyped-def]
    rng = random.Random(7)
    golds, guesses = [], []
    for line in treebank.read_text().splitlines():
        tree = words_only(Tree.fromstring(line))
        assert tree is not None
        for place, position in enumerate(tree.treepositions("leaves")):
            tree[position] = f"w{place}"
        golds.append(tree)
        guess = branch(tree.leaves(), rng)
        guesses.append(guess if isinstance(guess, Tree) else Tree("X", [guess]))
    long = [index for index, tree in enumerate(golds) if len(tree.leaves()) > 1]
    sentence, corpus = second_metric([golds[index] for index in long], [guesses[index] for index in long])
    ours = Treebank(read_trees(treebank), Preprocessing())
    if name == "x":
        printed = tmp_path / "guess.trees"
        printed.write_text("\n".join(" ".join(str(_tagged(tree)).split()) for tree in guesses) + "\n")
        report, _ = ours.predictions(name, list(read_trees(printed)))
    else:
        report = ours.baseline(name)
    assert report.f1 is not None
    assert (report.f1.sentences, report.f1.skipped_one_word) == (len(long), 1)
    assert f"{report.f1.sentence_f1:.12f}" == f"{float(sentence):.12f}"
    assert f"{report.f1.corpus_f1:.12f}" == f"{float(corpus):.12f}"
    assert 0 < sentence < 100


def _tagged(tree: Tree) -> Tree:
    return Tree(tree.label(), [_tagged(child) if isinstance(child, Tree) else Tree("T", [child]) for child in tree])
