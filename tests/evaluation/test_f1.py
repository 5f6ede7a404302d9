"""The metric: one hand-worked case a convention, and a second implementation that must agree with it."""

import random
import statistics

import pytest
from nltk.tree import Tree

from simplepcfg.data.brackets import parse_tree
from simplepcfg.data.trees import SpanTree
from simplepcfg.errors import InputError
from simplepcfg.evaluation.f1 import (
    F1Report,
    evaluate_spans,
    evaluate_trees,
    evaluation_spans,
    proper_spans,
    strip_function_tags,
)

GOLD = "(S (NP (DT a) (NN b)) (VP (VB c) (NP (DT d) (JJ e) (NN f))))"  # counts (0, 2), (2, 6), (3, 6)


def report_of(gold: str, spans: list[tuple[int, int]]) -> F1Report:
    return evaluate_spans([parse_tree(gold)], [spans])


def test_precision_and_recall() -> None:
    # Four spans predicted, two of the three gold ones among them: P = 1/2, R = 2/3, F1 = 4/7.
    report = report_of(GOLD, [(0, 6), (0, 5), (2, 5), (0, 2), (3, 6)])
    assert report.sentence_f1 == pytest.approx(400 / 7)
    assert report.corpus_f1 == pytest.approx(400 / 7)


def test_perfect_and_hopeless() -> None:
    assert report_of(GOLD, [(0, 2), (2, 6), (3, 6)]).sentence_f1 == 100
    assert report_of(GOLD, [(0, 3), (1, 3)]).sentence_f1 == 0
    assert report_of(GOLD, []).sentence_f1 == 0


def test_two_words_always_score_100() -> None:
    for spans in ([], [(0, 2)], [(0, 1), (1, 2)]):
        assert report_of("(S (NP (NN a)) (VP (VB b)))", spans).sentence_f1 == 100


def test_empty_gold() -> None:
    flat = "(S (A a) (B b) (C c))"
    assert report_of(flat, [(0, 3)]).sentence_f1 == 100
    assert report_of(flat, [(0, 3), (0, 2)]).sentence_f1 == 0
    assert report_of(flat, [(0, 3), (0, 2)]).recall_by_label == ()


def test_unary_chains_count_once() -> None:
    chain = "(S (NP (NP (NX (A a) (B b)))) (C c) (D d))"
    assert evaluation_spans(parse_tree(chain)) == {(0, 2)}
    # One of two predicted spans is right: P = 1/2, R = 1.
    assert report_of(chain, [(0, 2), (0, 2), (0, 3)]).sentence_f1 == pytest.approx(200 / 3)


def test_whole_sentence_and_single_words_do_not_count() -> None:
    tree = parse_tree("(ROOT (S (NP (A a)) (VP (B b) (C c))))")
    assert evaluation_spans(tree) == {(1, 3)}
    assert proper_spans([(0, 3), (0, 1), (1, 3)], 3) == {(1, 3)}


def test_labels_do_not_matter() -> None:
    other = "(X (Q (T a) (T b)) (Q (T c) (Q (T d) (T e) (T f))))"
    assert evaluate_trees([parse_tree(GOLD)], [parse_tree(other)]).sentence_f1 == 100


def test_short_sentences_are_left_out_and_counted() -> None:
    gold = [parse_tree("(NP (NN a))"), parse_tree(GOLD), SpanTree((), (), ())]
    report = evaluate_spans(gold, [[(0, 1)], [(0, 2), (2, 6), (3, 6)], []])
    assert (report.sentences, report.skipped_one_word, report.sentence_f1) == (1, 2, 100)
    with pytest.raises(InputError, match="none of 2 gold trees has two words"):
        evaluate_spans([gold[0], gold[2]], [[], []])


def test_sentence_f1_is_a_mean_and_corpus_f1_is_micro_averaged() -> None:
    gold = [parse_tree(GOLD), parse_tree("(S (A a) (X (B b) (C c)))")]
    report = evaluate_spans(gold, [[(0, 2), (2, 6), (3, 6), (4, 6)], [(0, 2)]])
    # Sentence 1: P = 3/4, R = 1, F1 = 6/7; sentence 2: 0. Together 3 of 5 predicted, 3 of 4 gold: F1 = 2/3.
    assert report.sentence_f1 == pytest.approx(100 * (6 / 7) / 2)
    assert report.corpus_f1 == pytest.approx(200 / 3)


def test_by_length() -> None:
    def flat(n: int) -> SpanTree:
        return SpanTree(("w",) * n, ("T",) * n, ((0, n, "S"), (0, 2, "X")))

    gold = [flat(n) for n in (3, 10, 11, 40, 41, 99)]
    spans = [[(0, 2)], [(1, 3)], [(0, 2)], [(0, 2)], [(0, 2), (3, 5)], [(0, 2)]]
    found = [(part.name, part.sentences, part.sentence_f1) for part in evaluate_spans(gold, spans).by_length]
    assert found[:4] == [("1-10", 2, 50), ("11-20", 1, 100), ("21-30", 0, None), ("31-40", 1, 100)]
    assert found[4] == (">40", 2, pytest.approx((200 / 3 + 100) / 2))


def test_recall_by_label_without_function_tags() -> None:
    tree = "(S (NP-SBJ-1 (A a) (B b)) (VP (NP=2 (ADVP|PRT (C c) (D d))) (NP (E e) (F f))) (. .))"
    rows = report_of(tree, [(0, 2), (2, 4)]).recall_by_label
    assert [(row.label, row.found, row.total) for row in rows] == [("NP", 2, 3), ("ADVP", 1, 1), ("VP", 0, 1)]
    assert rows[0].recall == pytest.approx(200 / 3)


@pytest.mark.parametrize(
    ("label", "stripped"),
    [
        ("NP-SBJ-1", "NP"),
        ("NP=2", "NP"),
        ("ADVP|PRT", "ADVP"),
        ("-LRB-", "-LRB-"),
        ("-NONE-", "-NONE-"),
        ("", ""),
    ],
)
def test_strip_function_tags(label: str, stripped: str) -> None:
    assert strip_function_tags(label) == stripped


def test_mismatches_are_refused() -> None:
    with pytest.raises(InputError, match="1 gold trees but 2 predictions"):
        evaluate_spans([parse_tree(GOLD)], [[], []])
    with pytest.raises(InputError, match=r"prediction 1: span \(0, 7\) lies outside a sentence of 6 words"):
        report_of(GOLD, [(0, 7)])
    with pytest.raises(InputError, match="tree 1: 6 words in the gold tree, 1 in the prediction"):
        evaluate_trees([parse_tree(GOLD)], [parse_tree("(T a)")])


def independent_metric(golds: list[Tree], guesses: list[Tree]) -> tuple[float, float]:
    """Sentence and corpus F1, written over tree positions and lists instead of spans and sets."""

    def brackets(tree: Tree) -> list[str]:
        leaves = tree.treepositions("leaves")
        rows = []
        for position in tree.treepositions():
            if isinstance(tree[position], Tree):
                covered = "".join("x" if leaf[: len(position)] == position else "." for leaf in leaves)
                if covered.count("x") not in (1, len(leaves)) and covered not in rows:
                    rows.append(covered)
        return rows

    per_sentence, right, said, true = [], 0, 0, 0
    for gold, guess in zip(golds, guesses, strict=True):
        if len(gold.leaves()) == 1:
            continue
        want, have = brackets(gold), brackets(guess)
        common = len([row for row in have if row in want])
        if not want:
            per_sentence.append(0.0 if have else 100.0)
        else:
            # 2PR / (P + R) is the share of the hits in the mean number of brackets.
            per_sentence.append(100 * common / ((len(want) + len(have)) / 2))
        right, said, true = right + common, said + len(have), true + len(want)
    return statistics.fmean(per_sentence), 200 * right / (said + true) if said + true else 100.0


def random_nltk_tree(rng: random.Random, words: list[str]) -> Tree:
    if len(words) == 1:
        leaf = Tree("T", words)
        return Tree("NP", [leaf]) if rng.random() < 0.3 else leaf
    cuts = sorted(rng.sample(range(1, len(words)), rng.randint(1, min(3, len(words) - 1))))
    parts = [words[a:b] for a, b in zip([0, *cuts], [*cuts, len(words)], strict=True)]
    node = Tree("X", [random_nltk_tree(rng, part) for part in parts])
    return Tree("Y", [node]) if rng.random() < 0.2 else node


@pytest.mark.parametrize("seed", range(25))
def test_agrees_with_the_independent_metric(seed: int) -> None:
    rng = random.Random(seed)
    golds, guesses = [], []
    for n in [2, *(rng.randint(1, 14) for _ in range(rng.randint(1, 12)))]:
        words = [f"w{k}" for k in range(n)]
        golds.append(random_nltk_tree(rng, words))
        guesses.append(random_nltk_tree(rng, words))
    report = evaluate_trees([SpanTree.from_nltk(t) for t in golds], [SpanTree.from_nltk(t) for t in guesses])
    assert (report.sentence_f1, report.corpus_f1) == pytest.approx(independent_metric(golds, guesses))
