"""Files written beside training."""

import threading

import pytest

from simplepcfg.training.background import BackgroundWriter


def test_jobs_run_elsewhere_one_after_another() -> None:
    writer, begin, seen = BackgroundWriter(), threading.Event(), []

    def first() -> None:
        begin.wait(10)
        seen.append(("first", threading.current_thread() is threading.main_thread()))

    writer.write(first)
    assert seen == []  # the caller has gone on
    begin.set()
    writer.write(lambda: seen.append(("second", False)))
    writer.wait()
    assert seen == [("first", False), ("second", False)]


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
