"""Rows of results that are made from the JSON of commands."""

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
import collect


def test_suites_count_once_and_unpublished_ones_do_not(tmp_path: Path) -> None:
    def item(name: str, group: str, accuracy: float, counted: bool = True) -> dict[str, object]:
        found = {"model": "a", "level": "set", "name": name, "group": group}
        return found | {"accuracy": accuracy, "counted": counted}

    items = [item("cleft (1)", "cleft", 0.2), item("cleft (2)", "cleft", 0.4), item("mvrr", "mvrr", 0.9)]
    items += [item("number_orc", "number_orc", 0.0, counted=False), item("x", "fgd-embed4", 0.0)]
    (tmp_path / "a-syntaxgym.json").write_text(json.dumps(items))
    pairs = [{"model": "a", "level": "mean", "accuracy": 0.5, "items": 7}, {"model": "a", "level": "set"}]
    (tmp_path / "a-blimp.json").write_text(json.dumps(pairs))
    assert collect.tested(tmp_path) == [
        {"system": "a", "syntaxgym": pytest.approx(60.0), "suites": 2, "blimp": 50.0, "pairs": 7}
    ]


def test_an_evaluation_becomes_a_row_a_system(tmp_path: Path) -> None:
    system = {"name": "run", "sentences": 3, "sentence_f1": 61.234, "corpus_f1": 50.0, "perplexity": None}
    system["intervals"] = {"sentence_f1": {"low": 60.06, "high": 62.0}}
    right = {"name": "right-branching", "sentences": 3, "sentence_f1": 45.0, "corpus_f1": 40.0, "perplexity": None}
    path = tmp_path / "evaluated.json"
    path.write_text(json.dumps([system, right]))
    (row,) = collect.evaluated(path)
    assert (row["system"], row["sentence_f1"], row["right_branching"]) == ("run", 61.23, 45.0)
    assert row["interval"] == "60.1 to 62.0"


def test_runs_of_a_group_have_a_row_each(tmp_path: Path) -> None:
    run = {"sentences": 3, "sentence_f1": 61.0, "corpus_f1": 50.0, "perplexity": 20.0}
    group = {"name": "both", "runs": 2, "members": [run | {"name": "a"}, run | {"name": "b", "sentence_f1": 62.0}]}
    path = tmp_path / "scores.json"
    path.write_text(json.dumps([group, run | {"name": "student"}]))
    assert [(row["system"], row["sentence_f1"]) for row in collect.evaluated(path)] == [
        ("a", 61.0),
        ("b", 62.0),
        ("student", 61.0),
    ]
