"""Minimal pairs: files of three formats, and accuracies with ties and unknown words."""

import gzip
import json
from pathlib import Path

import pytest

from simplepcfg.errors import InputError
from simplepcfg.linguistics.accuracy import GROUP, MEAN, SET, wilson_interval
from simplepcfg.linguistics.minimal_pairs import (
    MinimalPair,
    evaluate_minimal_pairs,
    read_minimal_pairs,
)
from toy_word_models import UnigramModel

MODEL = UnigramModel({"the": 1.0, "dog": 2.0, "barks": 3.0, "bark": 4.0, "do": 1.0, "n't": 1.5})


def test_blimp_files(tmp_path: Path) -> None:
    record = {"sentence_good": "A dog barks.", "sentence_bad": "A dog bark.", "UID": "agree", "linguistics_term": "t"}
    path = tmp_path / "any.jsonl.gz"
    with gzip.open(path, "wt", encoding="utf-8") as stream:
        stream.write(json.dumps(record) + "\n\n" + json.dumps({**record, "UID": "other"}) + "\n")
    first, second = read_minimal_pairs(path)
    assert first == MinimalPair("A dog barks.", "A dog bark.", "agree", "t")
    assert second.paradigm == "other"


def test_zorro_files_have_the_bad_sentence_first(tmp_path: Path) -> None:
    path = tmp_path / "agreement-in_front.txt"
    path.write_text("the dog bark .\nthe dog barks .\n")
    assert read_minimal_pairs(path) == [
        MinimalPair("the dog barks .", "the dog bark .", "agreement-in_front", "agreement")
    ]


@pytest.mark.parametrize("header", ["", "good\tbad\n", "sentence_good\tsentence_bad\n"])
def test_columns(tmp_path: Path, header: str) -> None:
    path = tmp_path / "mine.tsv"
    path.write_text(header + "The dog barks.\tThe dog bark.\n")
    assert read_minimal_pairs(path) == [MinimalPair("The dog barks.", "The dog bark.", "mine")]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("mine.csv", '"The dog, barks.",The dog bark.\n'),
        ("mine.csv", "Item;Bad;Good\r\n1;The dog bark.;The dog, barks.\r\n;;\r\n"),
        ("mine.tsv", "item\tgrammatical\tungrammatical\tnote\n1\tThe dog, barks.\tThe dog bark.\t\n"),
    ],
)
def test_columns_of_spreadsheets(tmp_path: Path, name: str, text: str) -> None:
    path = tmp_path / name
    path.write_text(text)
    assert read_minimal_pairs(path) == [MinimalPair("The dog, barks.", "The dog bark.", "mine")]


def test_quoted_columns(tmp_path: Path) -> None:
    path = tmp_path / "mine.tsv"
    path.write_text('"The ""dog"" barks."\tThe "dog" bark.\n')
    assert read_minimal_pairs(path) == [MinimalPair('The "dog" barks.', 'The "dog" bark.', "mine")]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.jsonl", "{\n"),
        ("a.jsonl", "[]\n"),
        ("a.jsonl", '{"sentence_good": "x"}\n'),
        ("a.jsonl", "[" * 100_000 + "\n"),
        ("a.jsonl", ""),
        ("a.tsv", "one column\n"),
        ("a.tsv", "a\tb\tc\n"),
        ("a.tsv", "The dog, barks.\n"),
        ("a.tsv", "The dog barks.\t\n"),
        ("a.tsv", "item\tgood\tbad\n1\tThe dog barks.\n"),
        ("a.csv", "The dog barks.\n"),
        ("a.txt", "one\ntwo\nthree\n"),
        ("a.xlsx", "a,b\n"),
    ],
)
def test_what_is_refused(tmp_path: Path, name: str, text: str) -> None:
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(InputError, match=name) as caught:
        read_minimal_pairs(path)
    assert "\n" not in str(caught.value)


def test_accuracies() -> None:
    pairs = [
        MinimalPair("The dog barks.", "The dog bark!", "agree", "x"),
        MinimalPair("The dog bark.", "The dog barks.", "agree", "x"),  # wrong
        MinimalPair("The zebra.", "The quagga.", "unknown", "x"),  # a tie: both unknown
        MinimalPair("Don’t bark.", "Bark bark.", "negation", "y"),  # tokenised: do n't
    ]
    rows = evaluate_minimal_pairs(MODEL, pairs)
    assert [(row.level, row.name, row.group) for row in rows] == [
        (SET, "agree", "x"),
        (SET, "unknown", "x"),
        (SET, "negation", "y"),
        (GROUP, "x", "x"),
        (MEAN, "mean of 3", None),
    ]
    assert [(row.items, row.correct, row.ties, row.unknown_items) for row in rows] == [
        (2, 1, 0, 0),
        (1, 0, 1, 1),
        (1, 1, 0, 0),
        (3, 1, 1, 1),
        (4, 2, 1, 1),
    ]
    assert rows[-1].accuracy == pytest.approx((0.5 + 0 + 1) / 3)
    assert all(0 <= row.low <= row.accuracy <= row.high <= 1 for row in rows)


def test_wilson_intervals() -> None:
    assert wilson_interval(50, 100) == pytest.approx((0.40383, 0.59617), abs=1e-5)  # as published tables have it
    assert wilson_interval(0, 10) == pytest.approx((0.0, 0.27753), abs=1e-5)
    assert wilson_interval(10, 10) == pytest.approx((0.72247, 1.0), abs=1e-5)
