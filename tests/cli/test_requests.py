"""Options that are the fields of a request, and what is refused while they are read."""

from pathlib import Path
from typing import Literal

import pytest
import typer

from simplepcfg.cli.main import run
from simplepcfg.cli.requests import arg, flag, group, opt, options, takes, written
from simplepcfg.errors import InputError


@options
class FirstRequest:
    """Options that come first in the help."""

    name: str = arg("NAME", "Of somebody.")
    count: int = opt("--count -c", "N", "How many.", 2, min=1)


@options
class LastRequest:
    """Options that come last."""

    loud: bool = flag("--loud", "Or not.")
    out: str | None = written("--out", "Where to.")


@options
class GreetRequest(LastRequest, FirstRequest):
    """All of them, and a choice."""

    kind: Literal["good", "bad"] = flag("--kind", "Of greeting.", "good")


requests: list[GreetRequest] = []
app = group("""Greet.

    \b
    Example:
      greet one Anna
    """)


@app.command("one")
@takes(GreetRequest)
def one(request: GreetRequest) -> None:
    """Greet one person."""
    requests.append(request)


def call(*words: str) -> None:
    requests.clear()
    with typer.main.get_group(app).make_context("greet", list(words)) as context:
        context.command.invoke(context)


def test_a_request_has_what_was_given_and_defaults() -> None:
    call("one", "Anna", "-c", "3", "--kind", "bad")
    assert requests == [GreetRequest(name="Anna", count=3, kind="bad")]
    call("one", "Anna", "--loud")
    assert requests == [GreetRequest(name="Anna", loud=True)]


def test_the_help_has_the_options_in_the_order_of_the_classes(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit):
        call("one", "--help")
    text = capsys.readouterr().out
    places = [text.index(word) for word in ("NAME", "--count", "--loud", "--out", "--kind")]
    assert places == sorted(places)
    assert "Greet one person." in text
    assert "[default: 2; x>=1]" in text


@pytest.mark.parametrize("words", [[], ["prepare"], ["test"], ["baseline"]])
def test_without_a_command_help_is_printed(capsys: pytest.CaptureFixture[str], words: list[str]) -> None:
    assert run(words) == 0
    assert f"simplepcfg {' '.join([*words, '[OPTIONS] COMMAND'])}" in capsys.readouterr().out


def test_a_file_that_cannot_be_written_is_refused_before_the_command(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no folder"):
        call("one", "Anna", "--out", str(tmp_path / "missing" / "file"))
    assert requests == []
    call("one", "Anna", "--out", str(tmp_path / "file"))
    assert requests[0].out == str(tmp_path / "file")
    assert not list(tmp_path.iterdir())
