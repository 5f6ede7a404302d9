"""Classes of unknown words: told by their looks, kept in the vocabulary, used in encoding."""

from pathlib import Path

import pytest

from simplepcfg import fit, load
from simplepcfg.data.unknown_classes import is_unknown_class, unknown_class
from simplepcfg.data.vocabulary import UNK_ID, Vocabulary


@pytest.mark.parametrize(
    ("word", "name"),
    [
        ("brexiting", "<unk-ing>"),
        ("Zorbs", "<unk-cap-s>"),
        ("co-op", "<unk-hyphen>"),
        ("4x4", "<unk-digit>"),
        ("B-52s", "<unk-cap-digit-hyphen-s>"),
        ("Nations", "<unk-cap-s>"),
        ("ing", "<unk-plain>"),
        ("-", "<unk-plain>"),
        ("漢字", "<unk-plain>"),
        ("", "<unk-plain>"),
    ],
)
def test_a_word_s_class(word: str, name: str) -> None:
    assert unknown_class(word) == name
    assert is_unknown_class(name)


COUNTS = {"the": 9, "dog": 8, "running": 1, "jumping": 1, "walked": 1, "zq": 1}


def test_words_that_are_left_out_have_classes() -> None:
    plain = Vocabulary.from_counts(COUNTS, size=2)
    classes = Vocabulary.from_counts(COUNTS, size=2, unknown_classes=True)
    assert plain.words == ("<pad>", "<unk>", "the", "dog")
    assert classes.words == ("<pad>", "<unk>", "<unk-ing>", "the", "dog")  # no class of one word alone
    assert (plain.size, classes.size) == (2, 2)
    assert plain.encode(["dog", "flying", "zq", "<pad>"]) == [3, UNK_ID, UNK_ID, UNK_ID]
    assert classes.encode(["dog", "flying", "zq", "<pad>"]) == [4, 2, UNK_ID, UNK_ID]
    assert plain.fingerprint != classes.fingerprint
    assert [classes.knows(word) for word in ("dog", "flying", "<unk>", "<unk-ing>")] == [True, False, False, False]


def test_the_file_keeps_them(tmp_path: Path) -> None:
    classes = Vocabulary.from_counts(COUNTS, size=2, unknown_classes=True)
    classes.save(tmp_path / "words.txt")
    assert Vocabulary.load(tmp_path / "words.txt").encode(["flying"]) == [2]


def test_training_learns_them(tmp_path: Path) -> None:
    text = ["the dog is running", "the dog is jumping", "the dog is flying", "the dog is here"] * 5
    settings = {
        "model.nonterminals": 2,
        "model.preterminals": 4,
        "model.embedding": 4,
        "training.epochs": 1,
        "data.vocabulary_size": 3,
        "data.unknown_classes": "signature",
    }
    run = fit(text, settings=settings, out=tmp_path / "run")
    assert "<unk-ing>" in run.vocabulary.words
    closed = load(tmp_path / "run", closed_vocabulary=True)
    assert closed.score(["the dog is swimming"]) == closed.score(["the dog is singing"])
    assert closed.score(["the dog is swimming"]) != closed.score(["the dog is odd"])
    report = run.evaluate(["the dog is swimming", "the dog"])
    assert report.vocabulary is not None
    assert (report.vocabulary.words, report.vocabulary.unknown) == (6, 1)
    assert report.vocabulary.by_sentence == ((0, 1), (1, 0))
