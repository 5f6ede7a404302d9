"""Recall of dependency subtrees and crossing brackets, computed by hand."""

import pytest

from simplepcfg.data.dependencies import dependency_tree
from simplepcfg.data.preprocessing import Preprocessing
from simplepcfg.evaluation.columns import Column, with_comparisons, with_intervals
from simplepcfg.evaluation.dependency_treebank import DependencyTreebank
from simplepcfg.evaluation.rendering import markdown_report

# The old man sees a dog . (subtrees: the old man, a dog) and: dogs , he says , bark (dogs bark is in pieces).
SENTENCES = [
    ("the old man sees a dog .", "DET ADJ NOUN VERB DET NOUN PUNCT", [3, 3, 4, 0, 6, 4, 4]),
    ("dogs , he says , bark", "NOUN PUNCT PRON VERB PUNCT VERB", [6, 1, 4, 0, 4, 4]),
]


@pytest.fixture
def treebank() -> DependencyTreebank:
    trees = [
        dependency_tree(words.split(), tags.split(), heads, ["nsubj"] * len(heads)) for words, tags, heads in SENTENCES
    ]
    return DependencyTreebank(trees, Preprocessing())


def test_words_and_subtrees(treebank: DependencyTreebank) -> None:
    assert [item.tokens for item in treebank.prepared] == [
        ["the", "old", "man", "sees", "a", "dog"],
        ["dogs", "he", "says", "bark"],
    ]
    report = treebank.report("none", [[], []])
    assert report.dependencies is not None
    assert (report.dependencies.subtrees, report.dependencies.discontinuous, report.tokens) == (2, 1, 10)
    assert (report.dependencies.recall, report.dependencies.crossing, report.f1) == (0.0, None, None)


@pytest.mark.parametrize(
    ("name", "recall", "crossing"),
    [
        # Right branching: (1,6) (2,6) (3,6) (4,6) and (1,4) (2,4); (1,6) and (2,6) cross (0,3), (4,6) is a dog.
        ("right-branching", 50, 100 * 2 / 6),
        # Left branching: (0,5) (0,4) (0,3) (0,2) and (0,3) (0,2); (0,5) crosses (4,6), (0,3) is the old man.
        ("left-branching", 50, 100 * 1 / 6),
        ("oracle", 100, 0),
    ],
)
def test_baselines(treebank: DependencyTreebank, name: str, recall: float, crossing: float) -> None:
    report = treebank.baseline(name)
    assert report.dependencies is not None
    assert report.dependencies.recall == pytest.approx(recall)
    assert report.dependencies.crossing == pytest.approx(crossing)
    assert report.to_dict()["subtree_recall"] == pytest.approx(recall)


def test_intervals_and_tables(treebank: DependencyTreebank) -> None:
    columns = [Column(name, (treebank.baseline(name),)) for name in ("oracle", "right-branching")]
    columns = with_comparisons(with_intervals(columns, resamples=50), "right-branching", resamples=50)
    assert columns[0].intervals["subtree_recall"].high == 100
    assert columns[0].comparisons["crossing_brackets"].difference == pytest.approx(-100 / 3)
    table = markdown_report(columns, "on x")
    for row in (
        "recall of subtrees | 100.0 | 50.0",
        "brackets that cross one | 0.0 | 33.3",
        "nsubj (2) | 100.0 | 50.0",
    ):
        assert row in table
    assert "words with a subtree in pieces, left out | 1 | 1" in table
    assert "F1" not in table


def test_kept_punctuation_is_a_word_outside_of_subtrees() -> None:
    words, tags, heads = SENTENCES[0]
    tree = dependency_tree(words.split(), tags.split(), heads, ["x"] * 7)
    kept = DependencyTreebank([tree], Preprocessing(punctuation="keep"))
    assert [(i, j) for i, j, _ in kept.gold[0].spans] == [(0, 7), (0, 3), (4, 6)]
