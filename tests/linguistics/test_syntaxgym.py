"""Test suites of regions: tokens of regions, judgements of items, and files that do not fit together."""

import json
from pathlib import Path
from typing import Any

import pytest

from simplepcfg.errors import InputError
from simplepcfg.linguistics.accuracy import Accuracy, Judgement, accuracy_of_set, with_means
from simplepcfg.linguistics.regions import region_surprisals, tokenise_regions
from simplepcfg.linguistics.syntaxgym import evaluate_suites, read_suite
from toy_word_models import UnigramModel

WORDS = {"the": 1.0, "dog": 2.0, "dogs": 2.5, "barks": 3.0, "bark": 4.0, "ca": 1.0, "n't": 1.5, ".": 0.5}


def suite(name: str = "numbers", formulas: tuple[str, ...] = ("(2;%match%) < (2;%mismatch%)",)) -> dict[str, Any]:
    def item(number: int, *texts: tuple[str, str]) -> dict[str, Any]:
        return {
            "item_number": number,
            "conditions": [
                {
                    "condition_name": condition,
                    "regions": [
                        {"region_number": place, "content": content}
                        for place, content in enumerate((text, verb, ""), start=1)
                    ],
                }
                for condition, (text, verb) in zip(("match", "mismatch"), texts, strict=True)
            ],
        }

    return {
        "meta": {"name": name, "metric": "sum"},
        "region_meta": {"1": "subject", "2": "verb", "3": "rest"},
        "predictions": [{"type": "formula", "formula": formula} for formula in formulas],
        "items": [
            item(1, ("The dog", "barks."), ("The dog", "bark.")),
            item(2, ("The dogs", "bark."), ("The dogs", "barks.")),
            item(3, ("The zebra", "brays."), ("The zebra", "bray.")),
        ],
    }


def written(tmp_path: Path, value: Any) -> Path:
    path = tmp_path / "suite.json"
    path.write_text(value if isinstance(value, str) else json.dumps(value))
    return path


@pytest.mark.parametrize(
    ("regions", "words", "region_of"),
    [
        (["The dog", "can't bark", "."], ["The", "dog", "ca", "n't", "bark", "."], [0, 0, 1, 1, 1, 2]),
        (["Mr. Fox", "", "ran."], ["Mr.", "Fox", "ran", "."], [0, 0, 2, 2]),
        (["the U.S.", "dog’s", "tail ."], ["the", "U.S.", "dog", "'s", "tail", "."], [0, 0, 1, 1, 2, 2]),
        (["a  dog", ", the", "cat"], ["a", "dog", ",", "the", "cat"], [0, 0, 1, 1, 2]),
        (['He said "no', 'way".'], ["He", "said", '"', "no", "way", '"', "."], [0, 0, 0, 0, 1, 1, 1]),
        (["aa a", "aa"], ["aa", "a", "aa"], [0, 0, 1]),
        ([], [], []),
        (["", " "], [], []),
    ],
)
def test_tokens_of_regions(regions: list[str], words: list[str], region_of: list[int]) -> None:
    found = tokenise_regions(regions)
    assert (found.words, found.region_of) == (words, region_of)


def test_surprisals_of_regions() -> None:
    (found,) = region_surprisals(UnigramModel(WORDS), [["The dog", "can't fly", "", "."]])
    assert [region.surprisal for region in found] == [3.0, 12.5, None, 1.0]  # a full stop alone is the end
    assert [region.tokens for region in found] == [("the", "dog"), ("ca", "n't", "<unk>"), (), ("<end>",)]
    assert [region.entropy for region in found] == [2.0, 4.0, None, 7.0]
    assert [region.unknown for region in found] == [0, 1, 0, 0]
    (kept,) = region_surprisals(UnigramModel(WORDS, punctuation="keep"), [["The dog", "barks", "."]])
    assert [region.surprisal for region in kept] == [3.0, 3.0, 0.5]
    (dropped,) = region_surprisals(UnigramModel(WORDS), [["The dog", "barks."]])
    assert [region.surprisal for region in dropped] == [3.0, 3.0]  # the end is no part of a region of words
    assert region_surprisals(UnigramModel(WORDS), [[]]) == [[]]


def test_accuracies(tmp_path: Path) -> None:
    formulas = ("(2;%match%) < (2;%mismatch%)", "(*;%match%) = (*;%mismatch%)")
    found = read_suite(written(tmp_path, suite(formulas=formulas)))
    other = read_suite(written(tmp_path, suite("other", ("(1;%match%) > 0",))))
    rows = evaluate_suites(UnigramModel(WORDS), [found, other])
    assert [(row.name, row.counted, row.items, row.correct, row.ties, row.unknown_items) for row in rows] == [
        ("numbers (1)", True, 3, 1, 1, 1),
        ("numbers (2)", False, 3, 1, 0, 1),
        ("other", True, 3, 3, 0, 1),
        ("mean of 2", True, 6, 4, 1, 2),
    ]
    assert rows[-1].accuracy == pytest.approx((1 / 3 + 1) / 2)


def test_every_suite_counts_once(tmp_path: Path) -> None:
    formulas = ("(2;%match%) < (2;%mismatch%)", "(1;%match%) < 0")
    found = read_suite(written(tmp_path, suite(formulas=formulas)))
    other = read_suite(written(tmp_path, suite("other", ("(1;%match%) > 0",))))
    rows = evaluate_suites(UnigramModel(WORDS), [found, other])
    assert rows[-1].accuracy == pytest.approx(((1 / 3 + 0) / 2 + 1) / 2)
    assert rows[-2].name == "numbers"
    assert rows[-2].accuracy == pytest.approx(1 / 6)


def broken(**changes: Any) -> dict[str, Any]:
    return {**suite(), **changes}


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("{", "not JSON"),
        ([], "no suite"),
        ({}, "has no 'meta'"),
        (broken(items=[]), "0 items"),
        (broken(predictions=[]), "0 predictions"),
        (broken(predictions=[{"formula": "(2;%match%)"}]), "formula"),
        (broken(predictions=[{"formula": "(9;%match%) > 0"}]), "region 9"),
        (broken(predictions=[{"formula": "(2;%other%) > 0"}]), "'other'"),
        (broken(meta={"name": "x", "metric": "mean"}), "metric"),
        (broken(items=[{"conditions": [{"regions": []}]}]), "has no 'condition_name'"),
    ],
)
def test_what_is_refused(tmp_path: Path, value: Any, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        read_suite(written(tmp_path, value))
    assert "suite.json" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_known_items_are_averaged_as_all_items_are() -> None:
    def of(group: str, correct: bool) -> Accuracy:
        return accuracy_of_set("m", group, [Judgement(correct, False, False)], group)

    *_, mean = with_means([of("a", True), of("a", True), of("b", False)], over_groups=True)
    assert mean.accuracy == mean.known_accuracy == 0.5
