"""Tiny runs made once a session, and a way to call the command line without a new process."""

import io
import sys
from pathlib import Path

import pytest

from command_calls import Call, Outcome
from simplepcfg.cli.main import run as run_command
from tiny_runs import make_tiny_run, short_trees, tiny_sentences


@pytest.fixture(autouse=True)
def _one_thread(one_thread: None) -> None:
    """For every test in this folder."""


@pytest.fixture(autouse=True)
def _no_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines on what takes more than two seconds would depend on how busy the machine is."""
    monkeypatch.setattr("simplepcfg.cli.progress.SECONDS_BEFORE", float("inf"))


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Call:
    """Run the command line in this process; `stdin` is what it reads there."""

    def invoke(*arguments: object, stdin: str | bytes = b"") -> Outcome:
        raw = stdin.encode() if isinstance(stdin, str) else stdin
        stream = io.TextIOWrapper(io.BufferedReader(io.BytesIO(raw)))  # type: ignore[arg-type]
        monkeypatch.setattr(sys, "stdin", stream)
        capsys.readouterr()
        code = run_command([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return Outcome(code, captured.out, captured.err)

    return invoke


@pytest.fixture(scope="session")
def tiny_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Punctuation dropped, lower-cased. It knows words of 120 sentences of the built-in treebank: "the", not "sees"."""
    return make_tiny_run(tmp_path_factory.mktemp("tiny") / "run")


@pytest.fixture(scope="session")
def eos_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Punctuation kept, `<eos>` added."""
    return make_tiny_run(tmp_path_factory.mktemp("eos") / "run", "data.eos=true", "data.punctuation=keep")


@pytest.fixture(scope="session")
def trees_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Gold trees of the built-in treebank, each with a full stop."""
    path = tmp_path_factory.mktemp("trees") / "gold.trees"
    trees = short_trees(25, seed=9, longest=12)
    path.write_text("".join(f"(TOP {tree.to_brackets()} (. .))\n" for tree in trees))
    return path


@pytest.fixture(scope="session")
def text_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Raw sentences."""
    path = tmp_path_factory.mktemp("text") / "text.txt"
    path.write_text("\n".join(tiny_sentences(25, seed=9)) + "\n")
    return path
