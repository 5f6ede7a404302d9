"""The text of a run: what is read, held out, counted and left out, against the same on plain lists."""

import gzip
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from simplepcfg.data.preprocessing import MOST_CACHED, Preprocessing, TokenCache
from simplepcfg.data.synthetic_grammar import generate_treebank
from simplepcfg.data.tokens import read_tokens, read_words
from simplepcfg.data.vocabulary import UNK, UNK_ID, Vocabulary
from simplepcfg.errors import InputError
from simplepcfg.runs.config.schema import DataConfig
from simplepcfg.runs.corpus import HELD_OUT_SHARE, prepare_corpus
from tiny_runs import tiny_sentences

words = st.text("aB1,. -'’\u00a0N", min_size=1, max_size=6).filter(lambda word: word.strip())


@settings(deadline=None, max_examples=200)
@given(
    st.lists(st.lists(words | st.sampled_from(["<eos>", "<unk>", "<pad>", "-LRB-", "N"]), max_size=6), max_size=4),
    st.builds(
        Preprocessing,
        lowercase=st.booleans(),
        numbers=st.sampled_from(["keep", "N"]),
        punctuation=st.sampled_from(["keep", "drop"]),
        eos=st.booleans(),
        tokenize=st.booleans(),
    ),
)
def test_the_cache_of_words_changes_nothing(sentences: list[list[str]], preprocessing: Preprocessing) -> None:
    cache = TokenCache(preprocessing)
    for sentence in [*sentences, *sentences]:
        assert cache.tokens(sentence) == preprocessing.apply(sentence).tokens


def test_the_cache_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    assert MOST_CACHED > 100_000
    monkeypatch.setattr("simplepcfg.data.preprocessing.MOST_CACHED", 3)
    cache = TokenCache(Preprocessing())
    for number in range(40):
        assert cache.tokens(["A", f"b{'c' * number}"]) == ["a", f"b{'c' * number}"]
        assert len(cache) <= 3


@pytest.mark.parametrize("keep_words", [False, True])
@pytest.mark.parametrize(
    "options",
    [
        {"min_count": 1},
        {"eos": True, "vocabulary_size": 20},
        {"max_length": 7, "min_count": 3, "unknown_classes": "endings"},
    ],
)
def test_against_lists(options: dict[str, object], keep_words: bool) -> None:
    """What the corpus was before it was one array: sentences as lists of words, then of ids."""
    config = DataConfig(**options)  # type: ignore[arg-type]
    text = [*tiny_sentences(150), "", ".", "dog", "the"]
    tokens = [config.preprocessing.apply(line.split()).tokens for line in text]
    candidates = [index for index, item in enumerate(tokens) if len(item) >= 2]
    order = torch.randperm(len(candidates), generator=torch.Generator().manual_seed(7))
    chosen = {candidates[place] for place in order[: int(len(candidates) * HELD_OUT_SHARE)].tolist()}
    train = [item for index, item in enumerate(tokens) if index not in chosen]
    counts = Counter(word for item in train for word in item)
    learn = Vocabulary.with_endings if config.unknown_classes == "endings" else Vocabulary.from_counts
    vocabulary = learn(counts, config.vocabulary_size, config.min_count or 1)
    usable = [item for item in train if 2 <= len(item) <= config.max_length]
    written = list(read_words(text, config.preprocessing))
    assert [config.preprocessing.apply(words).tokens for words in written] == tokens
    as_written = [item for index, item in enumerate(written) if index not in chosen]
    as_written = [item for item in as_written if 2 <= len(item) <= config.max_length]
    corpus = prepare_corpus(config, 7, text, keep_words=keep_words)
    assert corpus.vocabulary == vocabulary
    assert list(corpus.train) == [vocabulary.encode(item) for item in usable]
    assert list(corpus.valid) == [vocabulary.encode(tokens[index]) for index in sorted(chosen)]
    assert (None if corpus.train_words is None else list(corpus.train_words)) == (as_written if keep_words else None)
    identity = corpus.identity()
    assert identity["train"]["tokens"] == sum(map(len, usable))
    assert identity["vocabulary"] == len(vocabulary)


def test_files_and_sentences_in_memory_are_one(tmp_path: Path) -> None:
    lines = tiny_sentences(60)
    path, packed = tmp_path / "text.txt", tmp_path / "text.txt.gz"
    path.write_text("\n".join(lines) + "\n")
    packed.write_bytes(gzip.compress(path.read_bytes()))

    def stream() -> Iterator[str]:
        yield from lines

    found = [prepare_corpus(DataConfig(), 3, source).identity() for source in (path, packed, lines, stream())]
    assert all(identity == found[0] for identity in found)


def test_trees_after_sentences() -> None:
    """Tags are judged over all trees, wherever they stand."""
    trees = generate_treebank(5, seed=1)
    mixed = ["a plain line .", trees[0], ["a", "list"], *trees[1:]]
    found = list(read_tokens(mixed, Preprocessing()))
    assert found[:3] == [["a", "plain", "line"], [word.lower() for word in trees[0].words], ["a", "list"]]
    assert len(found) == 7
    with pytest.raises(InputError, match="sentence 2: 5 is not a string"):
        list(read_tokens(["a", trees[0], ["b", 5]], Preprocessing()))  # type: ignore[list-item]
    with pytest.raises(InputError, match="sentence 1: 5 is not a string"):
        list(read_tokens(["a", ["b", 5]], Preprocessing()))  # type: ignore[list-item]


def test_what_was_left_out_is_said() -> None:
    text = ["a b c", "a", ".", "a b c d e", "b c"]
    corpus = prepare_corpus(DataConfig(max_length=4, min_count=1), 0, text, ["a b"])
    assert [note.partition(" of ")[0] for note in corpus.notes] == ["1", "1", "1"]
    with pytest.raises(InputError, match="no training sentence is left"):
        prepare_corpus(DataConfig(max_length=4), 0, ["a", "a b c d e"], ["a b"])
    with pytest.raises(InputError, match="no sentence of two words or more to validate"):
        prepare_corpus(DataConfig(), 0, text, ["a", "."])
    with pytest.raises(InputError, match="has 1 sentence of two words"):
        prepare_corpus(DataConfig(), 0, ["a b", "c"])


def test_unknown_words_that_training_never_meets_are_remarked_on() -> None:
    train, valid = [["a", "dog", "sleeps"], ["a", "cat", "sleeps"]], [["a", "fox", "sleeps"], ["a", "dog"]]

    def remarks(valid: list[list[str]], **options: int) -> list[str]:
        return [note for note in prepare_corpus(DataConfig(**options), 0, train, valid).notes if UNK in note]

    (remark,) = remarks(valid, min_count=1)
    assert remark.startswith("1 of 5 validation words are <unk>")
    assert "set data.min_count higher" in remark
    assert remarks([["a", "dog"]], min_count=1) == []


def test_many_unknown_words_are_remarked_on() -> None:
    train = [["a", f"dog{letter}ing", "sleeps"] for letter in "abcdefghij"]

    def remarks(valid: list[list[str]], **options: object) -> list[str]:
        return [
            note for note in prepare_corpus(DataConfig(min_count=2, **options), 0, train, valid).notes if UNK in note
        ]

    (remark,) = remarks([["a", "running", "sleeps"]])
    assert remark.startswith("1 of 3 validation words are <unk>; trees are often better if data.min_count=3 and data")
    assert remarks([["a", "running", "sleeps"]], unknown_classes="endings") == []
    assert remarks([["a", "running", *["sleeps"] * 9]]) == []


def unknown_share(text: list[list[str]], **options: object) -> tuple[float, list[str]]:
    """The share of `<unk>` in a training text, and what is said of words seen once."""
    corpus = prepare_corpus(DataConfig(**options), 0, text, [["a", "b"]])  # type: ignore[arg-type]
    assert corpus.spelling is not None
    counts = corpus.train.counts(len(corpus.vocabulary))
    assert corpus.spelling.unknown_tokens == counts[UNK_ID]
    return float(counts[UNK_ID] / counts.sum()), [note for note in corpus.notes if "seen once" in note]


def test_words_seen_once_are_unknown_where_no_others_are() -> None:
    many = [["a", "b", "c"]] * 40 + [["a", "b", "x" * number] for number in range(1, 6)]
    share, notes = unknown_share(many)
    assert share == 5 / 135
    said = "5 of the 5 words seen once are <unk>, so that unknown words are learned; data.min_count = 1 keeps them"
    assert notes == [said]
    assert unknown_share(many, min_count=1) == (0, [])
    assert unknown_share(many, vocabulary_size=3) == (5 / 135, [])  # the size alone leaves words out
    own = [*many, ["a", "<unk>"]]  # a text that says itself what is unknown
    assert unknown_share(own) == (1 / 137, [])


def test_at_most_a_tenth_of_a_text_is_left_out() -> None:
    few = [["a", "b", "x" * number] for number in range(1, 101)]
    share, notes = unknown_share(few)
    assert 0.05 < share <= 0.1
    assert notes[0].startswith("25 of the 100 words seen once are <unk>")
    share, notes = unknown_share([["a", "b"], ["a", "c"], ["a", "d"]])
    assert share == 1 / 6
    assert unknown_share([["a", "b"]] * 2) == (0, [])  # no word is rare


def test_validation_is_not_cut() -> None:
    corpus = prepare_corpus(DataConfig(max_length=3), 0, ["a b", "b c"], ["a b c a b c", "a"])
    assert [len(sentence) for sentence in corpus.valid] == [6, 1]
