"""What is seen of a run: lines on standard error, nothing on standard output, nothing at all when quiet."""

import io
from pathlib import Path

import pytest
from rich.console import Console

from simplepcfg.training import LiveReporter, PlainReporter, Reporter, make_reporter, train
from simplepcfg.training.reporting.progress import duration


def test_plain_lines_go_to_standard_error(make_config, tmp_path: Path, capsys) -> None:
    train(make_config(), tmp_path / "run", reporter=make_reporter())
    seen = capsys.readouterr()
    assert seen.out == ""
    assert "epoch 3/3  train perplexity" in seen.err
    assert "words/s" in seen.err
    assert "tokens: sum of (length + 1)" in seen.err
    assert "\x1b" not in seen.err


def test_the_first_line_does_not_wait_for_metrics(make_config, tmp_path: Path, capsys, monkeypatch) -> None:
    quiet = make_config("training.log_every=1000")
    train(quiet, tmp_path / "quick", reporter=make_reporter())
    assert "words/s" not in capsys.readouterr().err
    monkeypatch.setattr("simplepcfg.training.reporting.progress.FIRST_LINE_SECONDS", 0.0)
    train(quiet, tmp_path / "slow", reporter=make_reporter())
    assert capsys.readouterr().err.count("words/s") == 1


def test_quiet(make_config, tmp_path: Path, capsys) -> None:
    train(make_config(), tmp_path / "run", reporter=make_reporter(quiet=True))
    assert capsys.readouterr() == ("", "")


def test_live_display(make_config, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("simplepcfg.training.reporting.live_display.REDRAW_SECONDS", 0.0)
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=150, highlight=False)
    train(make_config(), tmp_path / "run", reporter=LiveReporter(console))
    assert "words/s" in screen.getvalue()
    assert "left" in screen.getvalue()
    assert "epoch 3/3  train perplexity" in screen.getvalue()


def test_no_colour(make_config, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr("simplepcfg.training.reporting.live_display.REDRAW_SECONDS", 0.0)
    screen = io.StringIO()
    train(
        make_config(),
        tmp_path / "run",
        reporter=LiveReporter(Console(file=screen, force_terminal=True, width=150)),
    )
    assert "\x1b[3" not in screen.getvalue()


def test_kind_of_reporter(monkeypatch) -> None:
    assert type(make_reporter(quiet=True)) is Reporter
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert isinstance(make_reporter(), LiveReporter | PlainReporter)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0:00"), (63.4, "1:03"), (3723, "1:02:03"), (float("inf"), "?"), (float("nan"), "?")],
)
def test_duration(seconds: float, text: str) -> None:
    assert duration(seconds) == text
