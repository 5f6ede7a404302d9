"""Several seeds of one configuration: the same runs as by themselves, resumed, and kept apart when one fails."""

import signal
from pathlib import Path

import pytest
import torch

from simplepcfg.errors import InputError
from simplepcfg.runs.config.files import load_config
from simplepcfg.runs.config.schema import RunConfig
from simplepcfg.runs.run_folder import load_run
from simplepcfg.training import seeds, start
from simplepcfg.training.seeds import SeedsFailed, SeedsFolder, train_seeds
from simplepcfg.training.signals import Interrupted
from tiny_runs import SETTINGS, tiny_sentences


@pytest.fixture(autouse=True)
def _one_thread(one_thread: None) -> None:
    """For every test here."""


@pytest.fixture
def config(tmp_path: Path) -> RunConfig:
    text = tmp_path / "train.txt"
    text.write_text("\n".join(tiny_sentences(40)) + "\n")
    return load_config("sn-pcfg-small", [*SETTINGS, f'data.train="{text}"', f'data.valid="{text}"'], environment={})


def weights(folder: Path) -> list[torch.Tensor]:
    return list(load_run(folder, "cpu").model.state_dict().values())


def assert_same(one: Path, other: Path) -> None:
    assert all(torch.equal(a, b) for a, b in zip(weights(one), weights(other), strict=True))


def test_each_seed_is_the_run_it_would_be_alone(config: RunConfig, tmp_path: Path) -> None:
    told: list[str] = []
    assert list(train_seeds(config, tmp_path / "all", 2, note=told.append)) == ["seed-0", "seed-1"]
    assert told == ["seed-0, run 1 of 2", "seed-1, run 2 of 2"]
    start.train(config.model_copy(update={"seed": 1}), tmp_path / "alone")
    assert_same(tmp_path / "all/seed-1", tmp_path / "alone")
    with pytest.raises(InputError, match="already holds runs of several seeds"):
        train_seeds(config, tmp_path / "all", 2)
    # Finished runs stay as they are; more epochs go on with all of them.
    before = weights(tmp_path / "all/seed-0")
    train_seeds(None, tmp_path / "all")
    assert all(torch.equal(a, b) for a, b in zip(before, weights(tmp_path / "all/seed-0"), strict=True))
    more = train_seeds(None, tmp_path / "all", overrides=["training.epochs=2"])
    assert [result.epochs for result in more.values()] == [2, 2]
    saved = SeedsFolder(tmp_path / "all").read_config()
    assert saved.training.epochs == 2
    with pytest.raises(InputError, match=r"training\.batch_size = 3 differs"):
        train_seeds(None, tmp_path / "all", overrides=["training.epochs=3", "training.batch_size=3"])
    assert SeedsFolder(tmp_path / "all").read_config() == saved  # later seeds would have taken the change


def test_side_by_side_gives_the_same_runs(config: RunConfig, tmp_path: Path) -> None:
    told: list[str] = []
    folder = tmp_path / "pair"
    damaged = SeedsFolder(folder)
    damaged.create(config, 2)
    (folder / "seed-0/config.toml").write_text("nonsense")  # one fails, the other does not
    with pytest.raises(
        SeedsFailed, match=r"1 of 2 runs failed \(seed-0\).*the others are kept, go on.*train --resume"
    ) as failed:
        train_seeds(None, folder, jobs=2, note=told.append)
    assert failed.value.exit_code == 2
    assert any(line.startswith("seed-1: epoch 1/1") for line in told)
    start.train(config.model_copy(update={"seed": 1}), tmp_path / "alone")
    assert_same(folder / "seed-1", tmp_path / "alone")


def test_one_failure_leaves_the_others(config: RunConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(given: RunConfig, *arguments: object, **options: object) -> start.TrainingResult:
        if given.seed == 1:
            raise RuntimeError("the second one")
        return start.train(given, *arguments, **options)  # type: ignore[arg-type]

    folder = tmp_path / "three"
    told: list[str] = []
    with monkeypatch.context() as patched:
        patched.setattr(seeds, "train", broken)
        with pytest.raises(SeedsFailed, match=r"1 of 3 runs failed .*RuntimeError: the second one"):
            train_seeds(config, folder, 3, note=told.append)
    assert any("Traceback" in line for line in told)
    assert (folder / "seed-2/model.safetensors").exists()
    assert not (folder / "seed-1/model.safetensors").exists()
    assert list(train_seeds(None, folder)) == ["seed-0", "seed-1", "seed-2"]
    assert (folder / "seed-1/model.safetensors").exists()


def test_an_interruption_stops_all_and_resume_goes_on(
    config: RunConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(given: RunConfig, *arguments: object, **options: object) -> start.TrainingResult:
        if given.seed == 1:
            raise Interrupted("stopped", signal.SIGINT)
        return start.train(given, *arguments, **options)  # type: ignore[arg-type]

    folder = tmp_path / "two"
    with monkeypatch.context() as patched:
        patched.setattr(seeds, "train", stopped)
        with pytest.raises(Interrupted, match=f"--resume {folder}") as error:
            train_seeds(config, folder, 3)
    assert error.value.exit_code == 130
    assert len(train_seeds(None, folder)) == 3


def test_a_mistake_of_all_leaves_the_folder_free(config: RunConfig, tmp_path: Path) -> None:
    wrong = config.model_copy(update={"data": config.data.model_copy(update={"train": str(tmp_path / "none.txt")})})
    for jobs in (1, 2):
        with pytest.raises((InputError, SeedsFailed), match=r"none\.txt") as refused:
            train_seeds(wrong, tmp_path / "new", 2, jobs=jobs)
        assert "kept, go on" not in str(refused.value)
        assert not SeedsFolder(tmp_path / "new").exists()
    for count, jobs in ((0, 1), (2, 0)):
        with pytest.raises(InputError):
            train_seeds(config, tmp_path / "new", count, jobs=jobs)
    assert len(train_seeds(config, tmp_path / "new", 1)) == 1
