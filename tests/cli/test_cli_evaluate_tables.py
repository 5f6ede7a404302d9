"""`evaluate --sentences` and `--csv`: the numbers of the table, a row a sentence and a row a system."""

import csv
import math
from pathlib import Path

import pytest

from command_calls import Call
from simplepcfg import load
from simplepcfg.data.readers import read_trees


def rows(path: Path, delimiter: str) -> list[dict[str, str]]:
    with open(path, newline="") as stream:
        return list(csv.DictReader(stream, delimiter=delimiter))


def test_on_trees(call: Call, tiny_run: Path, trees_file: Path, tmp_path: Path) -> None:
    sentences, table = tmp_path / "rows.tsv", tmp_path / "table.csv"
    result = call("evaluate", tiny_run, "right-branching", trees_file, "--sentences", sentences, "--csv", table)
    assert result.code == 0, result.err
    report = load(tiny_run).evaluate(trees_file)
    mine = [row for row in rows(sentences, "\t") if row["system"] == str(tiny_run)]
    assert sum(float(row["f1"]) for row in mine) / len(mine) == pytest.approx(report.sentence_f1, abs=1e-3)
    total = sum(float(row["log_probability_nats"]) for row in mine)
    assert total == pytest.approx(report.perplexity.log_likelihood, rel=1e-9)
    assert sum(int(row["unknown_words"]) for row in mine) == report.vocabulary.unknown
    lengths = [len(tree.words) - 1 for tree in read_trees(trees_file)]  # without the full stop
    assert [int(row["words"]) for row in mine] == [length for length in lengths if length >= 2]
    others = [row for row in rows(sentences, "\t") if row["system"] == "right-branching"]
    assert len(others) == len(mine)
    assert {row["log_probability_nats"] for row in others} == {""}
    systems = rows(table, ",")
    assert [row["name"] for row in systems] == [str(tiny_run), "right-branching"]
    assert float(systems[0]["perplexity"]) == pytest.approx(report.perplexity.perplexity)
    assert systems[1]["perplexity"] == ""


@pytest.mark.parametrize("which", ["tiny_run", "eos_run"])
def test_on_text(call: Call, which: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    run = request.getfixturevalue(which)
    (tmp_path / "text.txt").write_text("the dog sees a cat\nthe man\nyes\n")
    assert call("evaluate", run, tmp_path / "text.txt", "--sentences", tmp_path / "rows.tsv").code == 0
    found = rows(tmp_path / "rows.tsv", "\t")
    expected = [("1", "5"), ("2", "2"), ("3", "1")] if which == "eos_run" else [("1", "5"), ("2", "2")]
    assert [(row["sentence"], row["words"]) for row in found] == expected
    assert all(math.isfinite(float(row["log_probability_nats"])) and row["f1"] == "" for row in found)


def test_an_unwritable_file_is_told_first(call: Call, tiny_run: Path, trees_file: Path, tmp_path: Path) -> None:
    result = call("evaluate", tiny_run, trees_file, "--csv", tmp_path / "none" / "table.csv")
    assert (result.code, result.out) == (2, "")
