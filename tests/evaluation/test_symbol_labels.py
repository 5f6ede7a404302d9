"""Symbols against gold labels: measures computed by hand, labelled F1, and the tables that show them."""

import math
from collections import Counter

import pytest

from simplepcfg.data.preprocessing import Preprocessing
from simplepcfg.data.trees import SpanTree
from simplepcfg.evaluation.label_report import compare_labels
from simplepcfg.evaluation.symbol_labels import NO_CONSTITUENT, SymbolLabels, symbol_labels, tag_labels
from simplepcfg.evaluation.treebank import Treebank

GOLD = SpanTree(
    ("the", "dog", "sees", "a", "cat"),
    ("DT", "NN", "VBZ", "DT", "NN"),
    ((0, 5, "S"), (0, 2, "NP-SBJ"), (2, 5, "VP"), (3, 5, "NP")),
)
GUESS = SpanTree(
    GOLD.words,
    ("T-1", "T-2", "T-2", "T-1", "T-2"),
    ((0, 5, "NT-0"), (0, 2, "NT-1"), (2, 5, "NT-2"), (2, 4, "NT-1")),
)


def of(**rows: dict[str, int]) -> SymbolLabels:
    return SymbolLabels({symbol: Counter(row) for symbol, row in rows.items()})


def test_measures_of_a_table_by_hand() -> None:
    # Symbols a: 3 NP, 1 VP; b: 1 NP, 3 VP. Spans that gold does not have count for nothing.
    labels = of(a={"NP": 3, "VP": 1, NO_CONSTITUENT: 9}, b={"NP": 1, "VP": 3}, c={NO_CONSTITUENT: 2})
    left = -(0.75 * math.log(0.75) + 0.25 * math.log(0.25))  # H(label | symbol), the same for both symbols
    explained = 1 - left / math.log(2)
    assert labels.accuracy == pytest.approx(6 / 8)
    assert labels.homogeneity == pytest.approx(explained)
    assert labels.completeness == pytest.approx(explained)  # the table is symmetric
    assert labels.v_measure == pytest.approx(explained)
    assert labels.mapping() == {"a": "NP", "b": "VP"}
    assert labels.best()["b"] == ("VP", 0.75)


def test_homogeneity_and_completeness_differ() -> None:
    # Two symbols share one label: homogeneous, not complete. H(symbol) = 1.5 bits, H(symbol | label) = 0.5 bits.
    labels = of(a={"NP": 2}, b={"NP": 2}, c={"VP": 4})
    assert labels.accuracy == labels.homogeneity == 1
    assert labels.completeness == pytest.approx(1 - 0.5 / 1.5)
    assert labels.v_measure == pytest.approx(2 * (2 / 3) / (5 / 3))
    turned = of(NP={"a": 2, "b": 2}, VP={"c": 4})
    assert (turned.homogeneity, turned.completeness) == (labels.completeness, labels.homogeneity)


@pytest.mark.parametrize(
    ("labels", "accuracy", "v_measure"),
    [
        (of(), 0.0, 1.0),
        (of(a={NO_CONSTITUENT: 3}), 0.0, 1.0),
        (of(a={"NP": 3}), 1.0, 1.0),
        (of(a={"NP": 1, "VP": 1}), 0.5, 0.0),  # one symbol says nothing about two labels
        (of(a={"NP": 1, "VP": 1}, b={"NP": 1, "VP": 1}), 0.5, 0.0),
    ],
)
def test_limits(labels: SymbolLabels, accuracy: float, v_measure: float) -> None:
    assert labels.accuracy == accuracy
    assert labels.v_measure == pytest.approx(v_measure, abs=1e-12)


def test_ties_go_to_the_first_name() -> None:
    assert of(a={"VP": 2, "NP": 2}).mapping() == {"a": "NP"}


def test_tags_leave_out_words_without_a_preterminal() -> None:
    labels = tag_labels([["DT", "NN", "."]], [["T-1", "T-2", "T"]])
    assert labels.counts == {"T-1": {"DT": 1}, "T-2": {"NN": 1}}


def test_labelled_f1_by_hand() -> None:
    report = Treebank([GOLD], Preprocessing()).labels([GUESS])
    assert report is not None
    # NT-1 stands for NP, NT-2 for VP. Of three gold spans and three guesses inside the sentence two are right.
    assert report.corpus_f1 == report.sentence_f1 == pytest.approx(100 * 2 / 3)
    assert report.phrases.counts["NT-1"] == {"NP": 1, NO_CONSTITUENT: 1}
    assert report.tags is not None
    assert report.tags.accuracy == pytest.approx(4 / 5)  # T-2 is NN, and sees is not
    wrong = SpanTree(GUESS.words, GUESS.tags, ((0, 5, "NT-1"), (0, 2, "NT-1"), (2, 5, "NT-1")))
    confused = Treebank([GOLD, GOLD], Preprocessing()).labels([wrong, wrong])
    assert confused is not None
    assert confused.phrases.mapping() == {"NT-1": "NP"}  # NP, S and VP twice each: the first by name
    assert confused.sentence_f1 == pytest.approx(100 * 2 * (1 / 2) * (1 / 3) / (1 / 2 + 1 / 3))


def test_trees_over_all_words_or_kept_ones() -> None:
    dotted = SpanTree((*GOLD.words, "."), (*GOLD.tags, "."), ((0, 6, "S"), *GOLD.spans[1:]))
    over_all = SpanTree(dotted.words, (*GUESS.tags, "T"), ((0, 6, "NT-0"), *GUESS.spans[1:]))
    treebank = Treebank([dotted], Preprocessing())
    one, other = treebank.labels([over_all]), treebank.labels([GUESS])
    assert one is not None
    assert other is not None
    assert one.to_dict() == other.to_dict()


def test_no_symbols_and_no_tags() -> None:
    plain = SpanTree.from_spans(GOLD.words, [(0, 2)])
    assert Treebank([GOLD], Preprocessing()).labels([plain]) is None
    untagged = SpanTree(GOLD.words, ("T",) * 5, GOLD.spans)
    report = Treebank([untagged], Preprocessing()).labels([GUESS])
    assert report is not None
    assert report.tags is None
    assert report.to_dict()["tags"] is None
    other_tags = SpanTree(GOLD.words, ("Det", "N", "V", "Det", "N"), GOLD.spans)  # not Penn's
    report = Treebank([other_tags], Preprocessing()).labels([GUESS])
    assert report is not None
    assert report.tags is not None
    assert report.tags.mapping() == {"T-1": "Det", "T-2": "N"}


def test_gold_against_itself() -> None:
    report = compare_labels([GOLD], [GOLD.tags], [range(5)], [GOLD])
    assert report is not None
    values = report.to_dict()
    assert values["labelled_corpus_f1"] == 100
    assert values["phrases"]["homogeneity"] == values["tags"]["v_measure"] == 100  # NP-SBJ and NP are two symbols
    assert values["phrases"]["mapping"]["NP-SBJ"] == "NP"


def test_nothing_to_map() -> None:
    assert symbol_labels([], []).mapping() == {}
