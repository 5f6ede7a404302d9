"""Spellings of unknown words: a distribution over all strings, learned from words outside of the vocabulary."""

import itertools
import math
from collections import Counter
from pathlib import Path

import pytest

from simplepcfg.data import spelling
from simplepcfg.data.character_ngrams import EDGE
from simplepcfg.data.spelling import CODE_POINTS, SpellingModel, spelling_log_probability
from simplepcfg.data.vocabulary import PAD, UNK, UNK_ID, Vocabulary
from simplepcfg.errors import InputError

WORDS = {"walking": 3, "walked": 2, "talks": 1, "ab": 1}
PLAIN = Vocabulary([PAD, UNK])


def naive_letters(words: list[str], word: str) -> float:
    """Compute the Witten-Bell formulas anew for each character, from the padded words themselves."""

    def smoothed(context: str, character: str, lower: float) -> float:
        followers: Counter[str] = Counter()
        for seen in words:
            padded = "^^^^" + seen[::-1] + "$"
            for end in range(4, len(padded)):
                if padded[end - len(context) : end] == context:
                    followers[padded[end]] += 1
        total, types = followers.total(), len(followers)
        return (followers[character] + types * lower) / (total + types) if total else lower

    def probability(context: str, character: str) -> float:
        lower = probability(context[1:], character) if context else 1 / CODE_POINTS
        return smoothed(context, character, lower)

    padded = "^^^^" + word[::-1] + "$"
    windows = [(padded[end - 4 : end], padded[end]) for end in range(4, len(padded))]
    return math.prod(smoothed(context, character, probability(context, character)) for context, character in windows)


@pytest.mark.parametrize("word", ["walking", "walks", "a", "zebra", "élan", "日本"])
def test_is_the_formula(word: str) -> None:
    letters = naive_letters(list(WORDS), word)
    model = SpellingModel(WORDS, PLAIN)
    assert model.log_probability_of_letters(word, UNK_ID) == pytest.approx(math.log(letters), rel=1e-12)
    expected = (WORDS.get(word, 0) + 4 * letters) / (7 + 4)
    assert model.log_probability(word) == pytest.approx(math.log(expected), rel=1e-12)


CLASSED = {"the": 9, "cat": 8, "going": 2, "being": 1, "ab": 1, "cd": 1, "ef": 1, "Ab": 3, "Ba": 1}


def test_spellings_are_those_of_a_class() -> None:
    vocabulary = Vocabulary.with_endings(CLASSED, size=2)
    ing, plain = vocabulary.encode(["going", "ab"])
    model = SpellingModel.of_unknown_words(CLASSED, vocabulary)
    letters = model.log_probability_of_letters("doing", ing)
    assert letters > model.log_probability_of_letters("doing", plain) + 1
    assert spelling_log_probability(model, vocabulary, "doing") == model.log_probability("doing")
    assert model.log_probability("doing") == pytest.approx(math.log(2 * math.exp(letters) / (3 + 2)), rel=1e-9)
    assert math.exp(model.log_probability("going")) > 2 / (3 + 2)
    assert math.exp(model.log_probability("ab")) > 1 / (3 + 3)
    assert spelling_log_probability(model, vocabulary, "cat") == 0
    assert model.unknown_tokens == 10


def test_all_spellings_of_a_class_sum_to_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Enumerate the strings of up to four of four letters; what is left is exactly the probability of longer ones."""
    letters, longest = "abAB", 4
    monkeypatch.setattr(spelling, "CODE_POINTS", len(letters) + 1)  # and the edge
    counts = {"ab": 5, "b": 3, "a": 2, "Ab": 4, "B": 2, "bab": 1, "Abb": 1}
    vocabulary = Vocabulary([PAD, UNK, "<unk:-ab>", "<unk:cap>", "<unk:plain>", "B"])
    model = SpellingModel.of_unknown_words({**counts, "aa": 0}, vocabulary)
    strings = ["".join(each) for size in range(longest + 1) for each in itertools.product(letters, repeat=size)]
    for class_id in vocabulary.encode(["bab", "Ab", "ba", "AB"]):
        ended, open_prefixes = 0.0, {"": 1.0}
        for _ in range(longest + 1):
            steps = {
                prefix + x: mass * model.character_probability(x, (EDGE * 4 + prefix)[-4:], class_id)
                for prefix, mass in open_prefixes.items()
                for x in letters + EDGE
            }
            ended += sum(mass for prefix, mass in steps.items() if prefix.endswith(EDGE))
            open_prefixes = {prefix: mass for prefix, mass in steps.items() if not prefix.endswith(EDGE)}
        assert ended + sum(open_prefixes.values()) == pytest.approx(1, abs=1e-12)
        members = [word for word in strings if word not in vocabulary and vocabulary.encode([word]) == [class_id]]
        read = sum(math.exp(model.log_probability_of_letters(word, class_id)) for word in members)
        assert len(members) > 3
        assert read < ended < 1
        seen = [counts[word] for word in members if word in counts]
        share = len(seen) / (sum(seen) + len(seen)) if seen else 1.0
        total = sum(math.exp(model.log_probability(word)) for word in members)
        assert total == pytest.approx(1 - share + share * read, abs=1e-12)


def test_words_without_their_capital_stay_different() -> None:
    """No letter in lower case is itself a capital that another letter could have kept."""
    for letter in filter(str.isupper, map(chr, range(CODE_POINTS))):
        lowered = letter.lower()
        assert lowered.upper() != letter or lowered == letter or not lowered[0].isupper()


def test_likely_spellings_are_those_of_like_words() -> None:
    model = SpellingModel(WORDS, PLAIN)
    assert model.log_probability("talking") > model.log_probability("gniklat")
    assert model.log_probability("walked") > model.log_probability("wqlked")


def test_stored_and_read_again(tmp_path: Path) -> None:
    vocabulary = Vocabulary([PAD, UNK, "<unk:-ing>", "the"])
    model = SpellingModel({**WORDS, "naïve": 1, "the": 0}, vocabulary, 9)
    again = SpellingModel.from_tensors(model.to_tensors(), vocabulary, tmp_path)
    for word in ("naïvely", "naïve", "walking", "talking"):
        assert again.log_probability(word) == model.log_probability(word)
    assert again.unknown_tokens == 9
    empty = SpellingModel.from_tensors(SpellingModel({}, PLAIN).to_tensors(), PLAIN, tmp_path)
    assert empty.log_probability("a") == pytest.approx(2 * math.log(1 / CODE_POINTS))
    assert empty.unknown_tokens == 0
    with pytest.raises(InputError, match=r"spelling.*: no spellings of unknown words"):
        SpellingModel.from_tensors({}, PLAIN, tmp_path / "spelling.safetensors")


def test_learns_from_unknown_words_and_else_from_rare_ones() -> None:
    counts = {"the": 9, "cat": 4, "zyx": 1}
    vocabulary = Vocabulary.from_counts(counts, size=2)
    assert SpellingModel.of_unknown_words(counts, vocabulary).log_probability("zyx") > math.log(0.01)
    everything = Vocabulary.from_counts(counts)
    rare = SpellingModel.of_unknown_words(counts, everything)
    assert rare.log_probability("zyx") > rare.log_probability("cat")
