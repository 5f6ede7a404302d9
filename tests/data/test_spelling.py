"""Spellings of unknown words: a distribution over all strings, learned from words outside of the vocabulary."""

import itertools
import math
from collections import Counter
from pathlib import Path

import pytest

from simplepcfg.data.spelling import CODE_POINTS, SpellingModel
from simplepcfg.data.vocabulary import Vocabulary
from simplepcfg.errors import InputError

WORDS = {"walking": 3, "walked": 2, "talks": 1, "ab": 1}


def naive(words: dict[str, int], word: str) -> float:
    """Compute the Witten-Bell formula anew for each character, from the padded words themselves."""

    def probability(context: str, character: str) -> float:
        followers: Counter[str] = Counter()
        for seen, count in words.items():
            padded = "^^^" + seen + "$"
            for end in range(3, len(padded)):
                if padded[end - len(context) : end] == context:
                    followers[padded[end]] += count
        shorter = probability(context[1:], character) if context else 1 / CODE_POINTS
        total, types = sum(followers.values()), len(followers)
        return (followers[character] + types * shorter) / (total + types) if total else shorter

    padded = "^^^" + word + "$"
    return sum(math.log(probability(padded[end - 3 : end], padded[end])) for end in range(3, len(padded)))


@pytest.mark.parametrize("word", ["walking", "walks", "a", "zebra", "élan", "日本"])
def test_is_the_formula(word: str) -> None:
    assert SpellingModel.from_words(WORDS).log_probability(word) == pytest.approx(naive(WORDS, word), rel=1e-12)


def test_all_spellings_sum_to_one() -> None:
    """Strings of two letters have nearly all of the probability; the rest is that of longer ones and other letters."""
    model = SpellingModel.from_words({"ab": 5, "b": 3, "aab": 2})
    strings = ("".join(letters) for n in range(9) for letters in itertools.product("ab", repeat=n))
    total = sum(math.exp(model.log_probability(string)) for string in strings)
    assert 0.99 < total < 1


def test_likely_spellings_are_those_of_like_words() -> None:
    model = SpellingModel.from_words(WORDS)
    assert model.log_probability("talking") > model.log_probability("gniklat")
    assert model.log_probability("walked") > model.log_probability("wqlked")


def test_stored_and_read_again(tmp_path: Path) -> None:
    model = SpellingModel.from_words({**WORDS, "naïve": 1})
    again = SpellingModel.from_tensors(model.to_tensors(), tmp_path)
    assert again.log_probability("naïvely") == model.log_probability("naïvely")
    assert again.unknown_tokens is None
    assert SpellingModel.from_tensors(SpellingModel({}, 7).to_tensors(), tmp_path).unknown_tokens == 7
    older = {name: tensor for name, tensor in model.to_tensors().items() if name != "unknown_tokens"}
    assert SpellingModel.from_tensors(older, tmp_path).unknown_tokens is None
    empty = SpellingModel.from_tensors(SpellingModel.from_words({}).to_tensors(), tmp_path)
    assert empty.log_probability("a") == pytest.approx(2 * math.log(1 / CODE_POINTS))
    with pytest.raises(InputError, match=r"spelling.*: no spellings of unknown words"):
        SpellingModel.from_tensors({}, tmp_path / "spelling.safetensors")


def test_learns_from_unknown_words_and_else_from_rare_ones() -> None:
    counts = {"the": 9, "cat": 4, "zyx": 1}
    vocabulary = Vocabulary.from_counts(counts, size=2)
    assert SpellingModel.of_unknown_words(counts, vocabulary).log_probability("zyx") > math.log(0.01)
    everything = Vocabulary.from_counts(counts)
    rare = SpellingModel.of_unknown_words(counts, everything)
    assert rare.log_probability("zyx") > rare.log_probability("cat")
