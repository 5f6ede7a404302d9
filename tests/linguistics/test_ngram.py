"""The n-gram control: against a naive implementation, sums over the vocabulary, and its files."""

import math
import random
from collections.abc import Sequence
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from counted_words import vocabulary_of
from simplepcfg.data.preprocessing import Preprocessing
from simplepcfg.data.vocabulary import UNK_ID, Vocabulary
from simplepcfg.errors import InputError
from simplepcfg.linguistics.controls import ngram
from simplepcfg.linguistics.controls.ngram import START, STOP, NgramModel
from simplepcfg.linguistics.controls.ngram_files import is_ngram_file, load_ngram, save_ngram
from simplepcfg.linguistics.controls.ngram_training import discounts, train_ngram
from simplepcfg.runs import tensor_files

Text = list[list[str]]


def text_of(seed: int, count: int, words: str) -> Text:
    generator = random.Random(seed)
    weights = [1 / (place + 1) for place in range(len(words))]
    return [generator.choices(words, weights, k=generator.randint(1, 7)) for _ in range(count)]


TEXTS = {
    "small": [["a", "b", "a"], ["a"], ["b", "b", "c", "a"]],
    "middle": text_of(1, 40, "abcdef"),
    "large": text_of(2, 400, "abcdefghijklmnop"),
}


class Naive:
    """The formulas as they are written, with every count taken by running over the text again."""

    def __init__(self, text: Text, vocabulary: Vocabulary, order: int) -> None:
        self.lines = [(START, *vocabulary.encode(tokens), STOP) for tokens in text if tokens]
        self.events = [*range(1, len(vocabulary)), STOP]
        self.order = order
        self.discounts = {}
        for length in range(1, order + 1):
            grams = {gram for line in self.lines for gram in self.grams(line, length)}
            self.discounts[length] = discounts([self.adjusted(gram) for gram in grams])

    def grams(self, line: Sequence[int], length: int) -> list[tuple[int, ...]]:
        found = [tuple(line[place : place + length]) for place in range(len(line) - length + 1)]
        return [gram for gram in found if gram != (START,)]

    def adjusted(self, ngram: tuple[int, ...]) -> int:
        if len(ngram) == self.order or ngram[0] == START:
            return sum(self.grams(line, len(ngram)).count(ngram) for line in self.lines)
        longer = {gram for line in self.lines for gram in self.grams(line, len(ngram) + 1)}
        return sum(gram[1:] == ngram for gram in longer)

    def probability(self, word: int, context: tuple[int, ...]) -> float:
        counts = [self.adjusted((*context, event)) for event in self.events]
        lower = self.probability(word, context[1:]) if context else 1 / len(self.events)
        if not sum(counts):
            return lower
        taken = self.discounts[len(context) + 1]
        own = self.adjusted((*context, word))
        kept = own - taken[min(own, 3)] if own else 0.0
        return (kept + sum(taken[min(count, 3)] for count in counts if count) * lower) / sum(counts)


def trained(name: str, order: int, **options: int) -> tuple[NgramModel, Text]:
    text = TEXTS[name]
    return train_ngram(text, vocabulary_of(text, **options), Preprocessing(), order), text


def word_by_word(model: NgramModel, tokens: list[str]) -> float:
    """log p of a sentence by the distribution of each next word."""
    line = (START, *model.vocabulary.encode(tokens))
    return sum(math.log(model.next_words(line[:place])[word]) for place, word in enumerate((*line[1:], 0), start=1))


@pytest.mark.parametrize(("name", "order"), [("small", 1), ("small", 3), ("small", 5), ("middle", 2), ("middle", 3)])
def test_against_the_naive_form(name: str, order: int) -> None:
    model, text = trained(name, order, min_count=2)
    naive = Naive(text, model.vocabulary, order)
    ids = range(1, len(model.vocabulary))
    for length in range(min(order, 3)):
        contexts = [*product(ids, repeat=length)]
        if length:
            contexts += [(START, *rest) for rest in product(ids, repeat=length - 1)]
        for context in random.Random(0).sample(contexts, min(len(contexts), 12)):
            expected = [naive.probability(word, context) for word in (STOP, *ids)]
            assert model.next_words(context) == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("order", [1, 2, 3, 4])
@pytest.mark.parametrize("name", list(TEXTS))
def test_probabilities_sum_to_one_after_every_context(name: str, order: int) -> None:
    model, text = trained(name, order, min_count=2)
    ids = model.vocabulary.encode
    lines = [(START, *ids(tokens), STOP) for tokens in text]
    contexts = {line[end - length : end] for line in lines for end in range(len(line)) for length in range(order)}
    contexts |= {(START, UNK_ID, 2), (2, 2, 2, 2, 2), (START,)}
    for context in contexts:
        probabilities = model.next_words(context)
        assert probabilities.sum() == pytest.approx(1, abs=1e-9)
        assert (probabilities > 0).all()


def test_discounts_of_chen_and_goodman() -> None:
    counts = [1] * 40 + [2] * 20 + [3] * 10 + [4] * 5 + [9]
    share = 40 / 80
    assert discounts(counts) == pytest.approx(
        [0, 1 - 2 * share * 20 / 40, 2 - 3 * share * 10 / 20, 3 - 4 * share * 5 / 10]
    )
    assert discounts([1, 1, 2]).tolist() == [0, 0.5, 1, 1.5]


def test_records_add_up_to_the_score() -> None:
    model, _ = trained("middle", 3)
    sentences = [["A", ",", "b", "zz", "."], ["c"], ["!"], []]
    records = model.surprisal(sentences, entropies=True)
    assert [[record.token for record in table] for table in records] == [
        ["a", None, "b", "<unk>", None, "<end>"], ["c", "<end>"], [None], []
    ]  # fmt: skip
    for table, score in zip(records[:2], model.score(sentences), strict=False):
        assert sum(record.surprisal or 0.0 for record in table) == pytest.approx(-score)
    first = records[1][0]
    probabilities = model.next_words((START,))
    assert first.entropy == pytest.approx(
        -(probabilities[probabilities > 0] * [math.log(p) for p in probabilities if p > 0]).sum()
    )
    assert first.surprisal == pytest.approx(-math.log(probabilities[model.vocabulary.encode(["c"])[0]]))


def test_a_run_with_eos_has_the_same_end(tmp_path: Path) -> None:
    text = [[*tokens] for tokens in TEXTS["small"]]
    model = train_ngram(text, vocabulary_of(text), Preprocessing(eos=True), 2)
    assert [record.word for record in model.surprisal([["a"]])[0]] == ["a", "<end>"]


def assert_same(one: NgramModel, other: NgramModel) -> None:
    assert (one.vocabulary, one.preprocessing) == (other.vocabulary, other.preprocessing)
    for a, b in zip(one.levels, other.levels, strict=True):
        assert np.array_equal(a.keys, b.keys)
        np.testing.assert_allclose(a.log_probabilities, b.log_probabilities, rtol=0, atol=1e-13)
        np.testing.assert_allclose(a.log_backoffs, b.log_backoffs, rtol=0, atol=1e-13)


@pytest.mark.parametrize(("text", "order"), [("middle", 1), ("middle", 3), ("large", 5)])
def test_files(tmp_path: Path, text: str, order: int) -> None:
    model, sentences = trained(text, order)
    path = tmp_path / "model.safetensors"
    save_ngram(model, path)
    assert is_ngram_file(path)
    again = load_ngram(path)
    assert again.name == str(path)
    assert_same(again, model)
    assert again.score([*sentences, ["zz"]]) == pytest.approx(model.score([*sentences, ["zz"]]), abs=1e-10)


def test_texts_shorter_than_the_longest_ngrams(tmp_path: Path) -> None:
    model = train_ngram([["a"]], Vocabulary(["<pad>", "<unk>", "a"]), Preprocessing(), 5)
    assert [len(level) for level in model.levels] == [4, 2, 1, 0, 0]
    assert model.next_words((START, 2, 2, 2, 2)).sum() == pytest.approx(1)
    assert model.score([["a", "a"]]) == pytest.approx([word_by_word(model, ["a", "a"])])
    save_ngram(model, tmp_path / "model.safetensors")
    assert_same(load_ngram(tmp_path / "model.safetensors"), model)


def test_many_sentences_are_scored_some_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    model, text = trained("large", 3)
    whole = model.score([*text, []])
    monkeypatch.setattr(ngram, "SENTENCES_AT_ONCE", 7)
    assert model.score([*text, []]) == whole
    assert whole[:-1] == pytest.approx([word_by_word(model, tokens) for tokens in text], abs=1e-10)


def test_words_that_no_header_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, _ = trained("small", 2)
    monkeypatch.setattr(tensor_files, "_MAX_HEADER_BYTES", 100)
    with pytest.raises(InputError, match="fewer words"):
        save_ngram(model, tmp_path / "model.safetensors")
    assert not list(tmp_path.iterdir())


def test_what_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="order"):
        trained("small", 0)
    with pytest.raises(InputError, match="no sentence"):
        train_ngram([[]], Vocabulary(["<pad>", "<unk>"]), Preprocessing())
    model, _ = trained("small", 2)
    for number in (0, -3, len(model.vocabulary), 10**9):  # of padding, and of nothing
        with pytest.raises(InputError, match="id of a word"):
            model.next_words((number,))
    path = tmp_path / "model.safetensors"
    path.write_text("\\data\\\n")
    with pytest.raises(InputError, match="baseline ngram"):
        load_ngram(path)
    assert not is_ngram_file(path)
    assert not is_ngram_file(tmp_path / "nowhere")
    assert not is_ngram_file(tmp_path)


@pytest.mark.parametrize("word", ["", "</s>", "a b", "a\tb", "a\nb", "\xa0", "\u2028", "#"])
def test_odd_words(tmp_path: Path, word: str) -> None:
    text = [["a", word], [word, "a", word], [word]]
    model = train_ngram(text, vocabulary_of(text), Preprocessing(punctuation="keep"), 3)
    save_ngram(model, tmp_path / "model.safetensors")
    assert_same(load_ngram(tmp_path / "model.safetensors"), model)


def test_an_end_that_a_run_adds_is_the_models_own() -> None:
    vocabulary = Vocabulary(["<pad>", "<unk>", "<eos>", "a", "b", "c"])
    preprocessing = Preprocessing(eos=True)
    plain, marked = TEXTS["small"], [[*tokens, "<eos>"] for tokens in TEXTS["small"]]
    models = [train_ngram(iter(text), vocabulary, preprocessing, 2) for text in (plain, marked)]
    assert_same(*models)
    with pytest.raises(InputError, match="no sentence with words"):
        train_ngram(iter([["<eos>"]]), vocabulary, preprocessing, 2)
