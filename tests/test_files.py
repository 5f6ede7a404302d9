"""The one writer of whole files: what it replaces, what it writes to, and what it leaves behind."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from simplepcfg.errors import InputError
from simplepcfg.files import is_written_through, refuse_unwritable, write_bytes, write_text

needs_pipes = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes")


def test_a_file_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("old and longer", "utf-8")
    before = path.stat().st_ino
    write_bytes(path, (piece for piece in (b"ne", memoryview(b"w"))))
    assert path.read_text("utf-8") == "new"
    assert path.stat().st_ino != before
    assert os.listdir(tmp_path) == ["a.txt"]


@pytest.mark.parametrize("there", [True, False])
def test_a_link_stays_and_its_file_is_replaced(tmp_path: Path, there: bool) -> None:
    (tmp_path / "inner").mkdir()
    target, link = tmp_path / "inner" / "target.txt", tmp_path / "link.txt"
    if there:
        target.write_text("old", "utf-8")
    link.symlink_to(target)
    refuse_unwritable(link)
    write_text(link, "new")
    assert link.is_symlink()
    assert target.read_text("utf-8") == "new"
    assert sorted(os.listdir(tmp_path)) == ["inner", "link.txt"]
    assert os.listdir(tmp_path / "inner") == ["target.txt"]


@needs_pipes
@pytest.mark.parametrize("linked", [True, False])
def test_a_pipe_is_written_to(tmp_path: Path, linked: bool) -> None:
    pipe = path = tmp_path / "pipe"
    os.mkfifo(pipe)
    if linked:
        path = tmp_path / "link"
        path.symlink_to(pipe)
    received: list[str] = []
    reader = threading.Thread(target=lambda: received.append(pipe.read_text("utf-8")))
    reader.start()
    refuse_unwritable(path)
    write_text(path, "through the pipe\n" * 10_000)
    reader.join(60)
    assert received == ["through the pipe\n" * 10_000]
    assert pipe.is_fifo()


def test_a_device_is_written_to(tmp_path: Path) -> None:
    device = Path(os.devnull)
    before = device.stat()
    refuse_unwritable(device)
    write_text(device, "nothing stays")
    assert device.stat().st_rdev == before.st_rdev
    assert not is_written_through(tmp_path / "new.txt")


@pytest.mark.skipif(not Path("/dev/stdout").exists(), reason="needs /dev/stdout")
@pytest.mark.parametrize("to_file", [True, False])
@pytest.mark.parametrize("linked", [True, False])
def test_standard_output_by_its_name(tmp_path: Path, to_file: bool, linked: bool) -> None:
    """What a process prints before and after stands around what it writes, in a file as in a pipe."""
    link = tmp_path / "link"
    link.symlink_to("/proc/self/fd/1")
    program = (
        "from pathlib import Path; from simplepcfg.files import *; "
        f"out = Path({str(link if linked else '/dev/stdout')!r}); refuse_unwritable(out); "
        "print('before', flush=True); write_text(out, 'text\\n')"
    )
    if not to_file:
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
        assert done.stdout == "before\ntext\n"
        return
    path = tmp_path / "out.txt"
    with open(path, "w", encoding="utf-8") as stream:
        subprocess.run([sys.executable, "-c", program], stdout=stream, check=True)
    assert path.read_text("utf-8") == "before\ntext\n"
    assert sorted(os.listdir(tmp_path)) == ["link", "out.txt"]
    assert link.is_symlink()


def test_a_failure_names_the_file_and_leaves_the_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.txt"
    write_text(path, "old")

    def refuse(source: Path, target: Path) -> None:
        raise PermissionError(13, "Permission denied", str(source), None, str(target))

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(OSError, match=r"Permission denied: .*a\.txt'$"):
        write_text(path, "new")
    assert path.read_text("utf-8") == "old"
    assert os.listdir(tmp_path) == ["a.txt"]
    with pytest.raises(OSError, match=r"No such file or directory: .*missing/a\.txt'$"):
        write_text(tmp_path / "missing" / "a.txt", "new")


def test_what_cannot_be_written_is_refused_before(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"is a directory; give a file in it$"):
        refuse_unwritable(tmp_path)
    with pytest.raises(InputError, match=r"there is no folder .*missing; make it, or give another file$"):
        refuse_unwritable(tmp_path / "missing" / "a.txt")
