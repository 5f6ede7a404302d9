"""Teachers chosen without gold trees: configurations of another mind, and the agreement of trees."""

import json
from pathlib import Path

import pytest
import torch

from simplepcfg.runs.config.files import load_config
from simplepcfg.training import teacher_choice
from simplepcfg.training.start import train
from simplepcfg.training.teacher_choice import choose_teachers, tree_agreement
from tiny_runs import SETTINGS, tiny_sentences


@pytest.fixture(autouse=True)
def _one_thread(one_thread: None) -> None:
    """For every test here."""


def table(within: float, other: float, across: float) -> torch.Tensor:
    """Agreement of two members each of two configurations."""
    values = torch.full((4, 4), across)
    values[0, 1] = values[1, 0] = within
    values[2, 3] = values[3, 2] = other
    return values.fill_diagonal_(1)


@pytest.mark.parametrize(
    ("within", "other", "across", "two_minds"),
    [
        (0.8, 0.7, 0.5, True),
        (0.8, 0.4, 0.45, False),  # the members of the second differ as much from each other: independent mistakes
        (0.84, 0.77, 0.63, False),
        (0.95, 0.73, 0.54, True),
        (0.8, 0.7, 0.65, False),  # they agree across configurations, too
    ],
)
def test_two_minds(within: float, other: float, across: float, two_minds: bool) -> None:
    names = ["best", "best", "worse", "worse"]
    values = table(within, other, across)
    assert teacher_choice._disagree("worse", "best", names, values, range(4)) == two_minds


def test_single_members_are_kept() -> None:
    values = torch.tensor([[1.0, 0.1], [0.1, 1.0]])
    assert not teacher_choice._disagree("a", "b", ["a", "b"], values, range(2))


def test_failed_members_are_left_out() -> None:
    names = ["best", "best", "other", "other"]
    values = table(0.8, 0.4, 0.6)
    values[:2, 3] = values[3, :2] = torch.tensor([0.6, 0.4])  # 0.5 on the average
    assert teacher_choice._agreeing("best", names, values, [0, 1, 2, 3]) == [0, 1, 2]
    assert teacher_choice._agreeing("best", names, values, [0, 3]) == [0, 3]
    assert teacher_choice._agreeing("other", names, values, [1, 3]) == [3]


def test_which_members_are_kept() -> None:
    names, likelihoods = ["a", "a", "a", "b"], [-1.0, -3.0, -2.0, -1.0]
    for keep, places in {1: [0, 3], 2: [0, 2, 3], 9: [0, 1, 2, 3]}.items():
        assert teacher_choice._likeliest(names, likelihoods, keep) == places


def test_choice_is_written_and_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = tmp_path / "text.txt"
    text.write_text("\n".join(tiny_sentences(40)) + "\n")
    config = load_config("sn-pcfg-small", [*SETTINGS, f'data.train="{text}"', f'data.valid="{text}"'], environment={})
    runs = [tmp_path / "members" / "a" / f"seed-{seed}" for seed in (0, 1)]
    for seed, run in enumerate(runs):
        train(config.model_copy(update={"seed": seed}), run)
    sentences = [line.split() for line in tiny_sentences(40)]
    agreement = tree_agreement([*runs, runs[0]], sentences, torch.device("cpu"))
    assert agreement.diagonal().tolist() == [1.0, 1.0, 1.0]
    assert agreement[0, 2] == 1
    assert torch.equal(agreement, agreement.T)
    told: list[str] = []
    first = choose_teachers({"a": runs}, 2, config, tmp_path / "members", note=told.append)
    assert first.agreement == pytest.approx(float(agreement[0, 1]), abs=0.1)
    assert (first.teachers, first.left_out, told) == (tuple(runs), (), [])
    record = json.loads((tmp_path / "members" / "teachers.json").read_text())
    assert record["members"] == record["teachers"] == ["a/seed-0", "a/seed-1"]
    (tmp_path / "members" / "teachers.json").write_text("{")  # damaged
    assert choose_teachers({"a": runs}, 2, config, tmp_path / "members", note=told.append) == first
    assert tree_agreement(runs, [], torch.device("cpu")).tolist() == [[1, 1], [1, 1]]  # a text of two-word sentences
    monkeypatch.setattr(teacher_choice, "tree_agreement", lambda *_: pytest.fail("computed twice"))
    assert choose_teachers({"a": runs}, 2, config, tmp_path / "members", note=told.append) == first
