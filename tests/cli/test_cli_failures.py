"""Failures are one line and an exit code; closed pipes are quiet; start-up is light."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import simplepcfg
from command_calls import Call
from simplepcfg.cli import score
from simplepcfg.cli.main import COMMANDS
from simplepcfg.cli.main import run as run_command
from simplepcfg.errors import NumericalError, ResourceError
from simplepcfg.inference.run import Run


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_an_example(call: Call, command: str) -> None:
    result = call(command, "--help")
    assert (result.code, result.err) == (0, "")
    assert f"simplepcfg {command}" in result.out.split("Example:")[1]


def test_no_arguments_show_the_commands(call: Call) -> None:
    result = call()
    assert result.code == 0
    assert all(command in result.out for command in COMMANDS)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["parze"], "parse"),
        (["parse"], "RUN"),
        (["parse", "r", "--format", "xml"], "pretty"),
        (["sample", "r", "extra"], "extra"),
        (["score", "r", "--nothing"], "--nothing"),
        (["train", "sn-pcfg", "--seed", "x"], "--seed"),
        (["evaluate"], "FILE"),
        (["evaluate", "r", "f", "--decode", "best"], "viterbi"),
        (["--nothing"], "--nothing"),
    ],
)
def test_usage_errors_are_one_line(call: Call, arguments: list[str], said: str) -> None:
    result = call(*arguments)
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith("simplepcfg: ")
    assert result.err.count("\n") == 1
    assert said in result.err


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (NumericalError("NaN\nin two lines"), 3),
        (ResourceError("full"), 4),
        (MemoryError(), 4),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes"), 4),
        (OSError(28, "No space left on device", "f"), 4),
        (PermissionError(13, "Permission denied", "f"), 2),
        (KeyboardInterrupt(), 130),
    ],
)
def test_exit_codes(
    call: Call, tiny_run: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException, code: int
) -> None:
    def fail(self: Run, sentences: object) -> list[float]:
        raise error

    monkeypatch.setattr(Run, "score", fail)
    result = call("score", tiny_run, "--quiet", stdin="a b")
    assert result.code == code
    assert result.err.startswith("simplepcfg: ")
    assert result.err.count("\n") == 1


def test_a_defect_is_not_hidden(tiny_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(score, "SentenceStream", fail)
    with pytest.raises(ZeroDivisionError):
        run_command(["score", str(tiny_run)])


def test_a_sentence_beyond_the_machine_is_refused(call: Call, tiny_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sysconf", lambda name: 500)
    result = call("parse", tiny_run, "--max-words", 1000, stdin="dog " * 200)
    assert result.code == 0
    assert result.out == "(X" + " (T dog)" * 200 + ")\n"
    assert "not computed" in result.err


def python(*arguments: str, **options: object) -> "subprocess.CompletedProcess[str]":
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.run(  # type: ignore[call-overload,no-any-return]
        [sys.executable, *arguments], capture_output=True, text=True, env=environment, timeout=120, **options
    )


def test_python_m_and_version() -> None:
    result = python("-m", "simplepcfg", "--version")
    assert (result.returncode, result.stdout.strip()) == (0, f"simplepcfg {simplepcfg.__version__}")


def test_what_draws_at_random_runs_as_a_process(tiny_run: Path) -> None:
    """Some commands start without parts of torch, which the tests' own process has."""
    words = ["complete", str(tiny_run), "the", "--samples", "1"]
    source = f"import sys; from simplepcfg.__main__ import main\nsys.argv[1:] = {words}; main()\n"
    result = python("-c", source)
    assert "Traceback" not in result.stderr
    assert result.stdout.splitlines()[-1].startswith("the")


def test_a_closed_pipe_under_a_table(call: Call, tiny_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables are drawn by rich, which would leave with an exit code of its own."""
    from rich.console import Console

    def broken(self: Console) -> None:
        self.on_broken_pipe()

    monkeypatch.setattr(Console, "_write_buffer", broken)
    result = call("show", tiny_run, "-", stdin="the dog sees a cat")
    assert (result.code, result.err) == (141, "")


def test_ops_and_models_need_torch_alone() -> None:
    """Not even Triton: every other backend is there without it. One process, since it imports torch."""
    source = (
        "import sys\n"
        "for name in ('typer', 'rich', 'nltk', 'pydantic', 'safetensors', 'tomli_w', 'click', 'triton'):\n"
        "    sys.modules[name] = None\n"
        "import simplepcfg\n"
        "assert 'torch' not in sys.modules, 'importing the package must be quick'\n"
        "import simplepcfg.ops.inside, simplepcfg.grammars, simplepcfg.models, torch\n"
        "rules = torch.full((1, 2), 0.5)\n"
        "print(simplepcfg.ops.inside.inside(torch.zeros(1, 3, 1), torch.ones(1), rules, rules).exp().item())\n"
    )
    result = python("-c", source)
    assert result.returncode == 0, result.stderr
    assert float(result.stdout) == pytest.approx(0.125)


def test_the_command_line_starts_without_torch() -> None:
    source = "import sys, simplepcfg.cli.main; assert not {'torch', 'nltk', 'rich'} & sys.modules.keys()"
    assert python("-c", source).returncode == 0


INTERRUPTING = """
import runpy, sys
class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == "typer":
            raise KeyboardInterrupt
sys.meta_path.insert(0, Interrupting())
"""


@pytest.mark.parametrize(
    "start",
    ["runpy.run_module('simplepcfg', run_name='__main__')", "sys.exit(entry.load()())"],
)
def test_an_interruption_while_importing_is_one_line(start: str) -> None:
    scripts = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]["scripts"]
    entry = f"from importlib.metadata import EntryPoint; entry = EntryPoint('', {scripts['simplepcfg']!r}, '')\n"
    result = python("-c", INTERRUPTING + entry + start)
    assert (result.returncode, result.stdout, result.stderr) == (130, "", "simplepcfg: interrupted\n")
