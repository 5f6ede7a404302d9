"""Which words get an id, what the others become, and the file."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from counted_words import vocabulary_of
from simplepcfg.data.brackets import parse_tree
from simplepcfg.data.preprocessing import Preprocessing
from simplepcfg.data.vocabulary import Vocabulary
from simplepcfg.errors import InputError

SENTENCES = [["b", "b", "b", "a", "a", "c", "c", "d", "<eos>"], ["<unk>", "<unk>", "<unk>", "<unk>", "<eos>"]]


def test_by_frequency_then_alphabet() -> None:
    vocabulary = vocabulary_of(SENTENCES)
    assert vocabulary.words == ("<pad>", "<unk>", "<eos>", "b", "a", "c", "d")
    assert vocabulary_of(reversed(SENTENCES)) == vocabulary


def test_size_counts_words_only_and_eos_stays() -> None:
    assert vocabulary_of(SENTENCES, size=2).words == ("<pad>", "<unk>", "<eos>", "b", "a")
    assert vocabulary_of(SENTENCES, min_count=3).words == ("<pad>", "<unk>", "<eos>", "b")
    assert Vocabulary.from_counts({"x": 1}, size=5).words == ("<pad>", "<unk>", "x")


def test_encode() -> None:
    vocabulary = vocabulary_of(SENTENCES, size=1)
    assert vocabulary.encode(["b", "d", "<unk>", "<eos>", "<pad>"]) == [3, 1, 1, 2, 1]
    assert vocabulary.decode([3, 1, 2]) == ["b", "<unk>", "<eos>"]
    assert "b" in vocabulary
    assert "d" not in vocabulary
    assert "<pad>" not in vocabulary
    assert len(vocabulary) == 4


def test_some_words_are_unknown_without_a_least_count() -> None:
    counts = {"a": 30, "b": 28, "c": 1, "d": 1, "<eos>": 9}
    words = ("<pad>", "<unk>", "<eos>", "a", "b")
    assert Vocabulary.from_counts(counts, min_count=0).words == words
    assert Vocabulary.from_counts(counts, min_count=1).words == (*words, "c", "d")
    assert Vocabulary.from_counts(counts, size=3, min_count=0).words == (*words, "c")  # the size leaves one out
    assert Vocabulary.from_counts({**counts, "<unk>": 1}, min_count=0).words == (*words, "c", "d")
    assert Vocabulary.from_counts({"a": 2, "b": 1, "c": 1, "d": 1}, min_count=0).words[2:] == ("a", "c", "d")


@pytest.mark.parametrize(("arguments", "message"), [({"size": 0}, "size = 0"), ({"min_count": -1}, "min_count = -1")])
def test_refused_sizes(arguments: dict[str, int], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Vocabulary.from_counts({"a": 1}, **arguments)


def test_refused_words() -> None:
    with pytest.raises(InputError, match="must begin with <pad> and <unk>"):
        Vocabulary(["a"])
    with pytest.raises(InputError, match="'a' more than once"):
        Vocabulary(["<pad>", "<unk>", "a", "a"])


def test_file_round_trip(tmp_path: Path) -> None:
    vocabulary = Vocabulary.from_counts({"é": 3, "no\u00a0break": 2, "line\u2028separator": 1, "#": 1, '"': 1})
    path = tmp_path / "vocabulary.txt"
    vocabulary.save(path)
    vocabulary.save(path)
    assert Vocabulary.load(path) == vocabulary
    assert path.read_text(encoding="utf-8").split("\n")[:3] == ["<pad>", "<unk>", "é"]
    assert [file.name for file in tmp_path.iterdir()] == ["vocabulary.txt"]


def test_a_word_that_is_no_line_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"'a\\nb' cannot stand on a line"):
        Vocabulary(["<pad>", "<unk>", "a\nb"]).save(tmp_path / "v")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", r"v:1: a vocabulary begins with"),
        ("the\nof\n", r"v:1: a vocabulary begins with"),
        ("<pad>\n<unk>\na\n\nb\n", r"v:4: blank line"),
        ("<pad>\n<unk>\na\nb\na\n", r"v:5: 'a' stands on line 3 already"),
    ],
)
def test_malformed_files(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "v"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(InputError, match=message):
        Vocabulary.load(path)


# Every kind of white space that str.split knows, beside letters, signs and what UTF-8 has at its ends.
WORDS = st.text(
    st.one_of(st.sampled_from("\u00a0\u3000\u2028\u0085\x1c\x1f\ufeffa7,-"), st.characters(exclude_categories=["Cs"])),
    min_size=1,
    max_size=4,
).filter(lambda word: not set(word) & set("() \t\r\n\f\v\0"))


@settings(max_examples=200, deadline=None)
@given(words=st.lists(WORDS, min_size=1, max_size=6), lowercase=st.booleans(), numbers=st.sampled_from(["keep", "N"]))
def test_every_word_that_reading_gives_is_saved_and_loaded(words: list[str], lowercase: bool, numbers: str) -> None:
    preprocessing = Preprocessing(lowercase=lowercase, numbers=numbers, punctuation="keep")  # type: ignore[arg-type]
    leaves = " ".join(f"(NN {word})" for word in words)
    tree = parse_tree(f"(S {leaves})")
    assert list(tree.words) == words
    with tempfile.TemporaryDirectory() as folder:
        for sentence in (tree.words, " ".join(words).split()):
            tokens = preprocessing.apply(sentence).tokens
            assert [token.split() for token in tokens] == [[token] for token in tokens]
            vocabulary = vocabulary_of([tokens])
            vocabulary.save(Path(folder) / "vocabulary.txt")
            assert Vocabulary.load(Path(folder) / "vocabulary.txt") == vocabulary


def test_white_space_alone_is_a_word_in_older_files(tmp_path: Path) -> None:
    vocabulary = Vocabulary(["<pad>", "<unk>", "\u3000", "a\u00a0b"])
    vocabulary.save(tmp_path / "vocabulary.txt")
    assert Vocabulary.load(tmp_path / "vocabulary.txt") == vocabulary
    with pytest.raises(InputError, match="cannot stand on a line"):
        Vocabulary(["<pad>", "<unk>", " \t"]).save(tmp_path / "other.txt")


def test_tokens_as_they_are_listed() -> None:
    counts = {"the": 9, "The": 2, "walking": 1, "talking": 1, "Bonn": 1}
    folded = Vocabulary.with_endings(counts, size=1, lowercase=True)
    assert [folded.listed(token) for token in ("the", "The", "walking", "<pad>")] == ["the", "the", "<unk>", "<unk>"]
    plain = Vocabulary.from_counts(counts, size=1)
    assert [plain.listed(token) for token in ("the", "The", "<unk>")] == ["the", "<unk>", "<unk>"]
