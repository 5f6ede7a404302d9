"""Preparation of words: the field's conventions, text prepared already, and the way back to the words."""

import random
import re
from pathlib import Path

import pytest
from pydantic import ValidationError

from simplepcfg.data.brackets import parse_tree
from simplepcfg.data.preprocessing import PENN_WORD_TAGS, Preprocessing, has_penn_tags, with_word_tags
from simplepcfg.errors import InputError
from simplepcfg.runs.run_folder import RunFolder

KEEP = Preprocessing(lowercase=False, numbers="keep", punctuation="keep")


def test_there_are_36_word_tags() -> None:
    assert len(PENN_WORD_TAGS) == 36


def test_keep_everything() -> None:
    words = ["The", "3", "--", "<unk>", "N"]
    assert KEEP.apply(words).tokens == words
    assert KEEP.apply(words).kept == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("vocabulary", "tokens"),
    [
        ("the N mid-Ns %", "the dog N % mid-Ns"),  # as the lower-case Wall Street Journal
        ("The the N", "The Dog N mid-Ns"),
        ("the N ,", "the dog N % , mid-ns"),
        (" ".join(["the", "N", *"abcdefghijklmnopqrst", ","]), "the dog N mid-ns"),  # a rare comma
    ],
)
def test_new_text_gets_the_form_of_a_prepared_one(vocabulary: str, tokens: str) -> None:
    completed = KEEP.completed(["<pad>", "<unk>", *vocabulary.split()])
    assert completed.apply(["The", "Dog", "25", "%", ",", "mid-Ns"]).tokens == tokens.split()
    assert completed.apply(vocabulary.split()).tokens == [
        word for word in vocabulary.split() if word != "," or completed.punctuation == "keep"
    ]


@pytest.mark.parametrize(
    ("preprocessing", "vocabulary"),
    [
        (KEEP, "the 25 N"),
        (KEEP, "the dog"),
        (Preprocessing(), "the N %"),
        (Preprocessing(punctuation="keep", lowercase=False), "the N"),  # it has written the N itself
    ],
)
def test_new_text_of_other_runs_is_treated_as_their_own(preprocessing: Preprocessing, vocabulary: str) -> None:
    assert preprocessing.completed(vocabulary.split()) is preprocessing


def test_classes_of_unknown_words_are_no_frequent_words() -> None:
    classes = [f"<unk:-{letter}>" for letter in "abcdefghijklmnopqrstuvwxyz"]
    assert KEEP.completed(["<pad>", "<unk>", *classes, "the", ",", "N"]).punctuation == "keep"


SHIPPED = ["src/simplepcfg/pretrained/english", *(f"packages/{name}" for name in ("english-surprisal", "french"))]


@pytest.mark.parametrize("place", [*SHIPPED, "packages/german", "packages/spanish"])
def test_shipped_grammars_read_text_as_they_were_trained(place: str) -> None:
    folder = RunFolder(Path(__file__).parents[2] / place)
    assert folder.read_preprocessing() == folder.read_config().data.preprocessing


def test_marks_that_a_vocabulary_has_stay_in_trees_too() -> None:
    completed = KEEP.completed(["cost", "N", "%", "-"])
    (tree,) = with_word_tags([parse_tree("(S (V Cost) (M 5) (Y %) (M -) (. .))")])
    assert completed.prepare_tree(tree).words == ("cost", "N", "%", "-")
    # Penn's tags decide alone.
    assert completed.apply(["Cost", "-", "%"], ["VB", "HYPH", "NN"]).tokens == ["cost", "%"]


def test_text_without_tags() -> None:
    prepared = Preprocessing().apply(
        ["Mr.", "O'Neil", "-LRB-", "'s", ",", "``", "paid", "3,000.50", "%", "...", ")", "$", "é"]
    )
    assert prepared.tokens == ["mr.", "o'neil", "'s", "paid", "N", "é"]
    assert prepared.kept == [0, 1, 3, 6, 7, 12]


def test_trees_go_by_their_tags() -> None:
    prepared = Preprocessing().apply(["%", "Go", ".", "A"], ["NN", "VB", ".", "NOUN"])
    assert prepared.tokens == ["%", "go"]
    assert prepared.kept == [0, 1]
    with pytest.raises(InputError, match="2 words come with 1 tags"):
        Preprocessing().apply(["a", "b"], ["NN"])


@pytest.mark.parametrize(
    ("word", "token"),
    [
        ("1987", "N"),
        ("10.5%", "N%"),
        ("mid-1980s", "mid-Ns"),
        ("3/4", "N/N"),
        ("1,2,3.", "N"),
        ("N.Y.", "n.y."),
    ],
)
def test_numbers_after_lower_case(word: str, token: str) -> None:
    assert Preprocessing(punctuation="keep").apply([word]).tokens == [token]


def test_numbers_are_those_of_the_conventional_expression() -> None:
    conventional = re.compile(r"[0-9]{1,}([,.]?[0-9]*)*")
    rng = random.Random(0)
    for _ in range(500):
        word = "".join(rng.choice("01a,.-") for _ in range(rng.randint(1, 12)))
        assert Preprocessing(punctuation="keep").apply([word]).tokens == [conventional.sub("N", word)]


def test_prepared_text_stays_as_it_is() -> None:
    words = ["the", "<unk>", "rose", "N", "N", "<eos>"]
    prepared = Preprocessing(eos=True).apply(words)
    assert prepared.tokens == words
    assert prepared.kept == list(range(6))
    assert Preprocessing(numbers="keep").apply(["N", "<unk>"]).tokens == ["n", "<unk>"]


def test_preparing_twice_changes_nothing() -> None:
    once = Preprocessing(eos=True).apply(["Up", "3.5", "%", ",", "N", "<unk>", "!"]).tokens
    assert Preprocessing(eos=True).apply(once).tokens == once


def test_eos_is_added_without_an_index() -> None:
    prepared = Preprocessing(eos=True).apply(["Go", "!"])
    assert prepared.tokens == ["go", "<eos>"]
    assert prepared.kept == [0]
    assert Preprocessing(eos=True).apply(["!"]).tokens == []
    assert Preprocessing(eos=True).apply([]).tokens == []


def test_word_spans_cut_the_added_eos_off() -> None:
    prepared = Preprocessing(eos=True).apply(["a", "b", "c"])
    assert prepared.word_spans([(0, 4), (1, 4), (1, 3)]) == [(0, 3), (1, 3)]
    assert prepared.word_spans([(0, 4), (0, 3), (0, 2)]) == [(0, 3), (0, 2)]
    assert prepared.word_spans([(0, 4), (1, 4), (2, 4)]) == [(0, 3), (1, 3)]
    without = Preprocessing().apply(["a", "b"])
    assert without.word_spans([(0, 2)]) == [(0, 2)]


def test_prepare_tree() -> None:
    tree = parse_tree("(S (`` ``) (NP (DT The) (NN Dog) (PRN (-LRB- -LRB-) (: --))) (VP (VBZ is) (CD 3)) (. .))")
    prepared = Preprocessing(eos=True).prepare_tree(tree)
    assert prepared.to_brackets() == "(S (NP (DT the) (NN dog)) (VP (VBZ is) (CD N)))"
    assert KEEP.prepare_tree(tree) == tree
    assert len(Preprocessing().prepare_tree(parse_tree("(X (. .) (, ,))"))) == 0


def test_a_chain_that_loses_its_sister_stays_a_chain() -> None:
    tree = Preprocessing().prepare_tree(parse_tree("(S (NP (NN a) (NN b)) (. .))"))
    assert tree.spans == ((0, 2, "S"), (0, 2, "NP"))


def test_it_is_a_strict_frozen_setting() -> None:
    with pytest.raises(ValidationError):
        Preprocessing(lower=True)  # type: ignore[call-arg]
    with pytest.raises(ValidationError):
        Preprocessing().lowercase = False
    assert Preprocessing(**Preprocessing(eos=True).model_dump()) == Preprocessing(eos=True)


@pytest.mark.parametrize(
    ("text", "penn"),
    [
        ("(S (NP (DT a) (NN dog)) (. .))", True),
        ("(NP ($ US$) (CD 5))", True),
        ("(S (NP (DET a) (NOUN dog)) (PUNCT .))", False),
        ("(NP (NUM 5) (SYM °C) (NOUN heat))", False),  # one name in common with Penn's tags
        ("(X (T a) (T dog) (T .))", False),
        ("(. .)", True),
    ],
)
def test_other_tags_are_told_from_penns(text: str, penn: bool) -> None:
    tree = parse_tree(text)
    assert has_penn_tags([tree]) == penn
    (tagged,) = with_word_tags([tree])
    assert (tagged == tree) == penn
    assert (tagged.words, tagged.spans) == (tree.words, tree.spans)
    if not penn:
        by_characters = Preprocessing().apply(tree.words)
        assert Preprocessing().apply(tagged.words, tagged.tags) == by_characters


def test_escaped_brackets_are_punctuation_in_either_case() -> None:
    prepared = Preprocessing().apply(["-lrb-", "the", "-LRB-", "dog", "-Fpt-", "-rsb-", "-lr-"])
    assert prepared.tokens == ["the", "dog", "-lr-"]
