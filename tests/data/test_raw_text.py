"""Raw text: where sentences end, and whether it looks tokenised."""

import pytest

import simplepcfg
from simplepcfg.data.preprocessing import Preprocessing
from simplepcfg.data.raw_text import (
    looks_untokenized,
    mostly_untokenized,
    sentences_of_lines,
    split_raw,
    split_sentences_of_text,
)


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("Mr. Fox didn't run. Why?", ["Mr. Fox didn't run.", "Why?"]),
        ("“Come!” said he. “No.”", ["“Come!” said he.", "“No.”"]),
        ("It was 5 p.m. on Jan. 3, 1990. He left.", ["It was 5 p.m. on Jan. 3, 1990.", "He left."]),
        ("J. K. Rowling wrote it. We read it.", ["J. K. Rowling wrote it.", "We read it."]),
        ("A heading\n\nThe text\ngoes on.", ["A heading", "The text goes on."]),
        ("Pi is 3.14 or so. Yes!", ["Pi is 3.14 or so.", "Yes!"]),
        ("", []),
        (" \n\n ", []),
    ],
)
def test_sentences(text: str, sentences: list[str]) -> None:
    assert list(split_sentences_of_text(text)) == sentences
    assert list(sentences_of_lines(text.split("\n"))) == sentences


def test_lines_may_be_folded_or_paragraphs() -> None:
    folded = ["The dog slept", "by the fire. The cat", "sat. ", "“Come!”", "said he.", "Next one."]
    expected = ["The dog slept by the fire.", "The cat sat.", "“Come!” said he.", "Next one."]
    assert list(sentences_of_lines(folded)) == expected


def test_a_stream_of_paragraphs_is_not_held() -> None:
    def lines():
        yield "One is here."
        yield "Two is here."
        raise AssertionError("read too far")

    assert next(sentences_of_lines(lines())) == "One is here."


def test_split_raw_is_the_package_s() -> None:
    assert simplepcfg.split_raw("Go! I can't.") == [["Go", "!"], ["I", "ca", "n't", "."]] == split_raw("Go! I can't.")


@pytest.mark.parametrize(
    ("sentence", "raw"),
    [
        ("The dog slept by the fire.", True),
        ("Well, he said", True),
        ("The dog slept by the fire .", False),
        ("the dog sleeps", False),
        ("he met Mr.", False),
        ("N.", False),
        ("...", False),
        ("", False),
    ],
)
def test_untokenised_text_is_told(sentence: str, raw: bool) -> None:
    assert looks_untokenized(sentence.split()) is raw


def test_a_third_of_the_sentences_tells() -> None:
    plain, raw = ["the", "dog"], ["the", "dog."]
    assert mostly_untokenized([[], raw, plain, plain])
    assert not mostly_untokenized([raw, plain, plain, plain])
    assert not mostly_untokenized([])


def test_preprocessing_tokenises_where_it_is_asked_to() -> None:
    raw = Preprocessing(tokenize=True)
    assert raw.apply(raw.split("I don’t.")).tokens == ["i", "do", "n't"]
    plain = Preprocessing()
    assert plain.apply(plain.split("I don’t.")).tokens == ["i", "don’t."]
