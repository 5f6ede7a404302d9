"""Spellings of unknown words: a distribution over all strings, learned from words outside of the vocabulary."""

import itertools
import math
from collections import Counter
from pathlib import Path

import pytest

from simplepcfg.data.spelling import CODE_POINTS, SpellingModel, spelling_log_probability
from simplepcfg.data.vocabulary import Vocabulary
from simplepcfg.errors import InputError

WORDS = {"walking": 3, "walked": 2, "talks": 1, "ab": 1}


def naive_letters(words: list[str], word: str) -> float:
    """Compute the Witten-Bell formula anew for each character, from the padded words themselves."""

    def probability(context: str, character: str) -> float:
        followers: Counter[str] = Counter()
        for seen in words:
            padded = "^^^" + seen + "$"
            for end in range(3, len(padded)):
                if padded[end - len(context) : end] == context:
                    followers[padded[end]] += 1
        shorter = probability(context[1:], character) if context else 1 / CODE_POINTS
        total, types = sum(followers.values()), len(followers)
        return (followers[character] + types * shorter) / (total + types) if total else shorter

    padded = "^^^" + word + "$"
    return math.prod(probability(padded[end - 3 : end], padded[end]) for end in range(3, len(padded)))


@pytest.mark.parametrize("word", ["walking", "walks", "a", "zebra", "élan", "日本"])
def test_is_the_formula(word: str) -> None:
    letters = naive_letters(list(WORDS), word)
    model = SpellingModel(WORDS)
    assert model.log_probability_of_letters(word) == pytest.approx(math.log(letters), rel=1e-12)
    expected = (WORDS.get(word, 0) + 4 * letters) / (7 + 4)
    assert model.log_probability(word) == pytest.approx(math.log(expected), rel=1e-12)


def test_spellings_are_those_of_a_class() -> None:
    """The probability of letters is divided by the share of the class, of which seen words have more."""
    counts = {"the": 9, "cat": 8, "going": 2, "being": 1, "ab": 1, "cd": 1, "ef": 1}
    vocabulary = Vocabulary.with_endings(counts, size=2)
    ing, plain = vocabulary.encode(["going"])[0], vocabulary.encode(["ab"])[0]
    model = SpellingModel.of_unknown_words(counts, vocabulary)
    letters = math.exp(model.log_probability_of_letters("doing"))
    assert spelling_log_probability(model, vocabulary, "doing") == model.log_probability("doing", ing)
    assert model.log_probability("doing", ing) == pytest.approx(math.log(2 * letters / (2 / 5) / (3 + 2)), rel=1e-9)
    assert math.exp(model.log_probability("going", ing)) > 2 / (3 + 2)
    assert math.exp(model.log_probability("ab", plain)) > 1 / (3 + 3)
    assert spelling_log_probability(model, vocabulary, "cat") == 0
    assert model.unknown_tokens == 6


def test_all_spellings_sum_to_one() -> None:
    """Strings of two letters have nearly all of the probability; the rest is that of longer ones and other letters."""
    model = SpellingModel({"ab": 50, "b": 30, "a": 20})
    strings = ("".join(letters) for n in range(9) for letters in itertools.product("ab", repeat=n))
    total = sum(math.exp(model.log_probability(string)) for string in strings)
    assert 0.99 < total < 1


def test_likely_spellings_are_those_of_like_words() -> None:
    model = SpellingModel(WORDS)
    assert model.log_probability("talking") > model.log_probability("gniklat")
    assert model.log_probability("walked") > model.log_probability("wqlked")


def test_stored_and_read_again(tmp_path: Path) -> None:
    model = SpellingModel({**WORDS, "naïve": 1, "the": 0}, {1: (5, 4), 7: (3, 1)}, 9)
    again = SpellingModel.from_tensors(model.to_tensors(), tmp_path)
    for word in ("naïvely", "naïve", "the"):
        assert [again.log_probability(word, c) for c in (1, 7)] == [model.log_probability(word, c) for c in (1, 7)]
    assert again.unknown_tokens == 9
    empty = SpellingModel.from_tensors(SpellingModel({}).to_tensors(), tmp_path)
    assert empty.log_probability("a") == pytest.approx(2 * math.log(1 / CODE_POINTS))
    assert empty.unknown_tokens == 0
    with pytest.raises(InputError, match=r"spelling.*: no spellings of unknown words"):
        SpellingModel.from_tensors({}, tmp_path / "spelling.safetensors")


def test_learns_from_unknown_words_and_else_from_rare_ones() -> None:
    counts = {"the": 9, "cat": 4, "zyx": 1}
    vocabulary = Vocabulary.from_counts(counts, size=2)
    assert SpellingModel.of_unknown_words(counts, vocabulary).log_probability("zyx") > math.log(0.01)
    everything = Vocabulary.from_counts(counts)
    rare = SpellingModel.of_unknown_words(counts, everything)
    assert rare.log_probability("zyx") > rare.log_probability("cat")
