"""`simplepcfg distil`: folders, the table, the same command again, and refusals."""

import json
from pathlib import Path

import pytest
import torch

from command_calls import Call
from simplepcfg import load
from simplepcfg.cli.distil import MEMBERS, STUDENT, Member
from simplepcfg.errors import InputError
from simplepcfg.runs.config.schema import RunConfig
from simplepcfg.runs.device import usable_cores
from tiny_runs import SETTINGS

SET = [argument for setting in SETTINGS for argument in ("--set", setting)]


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    # Grammars of a few steps hardly agree.
    monkeypatch.setattr("simplepcfg.training.teacher_choice.LEAST_AGREEMENT", 0.0)
    monkeypatch.setattr("simplepcfg.training.teacher_choice.MARGIN", 2.0)


def test_members_student_and_table(call: Call, text_file: Path, trees_file: Path) -> None:
    text = ["--train", text_file, "--valid", text_file]
    command = ["distil", "sn-pcfg-small", *text, "--seeds", 2, "--test", trees_file, "--out", "runs/d", *SET]
    result = call(*command)
    assert result.code == 0
    assert "the student is in runs/d/student" in result.err
    assert "geometric mean of 2 runs" in result.out
    systems = json.loads(Path("runs/d/scores.json").read_text())
    names = ["runs/d/members/sn-pcfg-small", "geometric mean of 2 runs", "runs/d/student", "right-branching"]
    assert [system["name"] for system in systems] == names
    assert all(name in Path("runs/d/table.md").read_text() for name in names)
    again = call(*command)
    assert again.code == 0
    assert again.err.count("nothing left to do") == 3
    assert json.loads(Path("runs/d/scores.json").read_text()) == systems
    other = call(*command, "--set", "model.nonterminals=5")
    assert (other.code, "was begun with other settings" in other.err) == (2, True)


def test_raw_text(call: Call) -> None:
    Path("novel.txt").write_text("The dog sees a cat. It doesn't sleep.\n\nMr. Fox sees a dog.\n" * 8)
    text = ["--train", "novel.txt", "--valid", "novel.txt", "--raw"]
    result = call("distil", "sn-pcfg-small", *text, "--seeds", 1, "--keep", 1, "--out", "runs/d", *SET)
    assert result.code == 0, result.err
    assert load("runs/d/student").vocabulary.knows("mr.")
    assert load("runs/d/student").preprocessing.tokenize


def test_one_member_of_two_teaches(call: Call, text_file: Path, trees_file: Path) -> None:
    text = ["--train", text_file, "--valid", text_file]
    result = call(
        "distil", "sn-pcfg-small", *text, "--seeds", 2, "--keep", 1, "--test", trees_file, "--out", "runs/d", *SET
    )
    assert result.code == 0
    assert result.err.count("student of sn-pcfg-small/seed-") == 1
    names = [system["name"] for system in json.loads(Path("runs/d/scores.json").read_text())]
    assert names == ["runs/d/members/sn-pcfg-small", "runs/d/student", "right-branching"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["sn-pcfg-small", "sn-pcfg-small"], "two of sn-pcfg-small, sn-pcfg-small have the same name"),
        (["sn-pcfg-small", "--test", "none.trees"], "none.trees"),
        (["sn-pcfg-small", "--test", "TEXT"], "holds no bracketed trees; give a file of trees"),
        (["sn-pcfg-small", "hmm-4096"], "hmm-4096: a model of kind hmm has no trees; leave it out"),
        (["sn-pcfg-small", "sn-pcfg-small-lm"], "sn-pcfg-small-lm sees other tokens than sn-pcfg-small"),
        (["sn-pcfg-smal"], "sn-pcfg-small"),
        (["sn-pcfg-small", "--teacher", "englisch"], "did you mean english?"),
        (["sn-pcfg-small", "rank-pcfg-64,data.train=none.txt"], "none.txt"),
    ],
)
def test_refusals(call: Call, text_file: Path, arguments: list[str], said: str) -> None:
    given = [text_file if argument == "TEXT" else argument for argument in arguments]
    result = call("distil", *given, "--train", text_file, "--valid", text_file, "--out", "x")
    assert result.code == 2
    assert said in result.err
    assert not Path("x").exists()


@pytest.mark.parametrize("given", [None, "n-pcfg"])
@pytest.mark.parametrize("kind", MEMBERS)
def test_members_and_student_by_default(
    call: Call, text_file: Path, monkeypatch: pytest.MonkeyPatch, kind: str, given: str | None
) -> None:
    asked: dict[str, object] = {}

    def distil(configs: dict[str, RunConfig], out: Path, seeds: int, **settings: object) -> None:
        asked.update(configs=tuple(configs), seeds=seeds, **settings)
        raise InputError("that is all")

    monkeypatch.setattr("simplepcfg.runs.device.resolve_device", lambda name: torch.device(kind))
    monkeypatch.setattr("simplepcfg.training.distillation.distil", distil)
    student = [] if given is None else ["--student", given]
    result = call("distil", *student, "--train", text_file, "--valid", text_file, "--out", "x")
    assert "that is all" in result.err
    assert (asked["configs"], asked["seeds"]) == (tuple(Member.parse(text).name for text in MEMBERS[kind]), 3)
    assert asked["jobs"] == (usable_cores() if kind == "cpu" else 1)
    assert isinstance(asked["student"], RunConfig)
    assert asked["student"].name == (given or STUDENT[kind])


@pytest.mark.parametrize("option", ["--train", "--valid"])
def test_a_missing_text_begins_no_folder(call: Call, text_file: Path, option: str) -> None:
    result = call(
        "distil", "sn-pcfg-small", "--train", text_file, "--valid", text_file, option, "none.txt", "--out", "x"
    )
    assert (result.code, "none.txt" in result.err) == (2, True)
    assert not Path("x").exists()


def test_text_from_a_pipe_is_refused(call: Call, text_file: Path) -> None:
    result = call("distil", "sn-pcfg-small", "--train", "-", "--valid", text_file, "--out", "x")
    assert (result.code, "save it to a file" in result.err) == (2, True)


def test_members_with_seeds_and_keys_of_their_own(call: Call, text_file: Path, trees_file: Path) -> None:
    text = ["--train", text_file, "--valid", text_file, "--test", trees_file, "--out", "runs/d", *SET]
    members = ["sn-pcfg-small:2", "sn-pcfg-small,model.nonterminals=3", "rank-pcfg-64:1,model.rank=4"]
    student = ["--student", "sn-pcfg-small,model.nonterminals=4", "--seeds", 1, "--keep", 1]
    result = call("distil", *members, *student, "--generations", 2, "--teacher", "english", *text)
    assert result.code == 0, result.err
    assert len(list(Path("runs/d/members/sn-pcfg-small").glob("seed-*"))) == 2
    assert load("runs/d/members/sn-pcfg-small-3/seed-0").config.model.nonterminals == 3
    assert load("runs/d/members/rank-pcfg-64-4/seed-0").config.model.rank == 4
    taught = load("runs/d/student").config
    assert taught.model.nonterminals == 4
    assert Path(taught.training.teacher[-1]).name == "english"  # beside members, which have another preprocessing
    second = Path("runs/d/generation-2/rank-pcfg-64-4/seed-0")
    assert len(load(second).config.training.teacher) == 2
    names = [system["name"] for system in json.loads(Path("runs/d/scores.json").read_text())]
    assert "runs/d/generation-2/sn-pcfg-small" in names


@pytest.mark.parametrize(
    ("text", "expected", "name"),
    [
        ("sn-pcfg", Member("sn-pcfg", None, ()), "sn-pcfg"),
        ("a/b.toml:3", Member("a/b.toml", 3, ()), "b"),
        (
            "sn-pcfg:2,model.networks=released,training.epochs=4",
            Member("sn-pcfg", 2, ("model.networks=released", "training.epochs=4")),
            "sn-pcfg-released-4",
        ),
        ('sn-pcfg,data.train="a/b"', Member("sn-pcfg", None, ('data.train="a/b"',)), "sn-pcfg-_a_b_"),
    ],
)
def test_members_on_the_command_line(text: str, expected: Member, name: str) -> None:
    assert Member.parse(text) == expected
    assert expected.name == name


def test_every_kind_with_trees_teaches(call: Call, text_file: Path) -> None:
    small = "model.nonterminals=3,model.preterminals=4,model.embedding=4"
    members = [f"{kind},{small}" for kind in ("sc-pcfg", "c-pcfg", "n-pcfg", "tn-pcfg-biased")]
    members[0] += ",model.latent=2,model.encoder=4"
    members[1] += ",model.latent=2,model.encoder=4"
    members[3] += ",model.rank=4"
    members.append("sn-pcfg-small,data.vocabulary_size=9")
    text = [
        "--train",
        text_file,
        "--valid",
        text_file,
        "--set",
        "training.epochs=1",
        "--set",
        "training.precision=fp32",
    ]
    student = ["--student", f"sn-pcfg-small,{small}", "--seeds", 1, "--out", "runs/d"]
    result = call("distil", *members, *student, *text)
    assert result.code == 0, result.err
    assert len(load("runs/d/student").config.training.teacher) == 5
