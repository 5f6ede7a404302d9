"""`simplepcfg train --seeds`: folders, lines, refusals, and what comes after."""

import json
from pathlib import Path

import pytest

from command_calls import Call
from tiny_runs import SETTINGS

SET = [argument for setting in SETTINGS for argument in ("--set", setting)]


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_seeds_are_trained_resumed_and_evaluated(call: Call, text_file: Path, trees_file: Path) -> None:
    options = ["--train", text_file, "--valid", text_file, "--out", "runs/two", *SET]
    result = call("train", "sn-pcfg-small", "--seeds", 2, "--seed", 3, *options)
    assert (result.code, result.out) == (0, "")
    for said in ("seed-3, run 1 of 2", "seed-4: best epoch 1 of 1", "evaluate runs/two FILE --ensemble"):
        assert said in result.err
    single = call("train", "sn-pcfg-small", "--seeds", 1, *options[:4], "--out", "runs/one", *SET)
    assert single.err.endswith("next: simplepcfg evaluate runs/one FILE\n")  # one run is no ensemble
    again = call("train", "--resume", "runs/two")
    assert again.code == 0
    assert again.err.count("nothing left to do") == 2
    taken = call("train", "sn-pcfg-small", "--seeds", 2, *options)
    assert (taken.code, "train --resume runs/two" in taken.err) == (2, True)
    group, together = json.loads(call("evaluate", "runs/two", trees_file, "--ensemble", "--json", "-").out)
    assert group["runs"] == 2
    assert together["name"] == "geometric mean of 2 runs"


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["sn-pcfg-small", "--seeds", 0], "0 seeds"),
        (["sn-pcfg-small", "--jobs", 2], "--jobs 2"),
        (["sn-pcfg-small", "--seeds", 2, "--jobs", 0], "jobs = 0"),
        (["--resume", "runs/none", "--seeds", 2], "leave out"),
    ],
)
def test_refusals(call: Call, text_file: Path, arguments: list[object], named: str) -> None:
    text = [] if "--resume" in arguments else ["--train", text_file, "--valid", text_file, "--out", "x"]
    result = call("train", *arguments, *text, *SET)
    assert result.code == 2
    assert named in result.err
    assert not Path("x/seeds.toml").exists()


def test_several_runs_together(call: Call, text_file: Path, trees_file: Path) -> None:
    options = ["--train", text_file, "--valid", text_file, "--out", "pair", *SET]
    call("train", "sn-pcfg-small", "--seeds", 2, "--quiet", *options)
    assert "pair is a folder of 2 runs; name one, such as pair/seed-0" in call("show", "pair").err
    from_folder = call("parse", "pair", trees_file)
    assert from_folder.code == 0
    assert from_folder.out == call("parse", "pair/seed-0", trees_file, "--with", "pair/seed-1").out
    result = call("evaluate", "pair", trees_file, "--ensemble", "--json", "-")
    together = json.loads(result.out)[1]
    assert together["name"] == "geometric mean of 2 runs"
    Path("parsed.trees").write_text(from_folder.out)
    (printed,) = json.loads(call("evaluate", trees_file, "--predictions", "parsed.trees", "--json", "-").out)
    assert printed["sentence_f1"] == pytest.approx(together["sentence_f1"])
    for arguments, named in [
        (["parse", "pair", trees_file, "--decode", "viterbi"], "combines span marginals"),
    ]:
        refused = call(*arguments)
        assert (refused.code, named in refused.err) == (2, True)


def test_a_teacher_is_named_on_the_command_line(call: Call, text_file: Path, tiny_run: Path) -> None:
    options = ["--train", text_file, "--valid", text_file, "--out", "student", *SET, "--set", "data.max_length=8"]
    result = call("train", "sn-pcfg-small", "--teacher", tiny_run, *options)
    assert result.code == 0
    short = sum(len(line.split()) <= 8 for line in text_file.read_text().splitlines())
    assert 0 < short < 25
    assert f"span marginals of {short} sentences by 1 teacher" in result.err
    assert Path("student/teacher.safetensors").exists()
    again = call("train", "--resume", "student")
    assert (again.code, "span marginals of" in again.err) == (0, False)
    refused = call("train", "sn-pcfg-small", "--teacher", "nowhere", *options[:4], "--out", "x", *SET)
    assert refused.code == 2
    assert "nowhere" in refused.err
    assert len(refused.err.splitlines()) == 1
