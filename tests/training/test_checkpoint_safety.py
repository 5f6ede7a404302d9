"""After a failure in the middle of a write there is always a whole old file or a whole new one."""

import builtins
import errno
import os
from pathlib import Path

import pytest

from simplepcfg.errors import ResourceError
from simplepcfg.training import RunFolder, load_run, train
from simplepcfg.training import files as files_module
from simplepcfg.training.checkpoint import Checkpoint
from simplepcfg.training.failures import resource_errors
from simplepcfg.training.files import TEMPORARY_SUFFIX, write_bytes
from toy_runs import differences, leftovers


class Crash(BaseException):
    """Stands for the end of the process."""


@pytest.mark.parametrize("function", ["fsync", "replace"])
@pytest.mark.parametrize("call", [1, 4, 5, 6, 9, 10, 11, 12])
def test_crash_in_any_write_then_resume(
    make_config, whole, tmp_path: Path, monkeypatch, function: str, call: int
) -> None:
    config, broken = make_config(), RunFolder(tmp_path / "broken")
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
    assert differences(whole, broken) == []


def test_crash_between_checkpoint_and_model(make_config, whole, tmp_path: Path, monkeypatch) -> None:
    config, broken = make_config(), RunFolder(tmp_path / "broken")
    original = Checkpoint.save_best

    def fail_in_the_last_epoch(self: Checkpoint, path: Path) -> None:
        if self.state.epoch == config.training.epochs:
            raise Crash
        original(self, path)

    monkeypatch.setattr(Checkpoint, "save_best", fail_in_the_last_epoch)
    with pytest.raises(Crash):
        train(config, broken.path)
    monkeypatch.undo()
    assert load_run(broken.path, "cpu").best["epoch"] == config.training.epochs - 1
    train(None, broken.path, resume=True)
    assert differences(whole, broken) == []


def test_old_file_stands_and_nothing_is_left_over(tmp_path: Path, monkeypatch) -> None:
    path = tmp_path / "file"
    write_bytes(path, b"old")
    monkeypatch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(OSError(errno.EIO, "broken")))
    with pytest.raises(OSError, match="broken"):
        write_bytes(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_full_disk_leaves_the_last_checkpoint(make_config, whole, tmp_path: Path, monkeypatch) -> None:
    config, broken = make_config(), RunFolder(tmp_path / "broken")
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
    assert differences(whole, broken) == []


def test_leftovers_of_a_killed_process_go_on_resume(make_config, tmp_path: Path) -> None:
    train(make_config("training.epochs=1"), tmp_path / "run")
    (tmp_path / "run" / f"checkpoint.safetensors{TEMPORARY_SUFFIX}").write_bytes(b"half")
    (tmp_path / "run" / "vocabulary.txt.123.tmp").write_bytes(b"half")
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
