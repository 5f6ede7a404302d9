"""`simplepcfg reproduce` on folders that hold results already: of other settings, of other text, damaged."""

import csv
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from command_calls import Call
from reproduce_cases import SMALL, results, write_text
from simplepcfg.evaluation.report import POSTERIOR_MEAN
from simplepcfg.plans.lines import CSV_COLUMNS, result_table
from simplepcfg.plans.tables import paper_table
from simplepcfg.version import __version__


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_text(tmp_path_factory.mktemp("data") / "text")


def test_f1_and_perplexity_stand_beside_the_papers(call: Call, data: Path, tmp_path: Path) -> None:
    asked = ["reproduce", "parsing", "--data", data, "--out", tmp_path, "--seeds", 1, *SMALL]
    assert call(*asked, "--rows", "sn-pcfg-128,right-branching").code == 0
    found = {record["row"]: record["report"] for record in results(tmp_path)}
    report = found["sn-pcfg-128"]
    assert set(results(tmp_path)[0]) == {
        *("table", "row", "language", "seed", "config", "model", "test", "test_sha256", "when", "simplepcfg", "commit"),
        "report",
    }
    assert {"sentence_f1", "perplexity", "perplexity_tokens", "likelihood", "best"} <= set(report)
    page = (tmp_path / "table.md").read_text()
    assert "| states | S-F1, ours | S-F1, paper | perplexity, ours | perplexity, paper | runs | tokens |" in page
    cells = f"| {report['sentence_f1']:.1f} | 51.1 ± 4.1 | {report['perplexity']:,.2f} | 231.7 ± 8.1 | 1 of 1 |"
    assert cells in page
    assert f"| {found['right-branching']['sentence_f1']:.1f} | 39.5 | – | – | 1 | – |" in page
    rows = {row["row"]: row for row in csv.DictReader((tmp_path / "table.csv").open())}
    ours = rows["sn-pcfg-128"]
    assert (ours["metric"], float(ours["mean"]), ours["paper"]) == ("sentence_f1", report["sentence_f1"], "51.1 ± 4.1")
    assert (float(ours["perplexity"]), ours["perplexity_paper"]) == (report["perplexity"], "231.7 ± 8.1")
    assert (rows["right-branching"]["perplexity"], rows["prpn"]["paper"]) == ("", "37.4")
    assert list(ours) == list(CSV_COLUMNS)
    assert list(rows) == [row.name for row in paper_table("parsing").rows]
    assert all(row["source"] or not row["paper"] for row in rows.values())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["lm"], "missing option '--data'"),
        (["grammar", "--data", "{data}"], "grammar"),
        (["speed"], "run python benchmarks/inside.py --paper DIR"),
        (["lm", "--data", "nowhere"], "nowhere: no such folder"),
        (["lm", "--data", "{empty}"], "train.txt: no such file"),
        (["multilingual", "--data", "{empty}"], "no folder of a language"),
        (["lm", "--data", "{data}", "--rows", "sn-pcfg-4069"], "did you mean sn-pcfg-4096?"),
        (["lm", "--data", "{data}", "--rows", ","], "--rows is empty"),
        (["lm", "--data", "{data}", "--seeds", "0"], "--seeds"),
        (["lm", "--data", "{data}", "--rows", "sn-pcfg-4096", "--set", "model.nonterminal=3"], "model.nonterminals"),
        (["lm", "--data", "{data}", "--rows", "sn-pcfg-4096", "--set", "epochs"], "key=value"),
        (["lm", "--data", "{data}", "--set", "seed=7"], "setting seed=7: seed is 1 to N for N seeds; leave it out"),
        (["lm", "--data", "{data}", "--set", "name=x"], "name is the row's; leave it out"),
        (["lm", "--data", "{data}", "--set", "data.train=a.txt"], "data.train is train in the data folder"),
        (["lm", "--data", "{data}", "--set", 'data={{valid="b"}}'], "data.valid is valid in the data folder"),
        (["lm", "--data", "{data}", "--set", "model.nonterminals=8"], "row hmm-4096"),
        (["lm", "--data", "{data}", "--out", "{data}"], "holds other files"),
        (["lm", "--data", "{data}", "--out", "{data}/train.txt"], "is a file"),
    ],
)
def test_refusals_are_one_line(
    call: Call,
    data: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    result = call("reproduce", *(text.format(data=data, empty=tmp_path / "empty") for text in arguments))
    assert (result.code, result.out) == (2, "")
    assert message in result.err
    assert result.err.count("\n") == 1
    assert not (tmp_path / "reproduction").exists()


def test_another_table_or_setting_needs_another_folder(call: Call, data: Path, tmp_path: Path) -> None:
    asked = ["--data", data, "--out", tmp_path, "--rows", "oracle"]
    assert call("reproduce", "parsing", *asked).code == 0
    changed = call("reproduce", "parsing", *asked, "--set", "training.epochs=1")
    assert changed.code == 2
    assert "was begun with settings none, not training.epochs=1" in changed.err
    assert "was begun with table parsing, not lm" in call("reproduce", "lm", *asked[:4]).err
    begun = tmp_path / "reproduction.toml"
    begun.write_text(begun.read_text().replace(f'"{__version__}"', '"0.0"'))
    assert f"was begun with simplepcfg 0.0, not {__version__}" in call("reproduce", "parsing", *asked).err


def test_results_on_another_test_file_are_not_averaged(call: Call, tmp_path: Path) -> None:
    data = write_text(tmp_path / "data")
    asked = ["reproduce", "parsing", "--data", data, "--out", tmp_path / "out", "--rows"]
    assert call(*asked, "oracle").code == 0
    whole = (data / "test.trees").read_text()
    (data / "test.trees").write_text(whole + whole)
    before = (tmp_path / "out" / "table.md").read_text()
    for rows in ("random", "oracle"):
        result = call(*asked, rows)
        assert (result.code, result.out) == (2, "")
        assert "was begun with another test file; give the same, or another folder" in result.err
        assert result.err.count("\n") == 1
    assert (tmp_path / "out" / "table.md").read_text() == before
    (data / "test.trees").write_text(whole)
    assert call(*asked, "oracle").code == 0


def test_impossible_sentences_make_perplexity_infinite_and_nothing_else() -> None:
    def cells(table: str, *reports: dict[str, Any]) -> Sequence[str]:
        row = paper_table(table).rows[0]
        records = {(row.name, "", seed): {"report": report} for seed, report in enumerate(reports, start=1)}
        return result_table(paper_table(table), [""], records, {}, len(reports), [row]).cells[0]

    def report(perplexity: float | None, impossible: int) -> dict[str, Any]:
        counts = {"perplexity_tokens": 50, "sentences": 9, "impossible_sentences": impossible}
        return {"perplexity": perplexity, "sentence_f1": 60.0, **counts}

    good, better, bad = report(120.0, 0), report(110.0, 0), report(None, 3)
    on_trees = cells("parsing", good, bad)
    assert (on_trees[3], on_trees[5], on_trees[7]) == ("60.0 ± 0.0", "120.00", "2")
    assert "not in the mean perplexity: 1 of 2 runs, whose perplexity is infinite" in on_trees[-1]
    mixed = cells("lm", good, bad, better)
    assert mixed[3] == cells("lm", good, better)[3] == "115.00 ± 7.07"
    assert mixed[5] == "2 of 3"
    assert "not in the mean: 1 of 3 runs, whose perplexity is infinite" in mixed[-1]
    assert cells("lm", bad, bad)[3] == "inf"
    assert cells("lm", good)[-1] == cells("lm", better)[-1]


def test_a_bound_on_the_likelihood_is_named() -> None:
    table = paper_table("parsing")
    (row,) = table.choose(["sc-pcfg-2048"])
    report = {"sentence_f1": 60.0, "perplexity": 150.0, "impossible_sentences": 0, "sentences": 9}
    record = {"report": report | {"perplexity_tokens": 50, "likelihood": POSTERIOR_MEAN}}
    lines = {cells[1]: cells for cells in result_table(table, [""], {(row.name, "", 1): record}, {}, 4, [row]).cells}
    assert f"our perplexity is by the {POSTERIOR_MEAN}" in lines["sc-pcfg-2048"][-1]
    assert lines["sc-pcfg-2048"][3:9] == ["60.0", "60.6 ± 3.6", "150.00", "–", "1 of 4", "50"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"report": ...}, "'report'"),
        ({"report": None}, "not subscriptable"),
        ({"report": {}}, "'sentence_f1'"),
        ({"report": {"sentence_f1": "high"}}, ""),
        ({"seed": [1]}, "int()"),
        ({"seed": "one"}, "'one'"),
    ],
)
def test_damaged_results_are_named(
    call: Call, data: Path, tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    asked = ["reproduce", "parsing", "--data", data, "--out", tmp_path, "--rows", "oracle"]
    assert call(*asked).code == 0
    (record,) = results(tmp_path)
    changed = {key: value for key, value in {**record, **change}.items() if value is not ...}
    (tmp_path / "results.jsonl").write_text(f"{json.dumps(changed)}\n")
    result = call(*asked)
    assert (result.code, result.out) == (2, "")
    assert f"{tmp_path / 'results.jsonl'}:1: not a result (" in result.err
    assert message in result.err
    assert result.err.endswith("; remove the line\n")
    assert result.err.count("\n") == 1
