"""Exact probabilities under the hand-written grammar, against plain recursion, counting and sampling."""

import math
from collections import Counter
from functools import cache
from itertools import islice, product

import pytest
import torch

from simplepcfg.cli import demo
from simplepcfg.data.synthetic_grammar import Rule, SyntheticGrammar, generate_treebank, generate_trees, the_grammar
from true_grammar import true_log_probability

SHORT = [
    "dogs laughed",
    "he waited",
    "old old dogs laughed",
    "dogs and mary are tired",
    "mary followed him in the garden",
    "the dog near my house followed cats in the park",
    "they have walked and danced in the city quickly",
    "dogs who cats followed laughed",
    "he introduced them to mary",
    "he believed that they waited and she laughed",
]


def by_recursion(grammar: SyntheticGrammar, words: list[str]) -> float:
    """Sum over derivations straight from the rules as written: any number of children, no closure."""

    @cache
    def inside(symbol: str, i: int, j: int) -> float:
        if symbol in grammar.lexicon:
            return grammar.lexicon[symbol].get(words[i], 0.0) if j - i == 1 else 0.0
        return sum(rule.probability * sequence(rule.children, i, j) for rule in grammar.rules[symbol])

    @cache
    def sequence(children: tuple[str, ...], i: int, j: int) -> float:
        if len(children) == 1:
            return inside(children[0], i, j)
        return sum(inside(children[0], i, k) * sequence(children[1:], k, j) for k in range(i + 1, j))

    return inside(grammar.start, 0, len(words))


def tiny_grammar() -> SyntheticGrammar:
    """Three children, a unary chain and ambiguity in one rule table; it generates a and b."""
    rules = {
        "S": (Rule("S", ("S", "A", "S"), 0.2), Rule("S", ("T",), 0.5), Rule("S", ("A", "T"), 0.3)),
        "T": (Rule("T", ("A",), 0.6), Rule("T", ("A", "A"), 0.4)),
    }
    return SyntheticGrammar("S", rules, {"A": {"a": 0.7, "b": 0.3}})


def test_matches_plain_recursion_over_the_rules_as_written() -> None:
    sentences = [text.split() for text in SHORT]
    expected = [math.log(by_recursion(the_grammar(), sentence)) for sentence in sentences]
    assert true_log_probability(sentences).tolist() == pytest.approx(expected, rel=1e-12)


def test_matches_plain_recursion_on_generated_sentences() -> None:
    sentences = [list(tree.words) for tree in generate_treebank(40, seed=4) if len(tree) <= 12]
    expected = [math.log(by_recursion(the_grammar(), sentence)) for sentence in sentences]
    assert true_log_probability(sentences).tolist() == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("length", [1, 2, 3, 4, 5])
def test_matches_plain_recursion_on_every_string_of_a_tiny_grammar(length: int) -> None:
    strings = [list(letters) for letters in product("ab", repeat=length)]
    expected = [by_recursion(tiny_grammar(), string) for string in strings]
    assert true_log_probability(strings, tiny_grammar()).exp().tolist() == pytest.approx(expected, rel=1e-12)


def test_probabilities_of_all_short_strings_match_sampled_frequencies() -> None:
    draws = 20_000
    lengths = [len(tree) for tree in islice(generate_trees(8, tiny_grammar()), draws)]
    total = 0.0
    for length in range(1, 8):
        strings = [list(letters) for letters in product("ab", repeat=length)]
        mass = float(true_log_probability(strings, tiny_grammar()).exp().sum())
        deviation = math.sqrt(mass * (1 - mass) / draws)
        assert lengths.count(length) / draws == pytest.approx(mass, abs=4 * deviation)
        total += mass
    assert 0.85 < total <= 1


def test_mass_of_the_two_word_sentences_matches_the_treebank() -> None:
    lexicon = the_grammar().lexicon
    subjects = {word for tag in ("NNP", "PRP/sg", "PRP/pl", "NNS") for word in lexicon[tag]}
    verbs = {word for tag in ("VBD/alone",) for word in lexicon[tag]}
    mass = float(true_log_probability(list(product(subjects, verbs))).exp().sum())
    draws = 10_000
    share = sum(len(tree) == 2 for tree in generate_treebank(draws, seed=9)) / draws
    assert share == pytest.approx(mass, abs=4 * math.sqrt(mass * (1 - mass) / draws))


@pytest.mark.parametrize(
    "text", ["", "dogs", "dogs is tired", "he have laughed", "laughed dogs", "he helped flugelhorns"]
)
def test_what_the_grammar_cannot_say_has_probability_zero(text: str) -> None:
    possible, impossible = true_log_probability([["dogs", "laughed"], text.split()]).tolist()
    assert math.isfinite(possible)
    assert impossible == -math.inf


def test_order_and_company_do_not_change_a_sentence() -> None:
    sentences = [tree.words for tree in generate_treebank(50, seed=21)]
    together = true_log_probability(sentences)
    assert together.dtype == torch.float64
    alone = torch.cat([true_log_probability([sentence]) for sentence in reversed(sentences)]).flip(0)
    torch.testing.assert_close(together, alone, rtol=1e-12, atol=0)
    assert true_log_probability([]).shape == (0,)


def test_long_sentences_stay_in_range() -> None:
    sentence = ["dogs", "laughed"] + ["and", "dogs", "laughed"] * 60
    (log_probability,) = true_log_probability([sentence]).tolist()
    assert -5 * len(sentence) < log_probability < -len(sentence)


def test_every_generated_sentence_is_possible_and_the_treebank_is_not_trivial() -> None:
    sentences = [tree.words for tree in generate_treebank(500, seed=13)]
    log_probabilities = true_log_probability(sentences)
    assert torch.isfinite(log_probabilities).all()
    words = sum(len(sentence) for sentence in sentences)
    perplexity = math.exp(-float(log_probabilities.sum()) / words)
    assert 30 <= perplexity <= 60
    # The convention that counts the sentence's end as one more word is kept above 30 too.
    assert perplexity ** (words / (words + len(sentences))) >= 30


def test_the_perplexities_that_the_demo_shows() -> None:
    train, test = ([tree.words for tree in generate_treebank(*demo.SIZES[name])] for name in (demo.TRAIN, demo.TEST))
    events = sum(len(words) + 1 for words in test)
    assert math.exp(-float(true_log_probability(test).sum()) / events) == pytest.approx(demo.TRUE_PERPLEXITY, abs=0.01)
    counts = Counter(word for words in train for word in (*words, ""))  # "" is the end
    total, symbols = counts.total() + len(counts) + 1, len(counts) + 1  # one more is <unk>
    logs = [math.log((counts[word] + 1) / total) for words in test for word in (*words, "")]
    assert math.exp(-sum(logs) / events) == pytest.approx(demo.OF_WORDS["unigram"], abs=0.01)
    assert symbols == demo.OF_WORDS["uniform"]
