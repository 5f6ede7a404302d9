"""Classes of unknown words: told by their looks, kept in the vocabulary, used in encoding."""

from pathlib import Path

import pytest

from simplepcfg import fit, load
from simplepcfg.data.unknown_classes import is_unknown_class, learned_classes, possible_classes
from simplepcfg.data.vocabulary import UNK_ID, Vocabulary

COUNTS = {"the": 9, "dog": 8, "running": 1, "jumping": 1, "Zq": 1}


def test_words_that_are_left_out_have_classes() -> None:
    plain = Vocabulary.from_counts(COUNTS, size=2)
    classes = Vocabulary.with_endings(COUNTS, size=2)
    assert plain.words == ("<pad>", "<unk>", "the", "dog")
    assert classes.words == ("<pad>", "<unk>", "<unk:-g>", "<unk:-ing>", "<unk:-ng>", "the", "dog")  # none of one word
    assert (plain.size, classes.size) == (2, 2)
    assert plain.encode(["dog", "flying", "Zq", "<pad>"]) == [3, UNK_ID, UNK_ID, UNK_ID]
    assert classes.encode(["dog", "flying", "Zq", "<pad>"]) == [6, 3, UNK_ID, UNK_ID]
    assert plain.fingerprint != classes.fingerprint
    assert [classes.knows(word) for word in ("dog", "flying", "<unk>", "<unk:-ing>")] == [True, False, False, False]


def test_the_file_keeps_them(tmp_path: Path) -> None:
    classes = Vocabulary.with_endings(COUNTS, size=2)
    classes.save(tmp_path / "words.txt")
    assert Vocabulary.load(tmp_path / "words.txt").encode(["flying"]) == [3]


def test_training_learns_them(tmp_path: Path) -> None:
    text = ["the dog is running", "the dog is jumping", "the dog is flying", "the dog is here"] * 5
    settings = {
        "model.nonterminals": 2,
        "model.preterminals": 4,
        "model.embedding": 4,
        "training.epochs": 1,
        "data.vocabulary_size": 3,
        "data.unknown_classes": "endings",
    }
    run = fit(text, settings=settings, out=tmp_path / "run")
    assert "<unk:-ing>" in run.vocabulary.words
    closed = load(tmp_path / "run", closed_vocabulary=True)
    assert closed.score(["the dog is swimming"]) == closed.score(["the dog is singing"])
    assert closed.score(["the dog is swimming"]) != closed.score(["the dog is odd"])
    report = run.evaluate(["the dog is swimming", "the dog"])
    assert report.vocabulary is not None
    assert (report.vocabulary.words, report.vocabulary.unknown) == (6, 1)
    assert report.vocabulary.unknown == 1


@pytest.mark.parametrize(
    ("word", "longest", "without"),
    [
        ("Zeitung", "<unk:cap:-tung>", "<unk:cap>"),
        ("NATO", "<unk:capitals:-to>", "<unk:capitals>"),
        ("mid-Ns", "<unk:hyphen:-d-ns>", "<unk:hyphen>"),
        ("N-jährig", "<unk:cap:digit:hyphen:-hrig>", "<unk:cap:digit:hyphen>"),
        ("ab", "<unk:plain>", "<unk:plain>"),
        ("好朋友", "<unk:-朋友>", "<unk:plain>"),
        ("人", "<unk:plain>", "<unk:plain>"),
        ("", "<unk:plain>", "<unk:plain>"),
    ],
)
def test_possible_classes(word: str, longest: str, without: str) -> None:
    names = list(possible_classes(word))
    assert (names[0], names[-1]) == (longest, without)
    assert all(map(is_unknown_class, names))


def test_endings_are_learned() -> None:
    words = [f"{stem}ung" for stem in "abcdefgh"]
    assert learned_classes(words) == ["<unk:-g>", "<unk:-ng>"]  # a stem of two letters must be left
    words = [f"st{word}" for word in words]
    assert learned_classes([*words, "xyz", "Abc", "Bcd"]) == ["<unk:-g>", "<unk:-ng>", "<unk:-ung>", "<unk:cap>"]
    many = [f"{first}{second}xyq" for first in "abcdefghijklmnopqrstuvwxyz" for second in "abcdefghijklmnopqrstuvwxyz"]
    assert "<unk:-ab>" not in learned_classes([*many, "xxab", "yyab"])  # too few of all words
    assert "<unk:-們>" in learned_classes([*many, "我們", "他們"])  # syllables may be shared by fewer
    assert learned_classes([]) == []


CASED = {"The": 5, "the": 4, "Dog": 1, "dog": 8, "Berlin": 1, "Turin": 1, "Odin": 1, "running": 1, "N": 3}


def test_classes_by_capitals_of_a_vocabulary_in_lower_case(tmp_path: Path) -> None:
    vocabulary = Vocabulary.with_endings(CASED, size=3, lowercase=True)
    assert vocabulary.words[-3:] == ("dog", "the", "N")
    assert vocabulary.size == 3
    vocabulary.save(tmp_path / "words.txt")
    for words in (vocabulary, Vocabulary.load(tmp_path / "words.txt")):
        ids = words.encode(["THE", "The", "the", "N", "n", "Robin", "robin", "<pad>"])
        assert ids[0] == ids[1] == ids[2] == words.encode(["the"])[0]
        assert words.decode(ids[3:]) == ["N", "<unk>", "<unk:cap:-in>", "<unk>", "<unk>"]
        assert [word in words for word in ("THE", "Robin", "<pad>", "n")] == [True, False, False, False]
    lower = Vocabulary.with_endings({word.lower(): count for word, count in CASED.items()}, size=3)
    assert lower.decode(lower.encode(["Robin", "DOG"])) == ["<unk:-in>", "dog"]
    cased = Vocabulary.with_endings(CASED, size=3)
    assert set(cased.words[-3:]) == {"dog", "The", "the"}
    assert cased.encode(["Dog"]) == cased.encode(["dog"])


def test_training_with_learned_classes(tmp_path: Path) -> None:
    text = ["The dog is running", "the dog is in Turin", "the Dog is in Berlin", "the dog is here"] * 5
    settings = {
        "model.nonterminals": 2,
        "model.preterminals": 4,
        "model.embedding": 4,
        "training.epochs": 1,
        "data.vocabulary_size": 4,
        "data.unknown_classes": "endings",
    }
    run = fit(text, settings=settings, out=tmp_path / "run")
    assert run.vocabulary.words[-4:] == ("dog", "is", "the", "in")
    closed = load(tmp_path / "run", closed_vocabulary=True)
    assert closed.score(["The DOG is in Turin"]) == closed.score(["the dog is in Robin"])
    assert closed.score(["the dog is in robin"]) != closed.score(["the dog is in Robin"])
