"""`simplepcfg reproduce` on a tiny text: rows, seeds, interruption, resumption, and what it leaves behind."""

import csv
import json
import os
import signal
import tomllib
from pathlib import Path
from typing import Any

import pytest
import tomli_w

from command_calls import Call
from simplepcfg import load
from simplepcfg.data.synthetic import generate_treebank
from simplepcfg.errors import ResourceError
from simplepcfg.evaluation.report import POSTERIOR_MEAN
from simplepcfg.reproduction import runner
from simplepcfg.reproduction.lines import Line, table_lines
from simplepcfg.reproduction.rendering import CSV_COLUMNS
from simplepcfg.reproduction.tables import paper_table
from simplepcfg.training.reporting.progress import Reporter, StepReport

SMALL = [
    *("--set", "model.nonterminals=16", "--set", "model.preterminals=16", "--set", "model.embedding=8"),
    *("--set", "training.epochs=2", "--set", "training.threads=1", "--set", "training.checkpoint_steps=2"),
    *("--device", "cpu"),
]


def write_text(folder: Path) -> Path:
    """Three splits of the built-in treebank, as text and as trees."""
    folder.mkdir(parents=True, exist_ok=True)
    for seed, (name, count) in enumerate((("train", 48), ("valid", 12), ("test", 12))):
        trees = generate_treebank(count, seed)
        (folder / f"{name}.txt").write_text("".join(" ".join(tree.words) + "\n" for tree in trees))
        (folder / f"{name}.trees").write_text("".join(f"(TOP {tree.to_brackets()})\n" for tree in trees))
    return folder


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_text(tmp_path_factory.mktemp("data") / "text")


def no_training(*arguments: Any, **options: Any) -> None:
    raise AssertionError("trained again")


def results(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (out / "results.jsonl").read_text().splitlines()]


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
    monkeypatch.setattr("simplepcfg.reproduction.tables.builtin_configs", list)
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
    assert "| – | 56.7 ± 3.7 | – | 181.1 ± 15.3 | 0 of 4 | – | Liu et al. 2023, table 4; the configuration" in line
    (line,) = [line for line in page.splitlines() if "| tn-pcfg-250 |" in line]
    assert "| – | – | – | – | 0 of 4 | – | the released size; the paper has it in table 3" in line


def test_anyones_trees_in_the_same_table(call: Call, data: Path, tmp_path: Path) -> None:
    """A quoted system's trees fill its row; a name of its own is another row, and both stay when nothing is given."""
    out, theirs = tmp_path / "out", tmp_path / "theirs.trees"
    theirs.write_text((data / "test.trees").read_text())
    asked = ["reproduce", "parsing", "--data", data, "--out", out, "--rows", "left-branching"]
    first = call(*asked, "--predictions", f"s-diora={theirs}", "--predictions", theirs)
    assert first.code == 0, first.err
    (scores,) = json.loads(call("evaluate", "--predictions", theirs, data / "test.trees", "--json", "-").out)
    found = {record["row"]: record for record in results(out)}
    assert list(found) == ["s-diora", "theirs", "left-branching"]
    for name in ("s-diora", "theirs"):
        assert found[name]["report"]["sentence_f1"] == scores["sentence_f1"] == 100.0
    page = (out / "table.md").read_text()
    quoted = (
        "| S-DIORA | s-diora | – | 100.0 | 57.6 | – | – | 1 | – | quoted in Liu et al. 2023, table 4; scored here: /"
    )
    assert quoted in page
    assert page.count("scored here: ") == 2
    assert "| theirs | theirs | – | 100.0 | – | – | – | 1 | – | scored here: /" in page
    again = call(*asked)
    assert (again.code, again.out) == (0, first.out)

    theirs.write_text("".join((data / "test.trees").read_text().splitlines(keepends=True)[::-1]))
    refused = call(*asked, "--predictions", f"s-diora={theirs}")
    assert refused.code == 2
    assert "not the trees that" in refused.err
    assert len(results(out)) == 3


def test_anyones_trees_of_several_languages(call: Call, tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    for language in ("french", "german"):
        write_text(tmp_path / "data" / language)
        (theirs / f"{language}.trees").write_text((tmp_path / "data" / language / "test.trees").read_text())
    asked = ["reproduce", "multilingual", "--data", tmp_path / "data", "--rows", "left-branching"]
    result = call(*asked, "--out", tmp_path / "out", "--predictions", f"X={theirs}")
    assert result.code == 0, result.err
    assert [record["language"] for record in results(tmp_path / "out") if record["row"] == "X"] == ["french", "german"]
    (theirs / "german.trees").unlink()
    refused = call(*asked, "--out", tmp_path / "other", "--predictions", f"X={theirs}")
    assert (refused.code, refused.err.count("\n")) == (2, 1)
    assert "german.trees: no such file" in refused.err


@pytest.mark.parametrize(
    ("table", "given", "said"),
    [
        ("lm", "x=FILE", "the table lm scores no trees"),
        ("parsing", "x=missing.trees", "no such file"),
        ("parsing", "=FILE", "no name"),
        ("parsing", "sn-pcfg-4096=FILE", "is computed here"),
        ("parsing", "oracle=FILE", "is computed here"),
        ("parsing", "x=SHORT", "1 trees for 12 gold trees"),
    ],
)
def test_trees_that_cannot_be_a_row(call: Call, data: Path, tmp_path: Path, table: str, given: str, said: str) -> None:
    short = tmp_path / "short.trees"
    short.write_text("(S (A a) (B b))\n")
    given = given.replace("FILE", str(data / "test.trees")).replace("SHORT", str(short))
    row = "sn-pcfg-4096" if table == "lm" else "left-branching"
    asked = ["reproduce", table, "--data", data, "--out", tmp_path / "out", "--rows", row]
    refused = call(*asked, "--predictions", given)
    assert (refused.code, refused.err.count("\n")) == (2, 1)
    assert said in refused.err
    assert not (tmp_path / "out" / "results.jsonl").exists()


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


def test_a_failing_row_does_not_stop_the_others(
    call: Call, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*arguments: Any, **options: Any) -> None:
        raise ResourceError("not enough memory")

    monkeypatch.setattr(runner, "train", fails)
    asked = ["reproduce", "parsing", "--data", data, "--out", tmp_path / "out", "--seeds", 1]
    result = call(*asked, "--rows", "sn-pcfg-4096,oracle", *SMALL)
    assert result.code == 4
    assert "sn-pcfg-4096 seed 1: not enough memory" in result.err
    assert [record["row"] for record in results(tmp_path / "out")] == ["oracle"]
    assert "failed: not enough memory" in (tmp_path / "out" / "table.md").read_text()


def test_a_result_cut_short_by_a_crash_is_done_again(call: Call, data: Path, tmp_path: Path) -> None:
    asked = ["reproduce", "parsing", "--data", data, "--out", tmp_path, "--rows", "oracle,random"]
    assert call(*asked).code == 0
    whole = (tmp_path / "results.jsonl").read_text()
    (tmp_path / "results.jsonl").write_text(whole[:-40])
    assert call(*asked).code == 0
    assert [record["row"] for record in results(tmp_path)] == ["random", "oracle"]


def test_speed(call: Call, tmp_path: Path) -> None:
    out = tmp_path / "out"
    asked = ["reproduce", "speed", "--out", out, "--rows", "2x4x4x8", "--device", "cpu"]
    first = call(*asked)
    assert first.code == 0
    assert "2x4x4x8" in first.out
    measured = (out / "results.jsonl").read_text()
    (out / "table.csv").write_text("when,machine\nnow,here\n")  # as of a version that had other columns
    again = call(*asked)
    assert (again.code, again.out) == (0, first.out)
    assert (out / "results.jsonl").read_text() == measured
    page = (out / "table.md").read_text()
    assert "| 2x4x4x8 | ours | torch | fp32 | eager |" in page
    published = "| 16x40x8192x16384 | FlashInside | paper\\_recompute | fp32 | eager | – | – | – | 39 | – | 1 | – |"
    assert published in page
    rows = list(csv.DictReader((out / "table.csv").open()))
    assert [row["backend"] for row in rows[:3]] == ["log_sum_exp", "log_einsum_exp", "torch"]
    assert float(rows[0]["speed_ratio"]) == 1.0  # no ratio of memory: so small a pass may not grow the process at all


@pytest.mark.parametrize("section", ["model", "training", "data", "model of a run that is gone"])
def test_results_of_another_configuration_are_refused(call: Call, data: Path, tmp_path: Path, section: str) -> None:
    """A row of the same name may have been trained otherwise in an earlier version: no mean is over both."""
    asked = ["reproduce", "parsing", "--data", data, "--out", tmp_path, *SMALL, "--rows"]
    assert call(*asked, "sn-pcfg-128", "--seeds", 1).code == 0
    run = tmp_path / "runs" / "sn-pcfg-128" / "seed-1"
    if section.endswith("gone"):
        run.rename(tmp_path / "moved")
        (record,) = results(tmp_path)
        record["model"].pop("embedding")
        (tmp_path / "results.jsonl").write_text(json.dumps(record) + "\n")
    else:
        values = tomllib.loads((run / "config.toml").read_text())
        key = {"model": "embedding", "training": "epochs", "data": "max_length"}[section]
        values[section][key] += 1
        (run / "config.toml").write_text(tomli_w.dumps(values))
    refused = call(*asked, "sn-pcfg-128", "--seeds", 2)
    assert (refused.code, refused.out, refused.err.count("\n")) == (2, "", 1)
    said = (
        f"sn-pcfg-128 seed 1 has another [{section.split()[0]}] than the row has in this version; give another folder"
    )
    assert said in refused.err
    # What is not averaged anew stays in the table.
    assert call(*asked, "oracle").code == 0
    assert "| SN-PCFG | sn-pcfg-128 | 128 |" in (tmp_path / "table.md").read_text()


def test_rows_of_an_earlier_version_stay_and_are_named(call: Call, data: Path, tmp_path: Path) -> None:
    asked = ["reproduce", "parsing", "--data", data, "--out", tmp_path, "--rows", "oracle"]
    assert call(*asked).code == 0
    (record,) = results(tmp_path)
    earlier = {**record, "row": "gone", "seed": 1, "config": "gone"}
    with (tmp_path / "results.jsonl").open("a") as stream:
        stream.write(json.dumps(earlier) + "\n")
    assert call(*asked).code == 0
    (line,) = [line for line in (tmp_path / "table.md").read_text().splitlines() if line.startswith("| gone |")]
    assert "this version's table has no such row" in line


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
        (["lm"], "give --data DIR"),
        (["grammar", "--data", "{data}"], "grammar"),
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
        (["speed", "--data", "{data}"], "leave out --data"),
        (["speed", "--seeds", "3"], "leave out --data, --set, --seeds and --predictions"),
        (["speed", "--rows", "sn-pcfg"], "16,20,512,1024"),
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
    assert "was begun with table parsing, not speed" in call("reproduce", "speed", "--out", tmp_path).err


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
        assert f"{data / 'test.trees'}: not the test file that" in result.err
        assert "(such as oracle); restore the file, or give another folder" in result.err
        assert result.err.count("\n") == 1
    assert (tmp_path / "out" / "table.md").read_text() == before
    (data / "test.trees").write_text(whole)
    assert call(*asked, "oracle").code == 0


def test_impossible_sentences_make_perplexity_infinite_and_nothing_else() -> None:
    def line(table: str, *reports: dict[str, Any]) -> Line:
        row = paper_table(table).rows[0]
        found = {(row.name, "", seed): {"report": report} for seed, report in enumerate(reports, start=1)}
        return table_lines(paper_table(table), [""], found, {}, len(reports), [row])[0]

    def report(perplexity: float | None, impossible: int) -> dict[str, Any]:
        counts = {"perplexity_tokens": 50, "sentences": 9, "impossible_sentences": impossible}
        return {"perplexity": perplexity, "sentence_f1": 60.0, **counts}

    good, better, bad = report(120.0, 0), report(110.0, 0), report(None, 3)
    on_trees = line("parsing", good, bad)
    assert on_trees.main.ours_text == "60.0 ± 0.0"
    assert (on_trees.runs, on_trees.perplexity.ours_text) == (2, "120.00")
    assert "not in the mean perplexity: 1 of 2 runs, whose perplexity is infinite" in on_trees.note
    mixed = line("lm", good, bad, better)
    assert mixed.main.ours_text == line("lm", good, better).main.ours_text == "115.00 ± 7.07"
    assert mixed.cells[5] == "2 of 3"
    assert "not in the mean: 1 of 3 runs, whose perplexity is infinite" in mixed.note
    assert line("lm", bad, bad).main.ours_text == "inf"
    assert line("lm", good).note == line("lm", better).note


def test_a_bound_on_the_likelihood_is_named() -> None:
    table = paper_table("parsing")
    (row,) = table.choose(["sc-pcfg-2048"])
    report = {"sentence_f1": 60.0, "perplexity": 150.0, "impossible_sentences": 0, "sentences": 9}
    record = {"report": report | {"perplexity_tokens": 50, "likelihood": POSTERIOR_MEAN}}
    lines = {line.row.name: line for line in table_lines(table, [""], {(row.name, "", 1): record}, {}, 4, [row])}
    assert f"our perplexity is by the {POSTERIOR_MEAN}" in lines["sc-pcfg-2048"].cells[-1]
    assert lines["sc-pcfg-2048"].cells[3:9] == ["60.0", "60.6 ± 3.6", "150.00", "–", "1 of 4", "50"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"report": ...}, "no report"),
        ({"report": None}, "report = null"),
        ({"report": {}}, "in its report"),
        ({"report": {"sentence_f1": "high"}}, 'sentence_f1 = "high"'),
        ({"seed": [1]}, "seed = [1]"),
        ({"seed": "one"}, 'seed = "one"'),
        ({"row": None}, "row = null"),
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
    assert f"{message}); remove the line" in result.err
    assert result.err.count("\n") == 1


def test_an_emptied_description_is_damaged(call: Call, data: Path, tmp_path: Path) -> None:
    asked = ["reproduce", "parsing", "--data", data, "--out", tmp_path, "--rows", "oracle"]
    assert call(*asked).code == 0
    (tmp_path / "reproduction.toml").write_text("")
    result = call(*asked)
    assert (result.code, result.err.count("\n")) == (2, 1)
    assert f"{tmp_path / 'reproduction.toml'}: damaged (it names no table or no settings)" in result.err
