"""Encoded texts against plain lists: reading, selecting, padding, counting, hashing."""

import hashlib
import random
from array import array
from collections import Counter
from collections.abc import Iterator

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from simplepcfg.data import encoded_text
from simplepcfg.data.batching import collate
from simplepcfg.data.encoded_text import DecodedText, EncodedText, TextEncoder, sentence_lengths

texts = st.lists(st.lists(st.integers(0, 9), max_size=5), max_size=12)


def naive_fingerprint(sentences: list[list[int]]) -> str:
    """As it stands in run folders of earlier versions."""
    digest = hashlib.sha256()
    for sentence in sentences:
        digest.update(array("q", [len(sentence), *sentence]).tobytes())
    return digest.hexdigest()


@settings(deadline=None, max_examples=100)
@given(texts, st.randoms(use_true_random=False))
def test_against_lists(sentences: list[list[int]], rng: random.Random) -> None:
    order = [rng.randrange(len(sentences)) for _ in range(rng.randint(0, 8))] if sentences else []
    for text, expected in (
        (EncodedText.of(sentences), sentences),
        (EncodedText.of(sentences).select(order), [sentences[place] for place in order]),
        (EncodedText.of(sentences)[1::2], sentences[1::2]),
    ):
        assert list(text) == expected
        assert (len(text), sentence_lengths(text)) == (len(expected), sentence_lengths(expected))
        assert text.flat().tolist() == [number for sentence in expected for number in sentence]
        assert text.with_marks(-1, after=True).tolist() == [k for sentence in expected for k in [*sentence, -1]]
        assert text.fingerprint() == naive_fingerprint(expected)
        assert text.counts(10).tolist() == [sum(s.count(number) for s in expected) for number in range(10)]
        assert [list(block) for block in text.blocks(2)] == [expected[k : k + 2] for k in range(0, len(expected), 2)]
        chosen = [place for place in range(len(expected)) if place % 3 != 1]
        ours, theirs = collate(text, chosen), collate(expected, chosen)
        assert torch.equal(ours.words, theirs.words)
        assert torch.equal(ours.lengths, theirs.lengths)
        assert (ours.words.dtype, ours.lengths.dtype, ours.indices) == (torch.int64, torch.int64, theirs.indices)


def test_fingerprints_do_not_depend_on_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    sentences = [[number % 7] * (number % 5) for number in range(1000)]
    counts = Counter(number for sentence in sentences for number in sentence)
    monkeypatch.setattr(EncodedText.blocks, "__defaults__", (7,))
    assert EncodedText.of(sentences).fingerprint() == naive_fingerprint(sentences)
    assert EncodedText.of(sentences).counts(7).tolist() == [counts[k] for k in range(7)]


def test_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoded_text, "BLOCK_IDS", 3)
    first = [["b", "a"], [], ["a", "c", "c", "a"], ["d"] * 9, ["e"]]
    encoder = TextEncoder()

    def stream() -> Iterator[list[str]]:
        yield from first

    text, other = encoder.read(stream()), encoder.read([["f", "a"]])
    assert encoder.words == ["b", "a", "c", "d", "e", "f"]
    words = DecodedText(text, encoder.words)
    assert (list(words), list(words[1:3]), len(words)) == (first, first[1:3], 5)
    part = text.select([2, 0])
    assert list(part) == [[1, 2, 2, 1], [0, 1]]
    encoder.finish([20, 10, 30, 40, 50, 60])
    assert list(text) == [[20, 10], [], [10, 30, 30, 10], [40] * 9, [50]]
    assert (list(part), list(other)) == ([[10, 30, 30, 10], [20, 10]], [[60, 10]])
    assert collate(text, [0, 2]).words.tolist() == [[20, 10, 0, 0], [10, 30, 30, 10]]


def test_nothing() -> None:
    encoder = TextEncoder()
    text = encoder.read([])
    encoder.finish([])
    assert (list(text), text.flat().tolist(), text.counts(2).tolist()) == ([], [], [0, 0])
    assert collate(text, []).words.shape == (0, 0)
    assert text.fingerprint() == naive_fingerprint([])
