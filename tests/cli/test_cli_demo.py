"""`simplepcfg demo`, with a treebank and a model small enough for a test."""

import shlex
from pathlib import Path

import pytest

from command_calls import Call
from simplepcfg.cli import demo
from simplepcfg.training.loop import Trainer

TINY = {
    "MODEL__NONTERMINALS": "4",
    "MODEL__PRETERMINALS": "8",
    "MODEL__EMBEDDING": "8",
    "TRAINING__EPOCHS": "2",
    "TRAINING__THREADS": "1",
}


@pytest.fixture(autouse=True)
def _tiny_demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, value in TINY.items():
        monkeypatch.setenv(f"SIMPLEPCFG_{name}", value)
    monkeypatch.setattr(demo, "SIZES", {demo.TRAIN: (100, 1), demo.VALID: (20, 2), demo.TEST: (60, 3)})


def test_results_and_the_commands_that_follow(call: Call, text_file: Path) -> None:
    result = call("demo")
    assert result.code == 0
    for shown in ("true grammar", "unigram", "uniform", "left-branching", "right-branching", "random", "oracle"):
        assert shown in result.out
    assert result.out.count("induced  ") == 3
    commands = [shlex.split(line) for line in result.lines if line.startswith("  ") and "simplepcfg" in line]
    assert len(commands) == 4
    for command in commands:
        echoed, words = "", command
        if command[0] == "echo":
            echoed, words = command[1], command[3:]
        arguments = [str(text_file) if word == "YOUR.txt" else word for word in words[1:]]
        assert call(*arguments, stdin=echoed).code == 0, command


def test_a_finished_demo_is_shown_again(call: Call) -> None:
    first = call("demo", "--out", "d")
    before = {path.name: path.read_bytes() for path in Path("d").iterdir()}
    second = call("demo", "--out", "d")
    assert second.out == first.out
    assert "--out" in second.err
    assert {path.name: path.read_bytes() for path in Path("d").iterdir()} == before


def test_an_interrupted_demo_goes_on(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = call("demo", "--out", "whole", "--quiet")
    assert whole.err == ""

    def stop(self: Trainer) -> None:
        if self.state.epoch == 1:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "_train_epoch", _before(Trainer._train_epoch, stop))
        assert call("demo", "--out", "parts").code == 130
    resumed = call("demo", "--out", "parts")
    assert resumed.out.replace("parts", "whole") == whole.out


def _before(method, first):  # type: ignore[no-untyped-def]
    def both(self):  # type: ignore[no-untyped-def]
        first(self)
        method(self)

    return both


def test_another_run_is_left_alone(call: Call, tiny_run: Path) -> None:
    result = call("demo", "--out", tiny_run)
    assert result.code == 2
    assert "not the demo" in result.err


def test_a_run_of_its_configuration_on_other_text_is_left_alone(call: Call, text_file: Path) -> None:
    texts = ["--train", text_file, "--valid", text_file]
    assert call("train", "demo", *texts, "--out", "mine", "--set", "training.epochs=1").code == 0
    before = sorted(path.name for path in Path("mine").iterdir())
    result = call("demo", "--out", "mine")
    assert (result.code, "not the demo" in result.err) == (2, True)
    assert sorted(path.name for path in Path("mine").iterdir()) == before


def test_train_demo_wants_a_text(call: Call) -> None:
    result = call("train", "demo", "--out", "d")
    assert (result.code, "give --train FILE" in result.err) == (2, True)
