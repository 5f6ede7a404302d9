"""After a failure in the middle of a write there is always a whole old file or a whole new one."""

import builtins
import errno
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from simplepcfg import files as files_module
from simplepcfg.errors import NumericalError, ResourceError
from simplepcfg.files import TEMPORARY_SUFFIX, write_bytes
from simplepcfg.runs.checkpoint import Checkpoint
from simplepcfg.runs.failures import resource_errors
from simplepcfg.runs.run_folder import RunFolder, load_run
from simplepcfg.training import start, train
from simplepcfg.training.reporting.progress import EpochReport, Reporter, StepReport
from simplepcfg.training.signals import Interrupted
from simplepcfg.training.step.distributed import Group
from toy_runs import BRIEF, differences, leftovers


class Crash(BaseException):
    """Stands for the end of the process."""


@pytest.fixture(scope="module")
def brief(make_config, tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """An undisturbed run of few steps; not to be written to."""
    folder = RunFolder(tmp_path_factory.mktemp("brief") / "whole")
    train(make_config(*BRIEF), folder.path)
    return folder


@pytest.mark.parametrize("function", ["fsync", "replace"])
@pytest.mark.parametrize("call", [1, 4, 5, 6, 9, 10, 11, 12])
def test_crash_in_any_write_then_resume(
    make_config, brief, tmp_path: Path, monkeypatch, function: str, call: int
) -> None:
    config, broken = make_config(*BRIEF), RunFolder(tmp_path / "broken")
    original, count = getattr(os, function), 0

    def fail_once(*arguments):
        nonlocal count
        count += 1
        if count == call:
            raise Crash
        return original(*arguments)

    monkeypatch.setattr(os, function, fail_once)
    with pytest.raises(Crash):
        train(config, broken.path)
    monkeypatch.undo()
    begun = broken.config.exists()
    train(config, broken.path, resume=begun)
    assert differences(brief, broken) == []


def test_crash_between_checkpoint_and_model(make_config, brief, tmp_path: Path, monkeypatch) -> None:
    config, broken = make_config(*BRIEF), RunFolder(tmp_path / "broken")
    original = Checkpoint.save_best

    def fail_in_the_last_epoch(self: Checkpoint, path: Path, *given: object) -> None:
        if self.state.epoch == config.training.epochs:
            raise Crash
        original(self, path, *given)

    monkeypatch.setattr(Checkpoint, "save_best", fail_in_the_last_epoch)
    with pytest.raises(Crash):
        train(config, broken.path)
    monkeypatch.undo()
    assert load_run(broken.path, "cpu").best["epoch"] == config.training.epochs - 1
    train(None, broken.path, resume=True)
    assert differences(brief, broken) == []


def full_disk(*_: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "checkpoint")


def test_a_failed_write_is_told_at_a_step_and_not_an_epoch_later(make_config, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(Checkpoint, "save", full_disk)
    seen: list[StepReport] = []

    class Waiting(Reporter):
        """Lets the thread fail."""

        def step(self, report: StepReport) -> None:
            seen.append(report)
            for thread in threading.enumerate():
                if report.epoch == 2 and thread.name == "checkpoint":
                    thread.join(200)

    with pytest.raises(ResourceError, match="no space left on the disk"):
        train(make_config("training.checkpoint_steps=0"), tmp_path / "run", reporter=Waiting())
    assert seen[-1].epoch <= 2
    assert len([report for report in seen if report.epoch == 2]) <= 1 < seen[-1].batches


def test_the_first_error_stays_where_a_write_fails_besides(make_config, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(Checkpoint, "save", full_disk)

    said = []

    class Failing(Reporter):
        def note(self, text: str) -> None:
            said.append(text)

        def epoch(self, report: EpochReport) -> None:
            raise NumericalError("weights have left the range")

    with pytest.raises(NumericalError, match="weights"):
        train(make_config("training.checkpoint_steps=0"), tmp_path / "run", reporter=Failing())
    assert "the checkpoint could not be written: [Errno 28] No space left" in said[-1]


def test_a_late_failure_is_told_to_all(make_config, tmp_path: Path, monkeypatch) -> None:
    """Processes that hold an error back tell it before training ends."""
    config = make_config()

    class Holding(Group):
        """As several processes do."""

        @contextmanager
        def holding_errors(self) -> Iterator[None]:
            try:
                yield
            except Exception as error:
                self.held_error = error

        def raise_held_errors(self) -> None:
            if self.held_error is not None:
                raise self.held_error

    @contextmanager
    def join_group() -> Iterator[Group]:
        yield Holding()

    def fail_in_the_last_epoch(self: Checkpoint, *_: object) -> None:
        if self.state.epoch == config.training.epochs:
            full_disk()

    monkeypatch.setattr(start, "join_group", join_group)
    monkeypatch.setattr(Checkpoint, "save", fail_in_the_last_epoch)
    with pytest.raises(ResourceError, match="no space left on the disk"):
        train(config, tmp_path / "run")


def test_a_second_signal_does_not_wait_for_the_disk(make_config, tmp_path: Path, monkeypatch) -> None:
    """And what was being written never counts: somebody else may be training there by then."""
    folder, original = RunFolder(tmp_path / "run"), Checkpoint.save
    finish, ended = threading.Event(), threading.Event()

    def slow(self: Checkpoint, *given: object) -> None:
        finish.wait(200)
        try:
            original(self, *given)
        finally:
            ended.set()

    class Stopping(Reporter):
        def step(self, report: StepReport) -> None:
            if report.step == 2:
                signal.raise_signal(signal.SIGTERM)
                threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGTERM)).start()

    monkeypatch.setattr(Checkpoint, "save", slow)
    with pytest.raises(Interrupted, match="stopped at once by a second SIGTERM; the last checkpoint stands"):
        train(make_config("training.checkpoint_steps=0"), folder.path, reporter=Stopping())
    assert not ended.is_set()  # The write is still under way, so nobody waited for it.
    finish.set()
    assert ended.wait(200)  # Python 3.11 takes a thread for ended if a signal interrupts the wait for it.
    assert not folder.checkpoint.exists()
    assert leftovers(folder.path) == []


def test_old_file_stands_and_nothing_is_left_over(tmp_path: Path, monkeypatch) -> None:
    path = tmp_path / "file"
    write_bytes(path, b"old")
    monkeypatch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(OSError(errno.EIO, "broken")))
    with pytest.raises(OSError, match="broken"):
        write_bytes(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_full_disk_leaves_the_last_checkpoint(make_config, brief, tmp_path: Path, monkeypatch) -> None:
    config, broken = make_config(*BRIEF), RunFolder(tmp_path / "broken")
    checkpoints = 0

    class FullDisk:
        """A file that takes half of what it is given."""

        def __init__(self, stream) -> None:
            self._stream = stream

        def __enter__(self):
            return self

        def __exit__(self, *_) -> None:
            self._stream.close()

        def write(self, content: bytes) -> None:
            self._stream.write(content[: len(content) // 2])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self._stream.name)

    def open_on_full_disk(path, mode):
        nonlocal checkpoints
        checkpoints += Path(path).name.startswith("checkpoint")
        stream = builtins.open(path, mode)  # noqa: SIM115 - closed by FullDisk
        return FullDisk(stream) if checkpoints == 3 else stream

    monkeypatch.setattr(files_module, "open", open_on_full_disk, raising=False)
    with pytest.raises(ResourceError, match=r"no space left on the disk while training .*checkpoint") as caught:
        train(config, broken.path)
    assert caught.value.exit_code == 4
    monkeypatch.undo()
    assert leftovers(broken.path) == []
    train(None, broken.path, resume=True)
    assert differences(brief, broken) == []


def test_leftovers_of_a_killed_process_go_on_resume(finished, tmp_path: Path) -> None:
    (tmp_path / "run" / f"checkpoint.safetensors{TEMPORARY_SUFFIX}").write_bytes(b"half")
    (tmp_path / "run" / f"vocabulary.txt.123-0{TEMPORARY_SUFFIX}").write_bytes(b"half")
    (tmp_path / "run" / "notes.txt").write_text("mine", "utf-8")
    train(None, tmp_path / "run", resume=True)
    assert [path.name for path in leftovers(tmp_path / "run")] == ["notes.txt"]


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        RuntimeError("[enforce fail at alloc_cpu.cpp:124] DefaultCPUAllocator: can't allocate memory"),
        RuntimeError("DefaultCPUAllocator: not enough memory: you tried to allocate 80 bytes."),
        OSError(errno.ENOMEM, "Cannot allocate memory"),
        OSError(errno.EDQUOT, "Disk quota exceeded"),
    ],
)
def test_resource_errors(error: Exception) -> None:
    with pytest.raises(ResourceError, match="while training"), resource_errors("training", "use less"):
        raise error


@pytest.mark.parametrize("error", [RuntimeError("shape mismatch"), OSError(errno.EACCES, "denied"), KeyError("x")])
def test_other_errors_pass_through(error: Exception) -> None:
    with pytest.raises(type(error)), resource_errors("training", "use less"):
        raise error
