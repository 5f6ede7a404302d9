"""The runner of experiments: rows are recorded once, and what was stopped goes on."""

import csv
import random
import runpy
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from toy_runs import TOY_SETTINGS, toy_sentences

FOLDER = Path(__file__).parents[1] / "experiments"
Refused = Callable[..., str]
Program = Callable[..., tuple[object, str, str]]
PLAN = """
title = "Toy"
config = "sn-pcfg-small"
settings = {settings}

[[experiment]]
name = "base"
expected = "something"
seeds = [0, 1]

[[experiment]]
name = "fails"
expected = "an error of one line"
settings = ["model.nonterminals=3000000"]

[[experiment]]
name = "thinned"
expected = "it runs"
settings = ["training.state_dropout=0.5"]
final = true

[[experiment]]
name = "grown"
expected = "begins where base of the same seed ended"
settings = ["model.nonterminals=8", "model.preterminals=16", "training.start_noise=0", "training.learning_rate=1e-9"]
seeds = [1]
after = "base"
"""


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    path = tmp_path / "toy.toml"
    path.write_text(PLAN.format(settings=[*TOY_SETTINGS, "training.checkpoint_steps=0"]), "utf-8")
    (tmp_path / "text.txt").write_text("\n".join(toy_sentences(random.Random(1), 40)) + "\n", "utf-8")
    return path


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Program:
    """Runs a program of the folder within this process; gives its exit code, standard output and standard error."""

    def run_here(program: str, *arguments: str) -> tuple[object, str, str]:
        monkeypatch.syspath_prepend(FOLDER)
        monkeypatch.setattr(sys, "argv", [program, *arguments])
        code: object = 0
        try:
            runpy.run_path(str(FOLDER / program), run_name="__main__")
        except SystemExit as end:
            code = end.code
        return code, *capsys.readouterr()

    return run_here


@pytest.fixture
def refused(started: Program) -> Refused:
    """The one line with which a program refuses."""

    def run_here(program: str, *arguments: str) -> str:
        code, _, said = started(program, *arguments)
        assert (code, said.count("\n")) == (2, 1), said
        return said

    return run_here


@pytest.fixture
def run(started: Program) -> Callable[..., str]:
    """What run.py prints while it does what is left of a plan."""

    def run_here(plan: Path, *arguments: str) -> str:
        text = str(plan.parent / "text.txt")
        files = ["--train", text, "--valid", text, "--test", text]
        folder = ["--out", str(plan.parent / "runs"), "--commit", "toy"]
        code, out, said = started("run.py", str(plan), *files, *folder, *arguments)
        assert code == 0, said
        return out

    return run_here


def test_a_plan_is_run_once_and_goes_on(run: Callable[..., str], plan: Path) -> None:
    assert "base-0: stopped, to be gone on with" in run(plan, "--seconds", "0", "--only", "base")
    run(plan)
    with plan.with_suffix(".csv").open(newline="", encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    assert [(row["experiment"], row["seed"]) for row in rows] == [
        ("base", "0"),
        ("base", "1"),
        ("fails", "0"),
        ("thinned", "0"),
        ("grown", "1"),
    ]
    assert "ResourceError: training would take about" in rows[2]["failure"]
    assert all(float(row["valid_perplexity"]) > 1 for row in rows if not row["failure"])
    assert [bool(row["test_perplexity"]) for row in rows] == [False, False, False, True, False]
    assert rows[4]["valid_perplexity"] == rows[1]["valid_perplexity"]
    assert run(plan) == f"nothing left to do: every row that was asked for is in {plan.with_suffix('.csv')}\n"


def test_one_seed_of_a_few_steps_from_trees(run: Callable[..., str], plan: Path) -> None:
    """Words are taken out of brackets, threads are those of the run, and no line of steps is no mistake."""
    text = plan.parent / "text.txt"
    lines = text.read_text("utf-8").splitlines()
    text.write_text("".join(f"(S {' '.join(f'(T {w})' for w in line.split())})\n" for line in lines), "utf-8")
    more = 'seeds = [0, 1]\nsettings = ["training.log_every=9999", "training.threads=1"]'
    plan.write_text(plan.read_text("utf-8").replace("seeds = [0, 1]", more), "utf-8")
    run(plan, "--only", "base", "--seed", "1")
    with plan.with_suffix(".csv").open(newline="", encoding="utf-8") as stream:
        (row,) = csv.DictReader(stream)
    assert (row["seed"], row["threads"], row["largest_gradient_norm"]) == ("1", "1", "")
    words = (plan.parent / "runs" / "toy" / "base-1" / "vocabulary.txt").read_text("utf-8").split()
    assert {word for line in lines for word in line.split()} & set(words)
    assert not any(word.startswith("(") for word in words)


@pytest.mark.parametrize(
    ("change", "arguments", "message"),
    [
        ("", ["--only", "bass"], "no experiment is called bass; the plan has: base; fails; grown; thinned"),
        ("\nepochs = 3\n", [], "toy.toml: not a plan"),
        ("\n[", [], "toy.toml: not a plan"),
        ("", ["--seed", "7"], "no experiment has a seed of [7]"),
        ("", ["--seconds", "-5"], "--seconds -5: give a time of 0 or more"),
        ('\n[[experiment]]\nname = "typo"\nexpected = ""\nsettings = ["training.epoch=2"]\n', [], "training.epoch=2"),
        (
            '\n[[experiment]]\nname = "late"\nexpected = ""\nafter = "later"\n',
            [],
            "late comes after later, which is not before it",
        ),
    ],
)
def test_mistakes_are_one_line(refused: Refused, plan: Path, change: str, arguments: list[str], message: str) -> None:
    plan.write_text(plan.read_text("utf-8") + change, "utf-8")
    assert message in refused("run.py", str(plan), "--train", "a", "--valid", "a", *arguments)


def test_tables_are_those_of_the_plans() -> None:
    done = subprocess.run([sys.executable, str(FOLDER / "render.py"), "--check"], timeout=150, check=False)
    assert done.returncode == 0, "run python experiments/render.py"
