"""What commands say of themselves while they compute."""

import io
import os
import pty
import sys
import time
from pathlib import Path

import pytest

from command_calls import Call
from simplepcfg.cli import progress
from simplepcfg.cli.output import write_lines
from simplepcfg.grammars import SimpleGrammar
from simplepcfg.progress import stage


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches that take longer than a command may be silent for."""
    monkeypatch.setattr(progress, "SECONDS_BEFORE", 0.05)
    monkeypatch.setattr(progress, "SECONDS_BETWEEN", (0.05,))
    monkeypatch.setattr(progress, "TICK", 0.01)
    for name in ("decode", "log_partition", "viterbi", "rule_counts"):
        original = getattr(SimpleGrammar, name, None)
        if original is None:
            continue

        def waiting(self, *arguments, original=original, **options):
            time.sleep(0.3)
            return original(self, *arguments, **options)

        monkeypatch.setattr(SimpleGrammar, name, waiting)


def test_evaluate_says_what_it_does(call: Call, tiny_run: Path, trees_file: Path, slow: None) -> None:
    result = call("evaluate", tiny_run, trees_file)
    assert result.code == 0
    assert f"evaluating {tiny_run}: 25 sentences …" in result.err
    assert call("evaluate", tiny_run, trees_file, "--quiet").err == ""


def test_report_says_what_it_does(call: Call, tiny_run: Path, trees_file: Path, tmp_path: Path, slow: None) -> None:
    result = call("report", tiny_run, trees_file, "--out", tmp_path / "report.html")
    assert result.code == 0
    assert "measuring run on 25 trees: 25 sentences …" in result.err


def test_show_says_what_it_does(
    call: Call, tiny_run: Path, trees_file: Path, monkeypatch: pytest.MonkeyPatch, slow: None
) -> None:
    from simplepcfg.inference import inspection

    original = inspection.in_batches

    def waiting(*arguments, **options):
        with stage("25 sentences", 25):
            time.sleep(0.3)
        return original(*arguments, **options)

    monkeypatch.setattr(inspection, "in_batches", waiting)
    result = call("show", tiny_run, trees_file)
    assert result.code == 0
    assert "counting the uses of symbols: 25 sentences …" in result.err


def test_a_line_on_a_terminal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The line is on standard error and goes before a result is printed; standard output has the result alone."""
    monkeypatch.setattr(progress, "SECONDS_BEFORE", 0.0)
    monkeypatch.setattr(progress, "TICK", 0.01)
    monkeypatch.setenv("TERM", "xterm")
    ours, theirs = pty.openpty()
    terminal = os.fdopen(theirs, "w", buffering=1)
    monkeypatch.setattr(sys, "stderr", terminal)

    @progress.shows_progress
    def command(quiet: bool = False) -> None:
        with stage("100 sentences", 4) as advance:
            advance(1)
            time.sleep(0.3)
            write_lines(["a result"])
            advance(3)

    command(quiet=False)
    terminal.flush()
    os.set_blocking(ours, False)
    drawn = os.read(ours, 1 << 16).decode()
    assert "100 sentences: 25 %, about 0:01 left" in drawn
    assert capsys.readouterr().out == "a result\n"
    assert isinstance(terminal, io.TextIOWrapper)


def test_controls_say_what_they_do(
    call: Call, tiny_run: Path, text_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, slow: None
) -> None:
    from simplepcfg.linguistics.controls import ngram_training

    smoothed = ngram_training._smoothed

    def later(*arguments):
        time.sleep(0.1)
        return smoothed(*arguments)

    monkeypatch.setattr(ngram_training, "_smoothed", later)
    train = ["--like", tiny_run, "--train", text_file, "--out", tmp_path / "model.safetensors"]
    result = call("baseline", "ngram", *train)
    assert result.code == 0, result.err
    assert "counting n-grams: 67 %" in result.err
