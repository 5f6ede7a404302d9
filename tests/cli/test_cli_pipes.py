"""A pipe, such as a shell's <(...), in place of a file: every line of it counts."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from command_calls import Call
from tiny_runs import SETTINGS, make_fifo

SET = [argument for setting in SETTINGS for argument in ("--set", setting)]
Pipe = Callable[[str], Path]


@pytest.fixture
def pipe(tmp_path: Path) -> Pipe:
    return lambda text: make_fifo(tmp_path / "pipe", text)


@pytest.mark.parametrize("command", ["parse", "score"])
def test_every_line_is_answered(call: Call, tiny_run: Path, pipe: Pipe, command: str) -> None:
    result = call(command, tiny_run, pipe("the dog sees a cat\n" * 3000))
    assert (result.code, len(result.lines)) == (0, 3000)


def test_evaluate(call: Call, tiny_run: Path, trees_file: Path, pipe: Pipe) -> None:
    result = call("evaluate", tiny_run, pipe(trees_file.read_text() * 20), "--json", "-")
    assert json.loads(result.out)[0]["sentences"] == 500


def test_one_pipe_as_gold_and_as_predictions(call: Call, trees_file: Path, pipe: Pipe) -> None:
    fifo = pipe(trees_file.read_text())
    assert json.loads(call("evaluate", fifo, "--predictions", fifo, "--json", "-").out)[0]["sentence_f1"] == 100


def test_train(call: Call, text_file: Path, pipe: Pipe, tmp_path: Path) -> None:
    fifo = pipe(text_file.read_text() * 10)
    options = ["--valid", text_file, "--out", tmp_path / "r", *SET, "--set", "data.max_length=8"]
    result = call("train", "sn-pcfg-small", "--train", fifo, *options)
    assert result.code == 0
    assert " of 250 training sentences left out" in result.err  # the longest ones


def test_one_pipe_cannot_be_both_texts(call: Call, pipe: Pipe) -> None:
    fifo = pipe("")
    result = call("train", "sn-pcfg-small", "--train", fifo, "--valid", fifo)
    assert result.code == 2
    assert "save it to a file" in result.err
    fifo.read_text()  # lets the writer go
