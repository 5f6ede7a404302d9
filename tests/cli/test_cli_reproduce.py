"""`simplepcfg reproduce` on a tiny text: rows, seeds, interruption, resumption, and what it leaves behind."""

import csv
import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from command_calls import Call
from simplepcfg import load
from simplepcfg.data.synthetic import generate_treebank
from simplepcfg.errors import ResourceError
from simplepcfg.reproduction import runner
from simplepcfg.reproduction.rendering import Line, table_lines
from simplepcfg.reproduction.tables import TABLES, paper_table
from simplepcfg.training.progress import Reporter, StepReport

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
    assert f"| {report['perplexity']:,.2f} | 1 of 1 | {report['perplexity_tokens']:,} | 125.4 ± 4.1 |" in page
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
        patch.setattr("simplepcfg.training.progress.make_reporter", lambda quiet: Stopping())
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
    for quoted in ("PRPN", "S-DIORA", "Fast-R2D2", "Li and Lu 2023"):
        (line,) = [line for line in page.splitlines() if line.startswith(f"| {quoted} |")]
        assert "quoted" in line
        assert "not quoted here" in line


def test_anyones_trees_in_the_same_table(call: Call, data: Path, tmp_path: Path) -> None:
    """A quoted system's trees fill its row; a name of its own is another row, and both stay when nothing is given."""
    out, theirs = tmp_path / "out", tmp_path / "theirs.trees"
    theirs.write_text((data / "test.trees").read_text())
    asked = ["reproduce", "parsing", "--data", data, "--out", out, "--rows", "left-branching"]
    first = call(*asked, "--predictions", f"diora={theirs}", "--predictions", theirs)
    assert first.code == 0, first.err
    scores = json.loads(call("evaluate", "--predictions", theirs, data / "test.trees", "--json", "-").out)
    found = {record["row"]: record for record in results(out)}
    assert list(found) == ["diora", "theirs", "left-branching"]
    for name in ("diora", "theirs"):
        assert found[name]["report"]["sentence_f1"] == scores["sentence_f1"] == 100.0
    page = (out / "table.md").read_text()
    assert "| DIORA | diora | – | 100.0 | 1 | – | not quoted here | quoted; its figure has a place in" in page
    assert page.count("scored here: ") == 2
    assert "| theirs | theirs | – | 100.0 | 1 | – | not quoted here | scored here: /" in page
    assert "| PRPN | prpn | – | – | – |" in page
    again = call(*asked)
    assert (again.code, again.out) == (0, first.out)

    theirs.write_text("".join((data / "test.trees").read_text().splitlines(keepends=True)[::-1]))
    refused = call(*asked, "--predictions", f"diora={theirs}")
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
    assert "| german: SN-PCFG |" in (tmp_path / "out" / "table.md").read_text()


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
    asked = ["reproduce", "speed", "--out", tmp_path / "out", "--rows", "2x4x4x8", "--device", "cpu"]
    first = call(*asked)
    assert first.code == 0
    assert "2x4x4x8" in first.out
    measured = (tmp_path / "out" / "results.jsonl").read_text()
    again = call(*asked)
    assert again.out == first.out
    assert (tmp_path / "out" / "results.jsonl").read_text() == measured
    assert "| 2x4x4x8 | torch | fp32 | eager |" in (tmp_path / "out" / "table.md").read_text()


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
        (["lm", "--data", "{data}", "--set", "seed=7"], "--set seed=7: seed is 1 to N by --seeds N; leave it out"),
        (["lm", "--data", "{data}", "--set", "name=x"], "name is the row's; leave it out"),
        (["lm", "--data", "{data}", "--set", "data.train=a.txt"], "data.train is train in the folder of --data"),
        (["lm", "--data", "{data}", "--set", 'data={{valid="b"}}'], "data.valid is valid in the folder of --data"),
        (["lm", "--data", "{data}", "--set", "model.nonterminals=8"], "row hmm-4096: "),
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
    assert "was begun with settings no --set, not --set training.epochs=1" in changed.err
    assert "was begun with table parsing, not speed" in call("reproduce", "speed", "--out", tmp_path).err


@pytest.mark.parametrize("name", TABLES)
def test_every_figure_has_a_source(name: str) -> None:
    for row in paper_table(name).rows:
        assert sum([bool(row.configs), row.baseline is not None, row.quoted]) == 1
        if any(row.figures.values()):
            assert row.source


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
        assert "(such as oracle); restore the file, or give another --out" in result.err
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
    assert line("parsing", good, bad).ours_text == "60.0 ± 0.0"
    assert "infinite" not in line("parsing", good, bad).note
    mixed = line("lm", good, bad, better)
    assert mixed.ours_text == line("lm", good, better).ours_text == "115.00 ± 7.07"
    assert mixed.cells[4] == "2 of 3"
    assert "not in the mean: 1 of 3 runs, whose perplexity is infinite" in mixed.note
    assert line("lm", bad, bad).ours_text == "inf"
    assert line("lm", good).note == line("lm", better).note


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
