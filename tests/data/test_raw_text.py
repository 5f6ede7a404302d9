"""Raw text: where sentences end, and whether it looks tokenised."""

import unicodedata
from collections.abc import Iterator

import pytest

import simplepcfg
from simplepcfg.data import raw_text
from simplepcfg.data.languages import Language
from simplepcfg.data.preprocessing import Preprocessing
from simplepcfg.data.raw_text import (
    paragraph_remark,
    sentences_of_lines,
    sentences_of_paragraph,
    split_raw,
    untokenized_remark,
    untokenized_word,
)


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("Mr. Fox didn't run. Why?", ["Mr. Fox didn't run.", "Why?"]),
        ("“Come!” said he. “No.”", ["“Come!” said he.", "“No.”"]),
        ("It was 5 p.m. on Jan. 3, 1990. He left.", ["It was 5 p.m. on Jan. 3, 1990.", "He left."]),
        ("J. K. Rowling wrote it. We read it.", ["J. K. Rowling wrote it.", "We read it."]),
        ("“Mr. Fox?” he said. He met “St. John.” Why?", ["“Mr. Fox?” he said.", "He met “St. John.”", "Why?"]),
        ("'Mrs. Fox is here,' I said. 'Come.'", ["'Mrs. Fox is here,' I said.", "'Come.'"]),
        ("A heading\n\nThe text\ngoes on.", ["A heading", "The text goes on."]),
        ("Pi is 3.14 or so. Yes!", ["Pi is 3.14 or so.", "Yes!"]),
        ("I saw it—Mr. Fox did, too. Go--St. John waits.", ["I saw it—Mr. Fox did, too.", "Go--St. John waits."]),
        ("She left. . .What now? And . . . then he\nslept.", ["She left...What now?", "And ... then he slept."]),
        ("He left the U.S. at 5 p.m. The U.S. won.", ["He left the U.S. at 5 p.m.", "The U.S. won."]),
        ("“She has a Ph.D. He has not.” Dr. The came.", ["“She has a Ph.D.", "He has not.”", "Dr. The came."]),
        ("I said... The dog slept... Dogs do.", ["I said...", "The dog slept... Dogs do."]),
        ("See Fig. 3 and “No.\n5.” No. Five.", ["See Fig. 3 and “No. 5.”", "No.", "Five."]),
        ("", []),
        (" \n\n ", []),
    ],
)
def test_sentences(text: str, sentences: list[str]) -> None:
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
    assert split_raw("\ufeffGo!") == [["Go", "!"]]  # a file that an editor on Windows wrote


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
    assert (untokenized_word(sentence.split()) is not None) is raw


def test_a_third_of_the_sentences_tells() -> None:
    plain, raw = ["the", "dog"], ["the", "dog."]
    remark = untokenized_remark([[], raw, plain, plain])
    assert remark is not None
    assert remark.endswith("as in `dog.`")  # a word of the text
    assert untokenized_remark([raw, plain, plain, plain]) is None
    assert untokenized_remark([]) is None
    assert str(untokenized_remark([["a", "x" * 1000 + "."]])).endswith("xxx…`")


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("It slept. Then it woke.", "`slept. Then`"),
        ('He did n\'t go. "No," he said.', '`go. "`'),
        ("He met Mr. Fox in the U.S. Senate.", None),
        ("He said that etc. and so on is short.", None),
        ("It slept.", None),
        ("", None),
    ],
)
def test_several_sentences_on_a_line_are_told(line: str, found: str | None) -> None:
    remark = paragraph_remark([Preprocessing(tokenize=True).split(line)])
    assert remark is None if found is None else remark is not None and remark.endswith(found)


def test_a_tenth_of_the_lines_tells() -> None:
    plain, several = ["It", "slept", "."], ["It", "slept.", "It", "woke", "."]
    assert paragraph_remark([several] + [plain] * 9) is not None
    assert paragraph_remark([several] + [plain] * 10) is None


def test_preprocessing_tokenises_where_it_is_asked_to() -> None:
    raw = Preprocessing(tokenize=True)
    assert raw.apply(raw.split("I don’t.")).tokens == ["i", "do", "n't"]
    plain = Preprocessing()
    assert plain.apply(plain.split("I don’t.")).tokens == ["i", "don’t."]


def test_long_paragraphs_are_split_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """NLTK gives up after five seconds, so that no call may have all of a line of many million characters."""
    text = (
        "“Mr. Fox?” he said (twice!). It was 5 p.m. on Jan. 3, 1990. J. K. Rowling left... “Why?” We met 'Mrs. Fox.' "
        "Dr. No (of the U.S. army.) went to St. John. One sentence, which does not end for long — and then it has. "
    ) * 3
    whole, punkt, longest = sentences_of_paragraph(text), raw_text._punkt(), 0

    class Watched:
        def span_tokenize(self, part: str) -> Iterator[tuple[int, int]]:
            nonlocal longest
            longest = max(longest, len(part))
            found: Iterator[tuple[int, int]] = punkt.span_tokenize(part)
            return found

        def tokenize(self, part: str) -> list[str]:
            return [part[first:end] for first, end in self.span_tokenize(part)]

    monkeypatch.setattr(raw_text, "_punkt", lambda language: Watched())
    for size in (*range(1, 130), 200, 300):
        monkeypatch.setattr(raw_text, "CHARACTERS_AT_ONCE", size, raising=False)
        longest = 0
        assert sentences_of_paragraph(text) == whole
        assert longest < max(400, size + 20)
    assert sentences_of_paragraph(" " * 10**4) == []


@pytest.mark.parametrize(("text", "language"), [("The naïve café owner left.", "en"), ("Elle est fatiguée.", "fr")])
def test_letters_and_their_accents_are_one_character(text: str, language: Language) -> None:
    apart = unicodedata.normalize("NFD", text)
    assert apart != text
    assert split_raw(apart, language) == split_raw(text, language)
    preprocessing = Preprocessing(tokenize=True, language=language)
    assert preprocessing.split(apart) == preprocessing.split(text)
