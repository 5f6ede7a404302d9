"""`simplepcfg test minimal-pairs` and `simplepcfg test syntaxgym`: tables, JSON, CSV, and what is refused."""

import csv
import io
import json
import os
from dataclasses import fields
from pathlib import Path

import pytest
from rich.console import Console

from command_calls import Call
from simplepcfg import load
from simplepcfg.linguistics.accuracy import Accuracy
from simplepcfg.linguistics.reading_times import ReadingTimeGain
from tiny_runs import tiny_sentences


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    folder = tmp_path / "pairs"
    folder.mkdir()
    (folder / "one.tsv").write_text("The cat in the garden.\tGarden the in cat the.\nThe xyzzy.\tThe plugh.\n")
    (folder / "two.tsv").write_text("the cat in the garden .\tcat the the in .\n")
    (folder / "README.txt").write_text("Of these files the first kind counts.\n")
    return folder


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    regions = [{"region_number": 1, "content": "The dog"}, {"region_number": 2, "content": "sees."}]
    other = [{"region_number": 1, "content": "The dog"}, {"region_number": 2, "content": "the."}]
    conditions = [{"condition_name": "a", "regions": regions}, {"condition_name": "b", "regions": other}]
    value = {
        "meta": {"name": "verbs", "metric": "sum"},
        "predictions": [{"type": "formula", "formula": "(2;%a%) < (2;%b%)"}],
        "items": [{"item_number": 1, "conditions": conditions}],
    }
    path = tmp_path / "verbs.json"
    path.write_text(json.dumps(value))
    return path


def test_minimal_pairs(call: Call, tiny_run: Path, eos_run: Path, pairs: Path, tmp_path: Path) -> None:
    table = tmp_path / "rows.csv"
    result = call("test", "minimal-pairs", tiny_run, eos_run, pairs, "--json", "-", "--csv", table)
    assert result.code == 0, result.err
    rows = json.loads(result.out)
    assert [row["name"] for row in rows] == ["one", "two", "mean of 2"] * 2
    assert [row["model"] for row in rows] == [str(tiny_run)] * 3 + [str(eos_run)] * 3
    assert all([*row] == [field.name for field in fields(Accuracy)] for row in rows)
    assert [(row["items"], row["ties"], row["unknown_items"]) for row in rows[:2]] == [(2, 0, 1), (1, 0, 0)]
    good, bad = load(tiny_run).score([["the", "cat", "in", "the", "garden"], ["cat", "the", "the", "in"]])
    assert rows[1]["correct"] == (good > bad)
    read = list(csv.DictReader(io.StringIO(table.read_text())))
    assert [row["name"] for row in read] == [row["name"] for row in rows]
    assert [float(row["accuracy"]) for row in read] == [row["accuracy"] for row in rows]


def test_a_single_set_is_a_list_too(call: Call, tiny_run: Path, pairs: Path, tmp_path: Path) -> None:
    file = tmp_path / "rows.json"
    result = call("test", "minimal-pairs", pairs / "two.tsv", tiny_run, "--json", file)
    assert result.code == 0
    assert "two" in result.out
    (row,) = json.loads(file.read_text())
    assert row["level"] == "set"


def test_no_number_is_cut_on_a_narrow_terminal(
    call: Call, tiny_run: Path, pairs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("simplepcfg.cli.test.results_console", lambda: Console(width=65, highlight=False))
    monkeypatch.chdir(tiny_run.parent)
    both = call("test", "minimal-pairs", tiny_run.name, tiny_run.name, pairs / "one.tsv").lines
    rows = [line for line in both if line.split()[:2] == ["one", tiny_run.name]]
    assert len(rows) == 2  # one below the other
    assert rows[0] == rows[1]
    assert not any("…" in line for line in both)


def test_suites(call: Call, tiny_run: Path, suite: Path) -> None:
    result = call("test", "syntaxgym", tiny_run, suite)
    assert result.code == 0
    assert "verbs" in result.out
    (row,) = json.loads(call("test", "syntaxgym", tiny_run, suite, "--json", "-").out)
    sees, the = (records[2].surprisal for records in load(tiny_run).surprisal(["the dog sees .", "the dog the ."]))
    assert sees is not None
    assert the is not None
    assert row["correct"] == (sees < the)


@pytest.mark.parametrize("kind", ["minimal-pairs", "syntaxgym"])
def test_what_is_refused(call: Call, tiny_run: Path, pairs: Path, tmp_path: Path, kind: str) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    for arguments in (
        [tiny_run],
        [pairs / "one.tsv"],
        [tiny_run, "nowhere.jsonl"],
        [tiny_run, empty],
        [tiny_run, pairs / "one.tsv", "--json", tmp_path / "no" / "where.json"],
    ):
        result = call("test", kind, *arguments)
        assert (result.code, result.out) == (2, "")
        assert result.err.count("\n") == 1
        assert "there is no a " not in result.err


def test_a_folder_with_other_files(call: Call, tiny_run: Path, pairs: Path) -> None:
    record = {"sentence_good": "the cat in the garden", "sentence_bad": "garden the in cat the", "UID": "blimp"}
    (pairs / "three.jsonl").write_text(json.dumps(record))
    (row,) = json.loads(call("test", "minimal-pairs", tiny_run, pairs, "--json", "-").out)
    assert row["name"] == "blimp"


@pytest.fixture
def times(tmp_path: Path) -> Path:
    lines = ["item\tsentence\tzone\tword\tmean_rt"]
    for sentence, text in enumerate(tiny_sentences(30, seed=2)):
        lines += [
            f"1\t{sentence}\t{zone}\t{word}\t{300 + (13 * zone * len(word) + sentence) % 70}"
            for zone, word in enumerate(text.split(), start=1)
        ]
    path = tmp_path / "times.tsv"
    path.write_text("\n".join(lines) + "\n")
    return path


def test_reading_times(call: Call, tiny_run: Path, eos_run: Path, times: Path, tmp_path: Path) -> None:
    table, text = tmp_path / "rows.csv", tmp_path / "text.txt"
    text.write_text("\n".join(tiny_sentences(100)))
    options = ["--resamples", 20, "--frequencies", text, "--csv", table]
    result = call("test", "reading-times", tiny_run, eos_run, times, *options, "--json", "-")
    assert result.code == 0, result.err
    rows = json.loads(result.out)
    assert [row["model"] for row in rows] == [str(tiny_run), str(eos_run)]
    assert all([*row] == [field.name for field in fields(ReadingTimeGain)] for row in rows)
    assert len({row["words"] for row in rows}) == 1
    assert len(list(csv.DictReader(io.StringIO(table.read_text())))) == 2
    shown = call("test", "reading-times", tiny_run, times, "--resamples", 20)
    assert shown.code == 0
    assert "mean_rt" in shown.out
    assert "frequencies are those of the words in DATA" in shown.err


def test_reading_times_that_are_refused(call: Call, tiny_run: Path, times: Path) -> None:
    for arguments in (
        [times, "--time", "nowhere"],
        [times, times],
        [times, "--frequencies", "nowhere.txt"],
        [times, "--frequencies", os.devnull],
    ):
        result = call("test", "reading-times", tiny_run, *arguments)
        assert (result.code, result.out) == (2, "")
        assert result.err.count("\n") == 1
