"""Full disks, folders that cannot be written to, limits on the size of a file, and two processes in one folder."""

import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from attacks.kills import fork
from attacks.outcomes import Outcome
from simplepcfg.errors import InputError, SimplePCFGError
from simplepcfg.runs.config.files import load_config
from simplepcfg.runs.run_folder import RunFolder, load_run
from simplepcfg.training import train
from simplepcfg.training.reporting.progress import Reporter, StepReport
from toy_runs import TOY_SETTINGS, differences, toy_sentences

NOBODY = 65534


class Setting:
    """A text and an undisturbed run of it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.text = folder / "train.txt"
        self.text.write_text("\n".join(toy_sentences(random.Random(1), 60)) + "\n", "utf-8")
        self.whole = RunFolder(folder / "whole")
        self.train(self.whole.path)

    def train(self, place: Path, resume: bool = False, reporter: Reporter | None = None) -> None:
        config = load_config(overrides=[*TOY_SETTINGS, f'data.train="{self.text}"'], environment={})
        train(config, place, resume=resume, reporter=reporter)

    def finding(self, place: Path, label: str) -> str | None:
        """What is wrong after a failed run and its resumption, compared with the undisturbed one."""
        run = RunFolder(place)
        try:
            if run.model.exists():
                load_run(place, "cpu")
            self.train(place, resume=run.config.exists())
        except Exception as error:
            return f"{label}: {type(error).__name__}: {error}"
        found = differences(self.whole, run)
        return f"{label}: {found}" if found else None


def _in_child(work: Callable[[], None]) -> tuple[int, str]:
    """Exit status (2 for an error of one line, 1 for another) and what the work ended with."""
    reading, writing = os.pipe()

    def run() -> None:
        try:
            work()
        except SimplePCFGError as error:
            os.write(writing, str(error).encode())
            os._exit(1 if "\n" in str(error) else 2)
        except BaseException as error:
            os.write(writing, repr(error).encode())
            os._exit(1)

    child = fork(run)
    os.close(writing)
    with os.fdopen(reading, "rb") as stream:
        said = stream.read().decode()
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), said


def file_size_limits(setting: Setting, count: int, seed: int = 0) -> Outcome:
    """The system refuses to let any file grow beyond a random size, as a quota would."""
    outcome = Outcome("a limit on the size of files while training")
    rng = random.Random(seed)
    largest = setting.whole.checkpoint.stat().st_size
    for number in range(count):
        place, limit = setting.folder / f"limited-{number}", rng.randrange(1, largest)

        def work(place: Path = place, limit: int = limit) -> None:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
            setting.train(place)

        status, said = _in_child(work)
        if status != 2:
            outcome.count(f"limit {limit}: status {status}: {said[:200]}")
            continue
        outcome.count(setting.finding(place, f"limit {limit}"))
    return outcome


@contextmanager
def small_disk(place: Path, size: int) -> Iterator[bool]:
    """A file system of so many bytes, where the system lets one be mounted."""
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "none", str(place)]
    mounted = subprocess.run(command, capture_output=True, check=False).returncode == 0 if os.geteuid() == 0 else False
    try:
        yield mounted
    finally:
        if mounted:
            subprocess.run(["umount", str(place)], check=False)


def full_disks(setting: Setting, count: int, seed: int = 0) -> Outcome:
    """A disk that fills up at a random point of the run; afterwards there is room again."""
    outcome = Outcome("a full disk while training")
    rng = random.Random(seed)
    needed = sum(path.stat().st_size for path in setting.whole.path.iterdir())
    for number in range(count):
        size = rng.randrange(8192, 2 * needed)
        with small_disk(setting.folder / f"disk-{number}", size) as mounted:
            if not mounted:
                outcome.attack += " (no disk could be mounted)"
                return outcome
            place = setting.folder / f"disk-{number}" / "run"
            status, said = _in_child(lambda place=place: setting.train(place))
            if status == 0:
                outcome.count(None)
                continue
            if status != 2:
                outcome.count(f"{size} bytes: status {status}: {said[:200]}")
                continue
            subprocess.run(["mount", "-o", "remount,size=64m", str(place.parent)], check=True)
            outcome.count(setting.finding(place, f"{size} bytes"))
    return outcome


def read_only_folders(setting: Setting) -> Outcome:
    """Beginning, resuming and saving where nothing may be written: one line, nothing changed."""
    outcome = Outcome("a folder that cannot be written to")
    place = setting.folder / "locked" / "run"
    setting.train(place)
    before = {path.name: path.read_bytes() for path in place.iterdir()}

    def as_nobody(work: Callable[[], None]) -> Callable[[], None]:
        def run() -> None:
            if os.geteuid() == 0:
                os.setgid(NOBODY)
                os.setuid(NOBODY)
            work()

        return run

    for path in (setting.folder, *setting.folder.parents):  # so that only the folder itself is in the way
        if path.is_relative_to(tempfile.gettempdir()) and path != Path(tempfile.gettempdir()):
            path.chmod(path.stat().st_mode | 0o055)
    for folder in (place, place.parent):
        folder.chmod(0o555)
    try:
        for label, work in (
            ("resume", lambda: setting.train(place, resume=True)),
            ("begin", lambda: setting.train(place.parent / "new")),
        ):
            status, said = _in_child(as_nobody(work))
            outcome.count(None if status == 2 else f"{label}: status {status}: {said[:200]}")
        after = {path.name: path.read_bytes() for path in place.iterdir()}
        outcome.count(None if after == before else "files changed")
    finally:
        for folder in (place.parent, place):
            folder.chmod(0o755)
    return outcome


def two_processes(setting: Setting, count: int) -> Outcome:
    """A second process in the folder is refused, whenever it comes, and the first one's result is what it would be."""
    outcome = Outcome("two processes on one run folder")
    for number in range(count):
        place = setting.folder / f"shared-{number}"
        refused: list[bool] = []

        class Second(Reporter):
            def step(
                self, report: StepReport, place: Path = place, refused: list[bool] = refused, number: int = number
            ) -> None:
                if report.step == 1 + number % 20:
                    status, said = _in_child(lambda: setting.train(place, resume=True))
                    refused.append(status == 2 and "another process is training here" in said)

        setting.train(place, reporter=Second())
        found = differences(setting.whole, RunFolder(place))
        outcome.count(None if refused == [True] and not found else f"{number}: refused {refused}, {found}")
    return outcome


def jumping_clock(setting: Setting, count: int, seed: int = 0) -> Outcome:
    """The wall clock goes back and forth by years; results do not depend on it."""
    import time

    outcome = Outcome("a clock that jumps while training")
    original = time.time
    for number in range(count):
        rng = random.Random(f"{seed} {number}")
        place = setting.folder / f"clock-{number}"
        time.time = lambda rng=rng: original() + rng.uniform(-1e8, 1e8)
        try:
            setting.train(place)
            found = differences(setting.whole, RunFolder(place))
            outcome.count(str(found) if found else None)
        except InputError as error:
            outcome.count(str(error))
        finally:
            time.time = original
    return outcome


if not hasattr(os, "fork"):
    sys.exit("these attacks need fork")
