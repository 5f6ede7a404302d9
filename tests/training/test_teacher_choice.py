"""Teachers chosen without gold trees: members that have failed, and the agreement of trees."""

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
    ("across", "branching", "teaches"),
    [(0.6, 0.54, True), (0.56, 0.92, False), (0.62, 0.76, True), (0.62, 0.78, False), (0.54, 0.3, False)],
)
def test_members_that_branch_to_one_side_are_left_out(across: float, branching: float, teaches: bool) -> None:
    names, values = ["best", "best", "other", "other"], table(0.8, 0.8, across)
    branches = torch.tensor([0.9, 0.9, branching, branching])  # those of the likeliest teach in any case
    places = teacher_choice._agreeing("best", names, values, branches, range(4))
    assert places == ([0, 1, 2, 3] if teaches else [0, 1])


def test_failed_members_are_left_out() -> None:
    names = ["best", "best", "other", "other"]
    values = table(0.8, 0.4, 0.6)
    values[:2, 3] = values[3, :2] = torch.tensor([0.6, 0.4])  # 0.5 on the average
    branching = torch.zeros(4)
    assert teacher_choice._agreeing("best", names, values, branching, [0, 1, 2, 3]) == [0, 1, 2]
    assert teacher_choice._agreeing("best", names, values, branching, [0, 3]) == [0, 3]
    assert teacher_choice._agreeing("other", names, values, branching, [1, 3]) == [3]


def test_a_grammar_that_branches_to_one_side_is_no_reference() -> None:
    likelihoods, comparable = [-1.0, -2.0, -3.0, 0.0], [True, True, True, False]
    for branching, place in (((0.5, 0.5, 0.5, 0.5), 0), ((0.9, 0.5, 0.5, 0.5), 1), ((0.9, 0.9, 0.9, 0.2), 3)):
        assert teacher_choice._reference(likelihoods, torch.tensor(branching), comparable, range(4)) == place
    assert teacher_choice._reference(likelihoods, torch.full((4,), 0.95), comparable, [1, 2, 3]) == 1


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
    agreement, branching = tree_agreement([*runs, runs[0]], sentences, torch.device("cpu"))
    assert branching[0] == branching[2]
    assert 0 < branching[0] < 1
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
    none = tree_agreement(runs, [], torch.device("cpu"))  # a text of two-word sentences
    assert [values.tolist() for values in none] == [[[1, 1], [1, 1]], [0, 0]]
    trees = torch.zeros(1, 5, 5, dtype=torch.bool)
    trees[0, [0, 1, 2], 4] = True
    monkeypatch.setattr(teacher_choice, "best_tree_mask", lambda *_: trees)
    assert tree_agreement(runs[:1], ["abcd"], torch.device("cpu"))[1].tolist() == [1]
    monkeypatch.undo()
    monkeypatch.setattr(teacher_choice, "tree_agreement", lambda *_: pytest.fail("computed twice"))
    assert choose_teachers({"a": runs}, 2, config, tmp_path / "members", note=told.append) == first
