"""Files written beside training."""

import threading
from pathlib import Path

import pytest

from simplepcfg.files import write_bytes
from simplepcfg.training.background_writer import Abandoned, BackgroundWriter


def test_jobs_run_elsewhere_one_after_another() -> None:
    writer, begin, seen = BackgroundWriter(), threading.Event(), []

    def first() -> None:
        begin.wait(60)
        seen.append(("first", threading.current_thread() is threading.main_thread()))

    writer.write(first)
    writer.check()
    assert seen == []  # the caller has gone on
    begin.set()
    writer.write(lambda: seen.append(("second", False)))
    writer.wait()
    assert seen == [("first", False), ("second", False)]
    assert "checkpoint" not in {thread.name for thread in threading.enumerate()}


@pytest.mark.parametrize("error", [OSError(28, "full"), KeyboardInterrupt()])
def test_a_failure_is_raised_once_by_whoever_asks_next(error: BaseException) -> None:
    def fail() -> None:
        raise error

    writer, seen = BackgroundWriter(), []
    writer.write(fail)
    with pytest.raises(type(error)):
        writer.write(lambda: seen.append(1))
    assert seen == []
    writer.wait()
    writer.write(lambda: seen.append(2))
    writer.wait()
    assert seen == [2]


def test_a_failure_is_seen_without_waiting() -> None:
    writer, began = BackgroundWriter(), threading.Event()

    def fail() -> None:
        began.set()
        raise OSError(28, "full")

    writer.write(fail)
    began.wait(60)
    assert writer._thread is not None
    writer._thread.join(10)
    with pytest.raises(OSError, match="full"):
        writer.check()
    writer.check()


def test_what_is_abandoned_changes_no_file(tmp_path: Path) -> None:
    """Neither the one being written nor those after it; nothing is left over, and nobody is kept waiting."""
    writer, begin, ends = BackgroundWriter(), threading.Event(), []
    path = tmp_path / "file"
    write_bytes(path, b"old")

    def job() -> None:
        begin.wait(60)
        try:
            write_bytes(path, b"new", writer.renaming())
        except Abandoned:
            ends.append("abandoned")
            raise

    writer.write(job)
    thread = writer._thread
    assert thread is not None
    assert thread.daemon
    writer.abandon()
    writer.wait()
    begin.set()
    thread.join(10)
    assert ends == ["abandoned"]
    assert [(file.name, file.read_bytes()) for file in tmp_path.iterdir()] == [("file", b"old")]


def test_a_signal_while_waiting_abandons(monkeypatch: pytest.MonkeyPatch) -> None:
    writer, end = BackgroundWriter(), threading.Event()
    writer.write(lambda: end.wait(60))
    thread = writer._thread
    assert thread is not None

    def torn_away() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(thread, "join", torn_away)
    with pytest.raises(KeyboardInterrupt):
        writer.wait()
    writer.wait()  # at once
    with pytest.raises(Abandoned), writer.renaming():
        pass
    end.set()
