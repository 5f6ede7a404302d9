"""Members and their student: the runs that they would be alone, gone on with, and never mixed with other settings."""

import json
from itertools import pairwise
from pathlib import Path

import pytest
import torch

from simplepcfg.errors import InputError
from simplepcfg.runs.config.files import load_config
from simplepcfg.runs.config.schema import RunConfig
from simplepcfg.runs.run_folder import load_run, runs_inside
from simplepcfg.training import start
from simplepcfg.training.distillation import DistillationFolder, distil, student_config
from simplepcfg.training.seeds import SeedsFailed
from simplepcfg.training.signals import Interrupted
from tiny_runs import SETTINGS, tiny_sentences


@pytest.fixture(autouse=True)
def _one_thread(one_thread: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """For every test here, whose grammars of a few steps hardly agree."""
    monkeypatch.setattr("simplepcfg.training.teacher_choice.LEAST_AGREEMENT", 0.0)
    monkeypatch.setattr("simplepcfg.training.teacher_choice.MARGIN", 2.0)


def configuration(folder: Path, *settings: str) -> RunConfig:
    text = folder / "train.txt"
    text.write_text("\n".join(tiny_sentences(24)) + "\n")
    paths = [f'data.train="{text}"', f'data.valid="{text}"']
    return load_config("sn-pcfg-small", [*SETTINGS, *paths, *settings], environment={})


def weights(folder: Path) -> list[torch.Tensor]:
    return list(load_run(folder, "cpu").model.state_dict().values())


def test_student_is_the_run_it_would_be_alone(tmp_path: Path) -> None:
    first, second = configuration(tmp_path), configuration(tmp_path, "model.nonterminals=3")
    configs, folder = {"first": first, "second": second}, DistillationFolder(tmp_path / "all")
    told: list[str] = []
    result = distil(configs, folder.path, 1, note=told.append)
    assert result.directory == folder.student
    assert [line for line in told if "seed" not in line] == [
        "members of first: 1 run",
        "members of second: 1 run",
    ]
    assert told[-1] == "student of first/seed-0, second/seed-0"
    teachers = [folder.members(name).folder(0) for name in configs]
    start.train(student_config(first, teachers), tmp_path / "alone")
    assert all(map(torch.equal, weights(folder.student), weights(tmp_path / "alone")))
    settings = load_run(folder.student, "cpu").config.training
    assert (settings.teacher_weight, settings.teacher_steps) == (5.0, 0)
    assert [Path(teacher).parts[-3:] for teacher in settings.teacher] == [
        ("members", "first", "seed-0"),
        ("members", "second", "seed-0"),
    ]
    before = weights(folder.student)
    distil(configs, folder.path, 1)  # everything is there already
    assert all(map(torch.equal, before, weights(folder.student)))
    with pytest.raises(InputError, match="first was begun with other settings; give the same as then"):
        distil({"first": second}, folder.path, 1)
    with pytest.raises(InputError, match="first was begun with 1 seeds, not 2"):
        distil(configs, folder.path, 2)


def test_weight_of_the_configuration_is_kept(tmp_path: Path) -> None:
    config = configuration(tmp_path, "training.teacher_weight=0.5")
    assert student_config(config, [tmp_path / "one"]).training.teacher_weight == 0.5


def test_interrupted_student_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    configs = {"one": configuration(tmp_path)}
    distil(configs, tmp_path / "whole", 1)

    def stopped(*_: object, **__: object) -> None:
        raise Interrupted("stopped", 2)

    with monkeypatch.context() as patched:
        patched.setattr("simplepcfg.training.distillation.train", stopped)
        with pytest.raises(Interrupted, match="the same command goes on with what is in"):
            distil(configs, tmp_path / "parts", 1)
    distil(configs, tmp_path / "parts", 1)
    whole, parts = (DistillationFolder(tmp_path / name).student for name in ("whole", "parts"))
    assert all(map(torch.equal, weights(whole), weights(parts)))


def test_members_side_by_side_and_a_student_of_its_own(tmp_path: Path) -> None:
    first, second = configuration(tmp_path), configuration(tmp_path, "model.nonterminals=3")
    configs, student = {"first": first, "second": second}, configuration(tmp_path, "model.nonterminals=4")
    one, both = (DistillationFolder(tmp_path / name) for name in ("one", "both"))
    distil(configs, one.path, 1, student=student)
    told: list[str] = []
    distil(configs, both.path, 1, student=student, jobs=2, note=told.append)
    assert {line.partition(":")[0] for line in told} >= {"first seed-0", "second seed-0"}
    for folder in (Path("members/first/seed-0"), Path("members/second/seed-0"), Path("student")):
        assert all(map(torch.equal, weights(one.path / folder), weights(both.path / folder)))
    assert load_run(both.student, "cpu").config.model.nonterminals == 4
    with pytest.raises(InputError, match="nonterminals"):
        distil(configs, both.path, 1, student=configuration(tmp_path, "model.nonterminals=5"))
    with pytest.raises(InputError, match=r"training\.teacher .* differs"):
        distil({**configs, "third": first}, both.path, 1, student=student)
    assert not both.members("third").path.exists()  # refused before it is trained
    with pytest.raises(InputError, match=r"the student sees other tokens than first; make data\.eos the same"):
        distil(configs, tmp_path / "other", 1, student=configuration(tmp_path, "data.eos=true"))
    members = [str(one.members(name).folder(0)) for name in configs]
    assert runs_inside(str(one.path / "members")) == members  # of all configurations
    assert runs_inside(str(one.path)) == [str(one.student)]


def test_members_with_the_best_likelihood_teach(tmp_path: Path) -> None:
    configs, folder = {"one": configuration(tmp_path)}, DistillationFolder(tmp_path / "all")
    distil(configs, folder.path, 3, keep=2)
    runs = [folder.members("one").folder(seed) for seed in range(3)]
    likelihoods = [load_run(run, "cpu").best["log_likelihood"] for run in runs]
    assert len(set(likelihoods)) == 3
    kept = [run for run, found in zip(runs, likelihoods, strict=True) if found > min(likelihoods)]
    assert [Path(teacher) for teacher in load_run(folder.student, "cpu").config.training.teacher] == kept
    assert folder.finished("one") == runs
    distil(configs, folder.path, 3, keep=2)  # everything is there already
    with pytest.raises(InputError, match=r"training\.teacher .* differs"):
        distil(configs, folder.path, 3, keep=1)


def test_members_that_fail_are_named(tmp_path: Path) -> None:
    good, bad = configuration(tmp_path), configuration(tmp_path, f'data.train="{tmp_path / "missing"}"')
    with pytest.raises(SeedsFailed, match=r"1 of 2 runs failed \(bad seed-0\): .*missing.*; the others are kept"):
        distil({"good": good, "bad": bad}, tmp_path / "all", 1, jobs=2)
    folder = DistillationFolder(tmp_path / "all")
    assert (folder.members("good").folder(0) / "model.safetensors").exists()
    assert not folder.members("bad").exists()


def test_no_configuration(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="name at least one"):
        distil({}, tmp_path, 1)


def test_generations_learn_from_the_one_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    configs = {"first": configuration(tmp_path), "second": configuration(tmp_path, "model.nonterminals=3")}
    folder = DistillationFolder(tmp_path / "all")
    monkeypatch.setattr("simplepcfg.training.distillation.LEAST_GAIN", -1.0)
    told: list[str] = []
    distil(configs, folder.path, 2, seeds_of={"second": 1}, keep=1, generations=3, note=told.append)
    records = [json.loads((folder.generation(number) / "teachers.json").read_text()) for number in (1, 2, 3)]
    by_generation = [
        [folder.generation(k) / name for name in record["teachers"]] for k, record in enumerate(records, 1)
    ]
    for before, members in pairwise(by_generation):
        taught = [load_run(run, "cpu").config.training.teacher for run in members]
        assert taught == [(str(before[1]),), (str(before[0]),)]  # each by the other configuration
    assert folder.teachers() == by_generation[2]
    assert sum(line.startswith("agreement of teachers: ") for line in told) == 2
    before = weights(folder.student)
    distil(configs, folder.path, 2, seeds_of={"second": 1}, keep=1, generations=3)  # everything is there already
    assert all(map(torch.equal, before, weights(folder.student)))


def test_generations_end_without_a_gain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    configs = {"one": configuration(tmp_path)}
    folder = DistillationFolder(tmp_path / "all")
    monkeypatch.setattr("simplepcfg.training.distillation.LEAST_GAIN", 1.0)
    monkeypatch.setattr("simplepcfg.training.distillation.FULL_AGREEMENT", 2.0)
    told: list[str] = []
    distil(configs, folder.path, 2, generations=5, note=told.append)
    assert folder.members("one", 2).exists()
    assert not folder.members("one", 3).exists()
    kept = {path.parent.parent.name for path in folder.teachers()}  # those that agree more
    assert len(kept) == 1
    monkeypatch.setattr("simplepcfg.training.distillation.FULL_AGREEMENT", 0.0)
    distil(configs, tmp_path / "agreed", 2, generations=5, note=told.append)
    assert not DistillationFolder(tmp_path / "agreed").members("one", 2).exists()
    assert any(line.startswith("no generation 2: the teachers agree") for line in told)
