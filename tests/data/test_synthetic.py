"""The built-in treebank: size, seeds, agreement, and the properties that make it worth learning."""

from collections.abc import Iterator
from itertools import islice

import numpy as np
import pytest
import torch

from simplepcfg.data.preprocessing import PENN_WORD_TAGS
from simplepcfg.data.synthetic_grammar import Rule, SyntheticGrammar, generate_treebank, generate_trees, the_grammar
from simplepcfg.data.trees import SpanTree
from simplepcfg.errors import InputError
from simplepcfg.evaluation.baselines import left_branching, oracle, random_tree, right_branching
from simplepcfg.evaluation.f1 import evaluate_spans, evaluation_spans


@pytest.fixture(scope="module")
def treebank() -> list[SpanTree]:
    return generate_treebank(5_000, seed=11)


@pytest.mark.parametrize("sentences", [0, 1, 63])
def test_any_size_can_be_asked_for(sentences: int) -> None:
    assert len(generate_treebank(sentences, seed=3)) == sentences


def test_a_negative_size_is_refused() -> None:
    with pytest.raises(InputError, match="sentences = -1"):
        generate_treebank(-1, seed=0)


def test_a_seed_decides_the_treebank_and_a_larger_one_only_adds_to_it() -> None:
    assert generate_treebank(40, seed=5) == generate_treebank(100, seed=5)[:40]
    assert generate_treebank(40, seed=5) != generate_treebank(40, seed=6)


def test_vocabulary_and_lengths(treebank: list[SpanTree]) -> None:
    lengths = [len(tree) for tree in treebank]
    assert len({word for tree in treebank for word in tree.words}) >= 300
    assert np.mean(lengths) >= 10
    assert min(lengths) >= 2


def test_words_fall_off_like_zipf(treebank: list[SpanTree]) -> None:
    nouns = [word for tree in treebank for word, tag in zip(tree.words, tree.tags, strict=True) if tag == "NNS"]
    counts = sorted((nouns.count(word) for word in set(nouns)), reverse=True)
    assert counts[0] > 2 * counts[len(counts) // 4] > 3 * counts[-1]


def test_trees_are_well_formed_and_survive_bracketing(treebank: list[SpanTree]) -> None:
    for tree in treebank[:300]:
        assert tree.spans[0] == (0, len(tree), "S")
        assert set(tree.tags) <= PENN_WORD_TAGS
        assert SpanTree.from_nltk(tree.to_nltk()) == tree


def test_baselines_leave_room_and_a_binary_parser_can_score_high(treebank: list[SpanTree]) -> None:
    generator = torch.Generator().manual_seed(0)

    def score(parses: Iterator[list[tuple[int, int]]]) -> float:
        return evaluate_spans(treebank, list(parses)).sentence_f1

    assert 25 <= score(right_branching(len(tree)) for tree in treebank) <= 50
    assert score(left_branching(len(tree)) for tree in treebank) <= 50
    assert score(random_tree(len(tree), generator) for tree in treebank) <= 50
    assert score(oracle(evaluation_spans(tree), len(tree)) for tree in treebank) > 95


def test_subjects_and_verbs_agree(treebank: list[SpanTree]) -> None:
    checked = {"singular": 0, "plural": 0}
    for tree in treebank:
        for node in range(len(tree.spans)):
            children = list(_children(tree, node))
            if [tree.spans[child][2] for child in children] != ["NP", "VP"]:
                continue
            verb = _finite_verb(tree, children[1])
            number = _number(tree, children[0])
            if verb in ("VBZ", "VBP"):
                assert (verb == "VBZ") == (number == "singular"), tree.to_brackets()
                checked[number] += 1
    assert min(checked.values()) > 300


def test_relative_clauses_agree_with_their_noun(treebank: list[SpanTree]) -> None:
    checked = 0
    for tree in treebank:
        for node in range(len(tree.spans)):
            children = list(_children(tree, node))
            if [tree.spans[child][2] for child in children] != ["NP", "SBAR"]:
                continue
            clause = list(_children(tree, children[1]))
            verb = _finite_verb(tree, clause[0]) if tree.spans[clause[0]][2] == "VP" else "gap"
            if verb in ("VBZ", "VBP"):
                assert (verb == "VBZ") == (_number(tree, children[0]) == "singular"), tree.to_brackets()
                checked += 1
    assert checked > 100


def test_word_classes_are_disjoint() -> None:
    lexicon = the_grammar().lexicon
    forms = {
        tag: {word for name in lexicon if name.split("/")[0] == tag for word in lexicon[name]}
        for tag in ("NN", "NNS", "VBZ", "VBP", "VBD", "JJ", "NNP", "DT", "IN")
    }
    for tag, words in forms.items():
        assert not words & set().union(*(other for name, other in forms.items() if name != tag)), tag


def test_rules_and_words_are_distributions() -> None:
    grammar = the_grammar()
    for rules in grammar.rules.values():
        assert sum(rule.probability for rule in rules) == pytest.approx(1)
    for entry in grammar.lexicon.values():
        assert sum(entry.values()) == pytest.approx(1)
    used = {child for rules in grammar.rules.values() for rule in rules for child in rule.children}
    assert used | {grammar.start} == {*grammar.rules, *grammar.lexicon}


def test_derivations_end_and_have_the_expected_length(treebank: list[SpanTree]) -> None:
    """Mean offspring with a spectral radius below 1 make a derivation finite with probability 1."""
    grammar = the_grammar()
    ids = {symbol: index for index, symbol in enumerate(grammar.rules)}
    offspring, words = np.zeros((len(ids), len(ids))), np.zeros(len(ids))
    for rule in (rule for rules in grammar.rules.values() for rule in rules):
        for child in rule.children:
            if child in ids:
                offspring[ids[rule.parent], ids[child]] += rule.probability
            else:
                words[ids[rule.parent]] += rule.probability
    assert max(abs(np.linalg.eigvals(offspring))) < 0.9
    expected = np.linalg.solve(np.eye(len(ids)) - offspring, words)[ids[grammar.start]]
    lengths = [len(tree) for tree in treebank]
    assert np.mean(lengths) == pytest.approx(expected, abs=4 * np.std(lengths) / len(lengths) ** 0.5)


def test_deep_derivations_need_no_recursion() -> None:
    rules = (Rule("S", ("A", "S"), 0.9999), Rule("S", ("A", "A"), 1 - 0.9999))
    grammar = SyntheticGrammar("S", {"S": rules}, {"A": {"a": 1.0}})
    assert max(len(tree) for tree in islice(generate_trees(2, grammar), 5)) > 5_000


def _children(tree: SpanTree, node: int) -> Iterator[int]:
    """Phrase children of a node, in order; words that hang there directly are left out."""
    _, end, _ = tree.spans[node]
    position = node + 1
    while position < len(tree.spans) and tree.spans[position][1] <= end:
        if tree.spans[position][0] >= end:
            return
        yield position
        child_end = tree.spans[position][1]
        position += 1
        while position < len(tree.spans) and tree.spans[position][0] < child_end:
            position += 1


def _number(tree: SpanTree, node: int) -> str:
    """Number of a noun phrase by its head: the leftmost one that is no coordination."""
    while True:
        _, end, _ = tree.spans[node]
        children = list(_children(tree, node))
        if len(children) == 2 and tree.spans[children[1]][2] == "NP":
            return "plural"
        if not children:
            head = tree.tags[end - 1], tree.words[end - 1]
            plural = head[0] == "NNS" or head in (("PRP", "they"), ("PRP", "we"))
            return "plural" if plural else "singular"
        node = children[0]


def _finite_verb(tree: SpanTree, node: int) -> str:
    """Tag of the first word of a verb phrase, which is its finite verb."""
    return tree.tags[tree.spans[node][0]]
