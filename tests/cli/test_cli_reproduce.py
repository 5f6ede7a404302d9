"""`simplepcfg reproduce` on a tiny text: rows, seeds, interruption, resumption, and what it leaves behind."""

import csv
import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from command_calls import Call
from reproduce_cases import SMALL, no_training, results, write_text
from simplepcfg import load
from simplepcfg.errors import InputError, NumericalError, ResourceError, SimplePCFGError
from simplepcfg.plans import runner
from simplepcfg.training.reporting.progress import Reporter, StepReport


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_text(tmp_path_factory.mktemp("data") / "text")


def test_a_row_beside_the_papers_figure(
    call: Call, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    asked = ["reproduce", "lm", "--data", data, "--out", out, "--rows", "sn-pcfg-4096", *SMALL, "--seeds"]
    first = call(*asked, 1)
    assert first.code == 0, first.err
    (record,) = results(out)
    assert (record["row"], record["seed"], record["model"]["nonterminals"]) == ("sn-pcfg-4096", 1, 16)
    report = record["report"]
    assert report["perplexity_tokens"] == report["tokens"] + 12  # one <eos> a sentence
    page = (out / "table.md").read_text()
    assert f"| {report['perplexity']:,.2f} | 125.4 ± 4.1 | 1 of 1 | {report['perplexity_tokens']:,} |" in page
    assert "`model.nonterminals=16`" in page
    rows = {row["row"]: row for row in csv.DictReader((out / "table.csv").open())}
    assert float(rows["sn-pcfg-4096"]["mean"]) == report["perplexity"]
    assert rows["rank-hmm-32768"]["paper"] == "126.4"
    assert "125.4 ± 4.1" in first.out
    assert "trained with other settings than the paper's" in first.out

    with monkeypatch.context() as patch:
        patch.setattr(runner, "train", no_training)
        patch.setattr(runner, "load", no_training)
        again = call(*asked, 1)
    assert (again.code, again.out) == (0, first.out)
    assert results(out) == [record]

    assert call(*asked, 2).code == 0
    assert [item["seed"] for item in results(out)] == [1, 2]
    assert results(out)[0] == record
    assert "2 of 2" in (out / "table.md").read_text()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_interrupted_and_resumed(
    call: Call, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    class Stopping(Reporter):
        def step(self, report: StepReport) -> None:
            if report.step == 4:
                os.kill(os.getpid(), number)

    asked = ["reproduce", "parsing", "--data", data, "--rows", "sn-pcfg-4096", "--seeds", 1, *SMALL, "--out"]
    with monkeypatch.context() as patch:
        patch.setattr("simplepcfg.training.reporting.reporters.make_reporter", lambda quiet: Stopping())
        stopped = call(*asked, tmp_path / "stopped")
    assert stopped.code == 128 + number
    assert f"stopped by {number.name} in sn-pcfg-4096 seed 1; the same command goes on" in stopped.err
    assert not (tmp_path / "stopped" / "results.jsonl").exists()
    assert "not finished" in (tmp_path / "stopped" / "table.md").read_text()
    resumed = call(*asked, tmp_path / "stopped")
    assert resumed.code == 0
    assert "going on with" in resumed.err
    assert "resumed in epoch" in resumed.err
    assert call(*asked, tmp_path / "whole").code == 0
    (one,), (other,) = results(tmp_path / "stopped"), results(tmp_path / "whole")
    assert one["report"] == other["report"]


def test_all_rows_of_parsing_without_training(
    call: Call, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("simplepcfg.plans.tables.builtin_configs", list)
    result = call("reproduce", "parsing", "--data", data, "--out", tmp_path / "out")
    assert result.code == 0
    assert "n-pcfg: the configuration n-pcfg is not installed; the row is left out\n" in result.err
    assert "the configuration n-pcfg is not installed" in result.out
    found = {record["row"]: record["report"] for record in results(tmp_path / "out")}
    assert set(found) == {"left-branching", "right-branching", "random", "oracle"}
    scores = json.loads(call("evaluate", *found, data / "test.trees", "--json", "-").out)
    assert {score["name"]: score["sentence_f1"] for score in scores} == {k: v["sentence_f1"] for k, v in found.items()}
    page = (tmp_path / "out" / "table.md").read_text()
    for quoted, figure in (("PRPN", "37.4"), ("S-DIORA", "57.6"), ("Fast-R2D2", "57.2")):
        (line,) = [line for line in page.splitlines() if line.startswith(f"| {quoted} |")]
        assert line.endswith(f"| – | – | {figure} | – | – | – | – | quoted in Liu et al. 2023, table 4 |")
    assert "not quoted here" not in page
    (line,) = [line for line in page.splitlines() if "| n-pcfg-128 |" in line]
    assert "| – | 56.7 ± 3.7 | – | 181.1 ± 15.3 | 0 of 4 | – | Liu et al. 2023, table 4; no settings were" in line
    assert "; the configuration n-pcfg-128 is not installed |" in line
    assert not [line for line in page.splitlines() if line.endswith("|  |")]
    (line,) = [line for line in page.splitlines() if "| tn-pcfg-250 |" in line]
    assert "| – | – | – | – | 0 of 4 | – | the released size; the paper has it in table 3" in line


def test_prepared_text_is_not_prepared_again(call: Call, tmp_path: Path) -> None:
    source = write_text(tmp_path / "source")
    for file in source.glob("*.txt"):
        file.unlink()
    assert call("prepare", "brackets", source, "--out", tmp_path / "data", "--vocabulary", 50).code == 0
    asked = ["reproduce", "lm", "--data", tmp_path / "data", "--rows", "sn-pcfg-4096", "--seeds", 1, *SMALL]
    assert call(*asked, "--out", tmp_path / "out").code == 0
    config = load(tmp_path / "out" / "runs" / "sn-pcfg-4096" / "seed-1").config.data
    assert (config.punctuation, config.lowercase, config.numbers) == ("keep", False, "keep")
    assert (config.eos, config.vocabulary_size) == (True, 50)


def test_languages(call: Call, tmp_path: Path) -> None:
    for language in ("french", "german"):
        write_text(tmp_path / "data" / language)
    asked = ["reproduce", "multilingual", "--data", tmp_path / "data", "--out", tmp_path / "out", "--seeds", 1]
    assert call(*asked, "--rows", "sn-pcfg-4096", "--rows", "oracle", *SMALL).code == 0
    found = {(record["row"], record["language"]) for record in results(tmp_path / "out")}
    assert found == {(row, language) for row in ("sn-pcfg-4096", "oracle") for language in ("french", "german")}
    assert (tmp_path / "out" / "runs" / "sn-pcfg-4096" / "german" / "seed-1" / "config.toml").is_file()
    page = (tmp_path / "out" / "table.md").read_text()
    (line,) = [line for line in page.splitlines() if line.startswith("| german: SN-PCFG | sn-pcfg-4096 |")]
    assert "| 46.7 ± 4.9 |" in line
    assert "| 157.8 ± 65.6 | 1 of 1 |" in line


@pytest.mark.parametrize("failure", [NumericalError("no finite gradient"), ResourceError("not enough memory")])
def test_a_failing_row_does_not_stop_the_others(
    call: Call, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: SimplePCFGError
) -> None:
    def fails(*arguments: Any, **options: Any) -> None:
        raise failure

    monkeypatch.setattr(runner, "train", fails)
    asked = ["reproduce", "parsing", "--data", data, "--out", tmp_path / "out", "--seeds", 1]
    result = call(*asked, "--rows", "sn-pcfg-4096,oracle", *SMALL)
    assert result.code == failure.exit_code
    assert f"sn-pcfg-4096 seed 1: {failure}" in result.err
    assert [record["row"] for record in results(tmp_path / "out")] == ["oracle"]
    assert f"failed: {failure}" in (tmp_path / "out" / "table.md").read_text()


def test_any_other_error_ends_everything(
    call: Call, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained: list[Any] = []

    def fails(*arguments: Any, **options: Any) -> None:
        trained.append(arguments)
        raise InputError("a mistake; correct it")

    monkeypatch.setattr(runner, "train", fails)
    asked = ["reproduce", "parsing", "--data", data, "--out", tmp_path / "out", "--seeds", 2]
    result = call(*asked, "--rows", "sn-pcfg-4096", *SMALL)
    assert (result.code, result.err.count("a mistake; correct it"), len(trained)) == (2, 1, 1)
    assert not (tmp_path / "out" / "results.jsonl").exists()


def test_a_result_cut_short_by_a_crash_is_done_again(call: Call, data: Path, tmp_path: Path) -> None:
    asked = ["reproduce", "parsing", "--data", data, "--out", tmp_path, "--rows", "oracle,random"]
    assert call(*asked).code == 0
    whole = (tmp_path / "results.jsonl").read_text()
    (tmp_path / "results.jsonl").write_text(whole[:-40])
    assert call(*asked).code == 0
    assert [record["row"] for record in results(tmp_path)] == ["random", "oracle"]
