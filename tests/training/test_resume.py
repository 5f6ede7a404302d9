"""A run that was stopped and resumed equals an undisturbed one, bit for bit."""

import os
import random
import signal
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
import torch

from simplepcfg.errors import InputError, SimplePCFGError
from simplepcfg.runs.checkpoint import Checkpoint
from simplepcfg.runs.run_folder import RunFolder, load_run
from simplepcfg.training import Interrupted, PlainReporter, Reporter, loop, train
from simplepcfg.training.reporting.progress import EpochReport
from simplepcfg.training.signals import StopSignals
from toy_runs import SignalAt, differences, toy_sentences


@pytest.mark.parametrize(("step", "number"), [(1, signal.SIGINT), (5, signal.SIGTERM), (8, signal.SIGINT)])
def test_signal_then_resume_equals_undisturbed(make_config, whole, tmp_path: Path, step: int, number: int) -> None:
    config = make_config()
    broken = RunFolder(tmp_path / "broken")
    with pytest.raises(Interrupted, match="go on with: simplepcfg train --resume") as stopped:
        train(config, broken.path, reporter=SignalAt(step, number))
    assert stopped.value.exit_code == 128 + number
    result = train(None, broken.path, resume=True)
    assert result.epochs == 3
    assert differences(whole, broken) == []


@pytest.mark.parametrize("every", [3, 16])
def test_sums_that_are_read_late_are_the_same(make_config, whole, tmp_path: Path, monkeypatch, every: int) -> None:
    """As on a GPU, where the host looks now and then."""
    monkeypatch.setattr(loop, "DELAYED_READ_DEVICES", {"cpu"})
    monkeypatch.setattr(loop, "COUNTER_READ_INTERVAL", every)
    broken = RunFolder(tmp_path / "broken")
    with pytest.raises(Interrupted):
        train(make_config(), broken.path, reporter=SignalAt(5, signal.SIGTERM))
    train(None, broken.path, resume=True)
    assert differences(whole, broken) == []


def test_resume_again_and_again(make_config, whole, tmp_path: Path) -> None:
    config = make_config()
    broken = RunFolder(tmp_path / "broken")
    total = Checkpoint.load(whole.checkpoint).state.step
    for step in range(1, total + 1):
        with pytest.raises(Interrupted):
            train(config, broken.path, resume=step > 1, reporter=SignalAt(step, signal.SIGINT))
    train(config, broken.path, resume=True)
    assert differences(whole, broken) == []


def test_same_seed_same_run_whatever_the_caller_did(make_config, whole, tmp_path: Path) -> None:
    torch.manual_seed(3)
    before, handler = torch.get_rng_state(), signal.getsignal(signal.SIGINT)
    train(make_config(), tmp_path / "run")
    assert torch.equal(torch.get_rng_state(), before)
    assert not torch.are_deterministic_algorithms_enabled()
    assert signal.getsignal(signal.SIGINT) is handler
    assert differences(whole, RunFolder(tmp_path / "run")) == []


def test_other_seed_other_run(make_config, whole, tmp_path: Path) -> None:
    train(make_config("seed=1", "training.epochs=1"), tmp_path / "run")
    assert not whole.metrics.read_bytes().startswith(RunFolder(tmp_path / "run").metrics.read_bytes())


def test_checkpoints_do_not_disturb(make_config, whole, tmp_path: Path) -> None:
    seldom = RunFolder(tmp_path / "seldom")
    train(make_config("training.checkpoint_steps=0"), seldom.path)
    assert seldom.metrics.read_bytes() == whole.metrics.read_bytes()


def test_a_library_that_catches_all_errors_does_not_keep_a_run_from_stopping() -> None:
    with StopSignals() as stop:
        with suppress(Exception):  # as imports that are only tried do
            os.kill(os.getpid(), signal.SIGTERM)
        stop.defer()
        assert stop.requested == signal.SIGTERM


def test_second_signal_stops_at_once(make_config, tmp_path: Path) -> None:
    with pytest.raises(Interrupted, match="at once by a second SIGINT"):
        train(make_config(), tmp_path / "run", reporter=SignalAt(2, signal.SIGINT, times=2))


def test_signal_in_validation_is_saved_before_it(make_config, whole, tmp_path: Path, monkeypatch) -> None:
    config = make_config()
    broken = RunFolder(tmp_path / "broken")
    total = Checkpoint.load(whole.checkpoint).state.step
    steps_an_epoch = total // 3
    from simplepcfg.evaluation import likelihood

    def collate_and_stop(*arguments):
        os.kill(os.getpid(), signal.SIGTERM)
        return original(*arguments)

    original = likelihood.collate
    monkeypatch.setattr(likelihood, "collate", collate_and_stop)
    with pytest.raises(Interrupted, match=f"after step {steps_an_epoch}, all saved"):
        train(config, broken.path)
    monkeypatch.undo()
    train(None, broken.path, resume=True)
    assert differences(whole, broken) == []


def test_resuming_a_finished_run_changes_nothing(whole, finished, capsys) -> None:
    again = train(None, finished.path, resume=True, reporter=PlainReporter())
    assert "nothing left to do" in capsys.readouterr().err
    state = Checkpoint.load(whole.checkpoint).state
    assert (again.best.epoch, again.steps) == (state.best.epoch, state.step)
    assert differences(whole, finished) == []


def test_resume_may_train_longer_but_not_differently(make_config, finished, tmp_path: Path) -> None:
    assert train(make_config("training.epochs=4"), tmp_path / "run", resume=True).epochs == 4
    assert "epochs = 4" in (tmp_path / "run" / "config.toml").read_text("utf-8")
    with pytest.raises(InputError, match=r"model\.nonterminals = 5 differs from 4"):
        train(make_config("model.nonterminals=5", "training.epochs=4"), tmp_path / "run", resume=True)


def test_changed_text_is_refused(make_config, text_file: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.txt"
    copy.write_bytes(text_file.read_bytes())
    train(make_config(f'data.train="{copy}"', "training.epochs=1"), tmp_path / "run")
    copy.write_text("\n".join(toy_sentences(random.Random(2), 60)) + "\n", "utf-8")
    with pytest.raises(InputError, match=r"training text is not the one that .* began with"):
        train(None, tmp_path / "run", resume=True)


def test_refused_text_leaves_the_configuration_alone(make_config, finished, tmp_path: Path) -> None:
    before = finished.config.read_bytes()
    other = tmp_path / "other.txt"
    other.write_text("\n".join(toy_sentences(random.Random(2), 60)) + "\n", "utf-8")
    with pytest.raises(InputError, match="training text is not the one"):
        train(make_config(f'data.train="{other}"'), finished.path, resume=True)
    assert finished.config.read_bytes() == before


def test_model_without_checkpoint_is_not_trained_over(make_config, tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    train(make_config("training.epochs=1"), folder.path)
    folder.checkpoint.unlink()
    before = folder.model.read_bytes()
    with pytest.raises(InputError, match=r"holds a model but no checkpoint\.safetensors"):
        train(None, folder.path, resume=True)
    assert folder.model.read_bytes() == before
    folder.model.unlink()  # as a run that was killed before its first checkpoint
    assert train(None, folder.path, resume=True).epochs == 1


def test_fewer_epochs_than_are_done_are_refused(make_config, finished) -> None:
    before = finished.config.read_bytes()
    with pytest.raises(InputError, match=r"training\.epochs = 2, but .* is in epoch 3 already; give 3 or more"):
        train(make_config("training.epochs=2"), finished.path, resume=True)
    assert finished.config.read_bytes() == before
    assert train(make_config("training.epochs=3"), finished.path, resume=True).epochs == 3


def test_a_run_is_never_overwritten(make_config, finished, tmp_path: Path) -> None:
    with pytest.raises(
        InputError,
        match="already holds a run; choose another folder, or go on with its training by `simplepcfg train --resume",
    ):
        train(make_config(), tmp_path / "run")
    (tmp_path / "run" / "config.toml").unlink()
    with pytest.raises(InputError, match=r"parts of a run but no config\.toml"):
        train(make_config(), tmp_path / "run")


@pytest.mark.parametrize(
    ("missing", "advice"),
    [
        ("config.toml", "restore it from a copy"),
        ("vocabulary.txt", "restore it from a copy"),
        ("model.safetensors", "or it was removed: `simplepcfg train --resume .*` writes it"),
    ],
)
def test_incomplete_folder_names_what_is_missing(finished, missing: str, advice: str) -> None:
    (finished.path / missing).unlink()
    with pytest.raises(InputError, match=f"not a complete run: {missing} is missing; .*{advice}"):
        load_run(finished.path)


def test_no_folder_and_no_run(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such run folder; give one that `simplepcfg train` wrote"):
        load_run(tmp_path / "nowhere")
    with pytest.raises(InputError, match=r"config\.toml is missing; give a folder that `simplepcfg train` wrote"):
        train(None, tmp_path, resume=True)
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="file: is a file, not a run folder"):
        load_run(tmp_path / "file")


@pytest.mark.parametrize("name", ["checkpoint.safetensors", "model.safetensors"])
def test_damaged_tensors_are_one_line(finished, name: str) -> None:
    path = finished.path / name
    path.write_bytes(path.read_bytes()[:-100])
    reader = load_run if name.startswith("model") else partial(train, None, resume=True)
    with pytest.raises(SimplePCFGError, match=f"{name}: damaged") as caught:
        reader(directory=finished.path)
    assert "\n" not in str(caught.value)


def test_second_process_is_kept_out(finished) -> None:
    with finished.locked(), pytest.raises(InputError, match="another process is training"):
        train(None, finished.path, resume=True)


def test_loaded_model_is_the_best_one(make_config, tmp_path: Path) -> None:
    class Validations(Reporter):
        reports: list[EpochReport] = []  # noqa: RUF012

        def epoch(self, report: EpochReport) -> None:
            self.reports.append(report)

    result = train(make_config("training.learning_rate=0.3"), tmp_path / "run", reporter=Validations())
    best = max(Validations.reports, key=lambda report: report.valid.rank)
    assert result.best.epoch == best.epoch
    elapsed = [0.0, *(report.seconds for report in Validations.reports), result.seconds]
    assert elapsed == sorted(set(elapsed))
    run = load_run(tmp_path / "run", "cpu")
    assert run.best["epoch"] == best.epoch
    assert not run.model.training
