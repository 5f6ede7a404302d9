"""Several runs of one configuration that differ in their seeds, in folders beside each other."""

from __future__ import annotations

import re
import shlex
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from simplepcfg.errors import InputError, NumericalError, SimplePCFGError
from simplepcfg.runs.checksums import verify_checksum_line
from simplepcfg.runs.config.files import load_config, save_config
from simplepcfg.runs.config.schema import RunConfig
from simplepcfg.runs.run_folder import RunFolder
from simplepcfg.training.opening import refuse_changes, with_absolute_paths
from simplepcfg.training.reporting.event_logs import with_logs
from simplepcfg.training.reporting.progress import PlainReporter, Reporter
from simplepcfg.training.side_by_side import Outcome, run_side_by_side
from simplepcfg.training.signals import Interrupted
from simplepcfg.training.start import TrainingResult, train

MOST_SEEDS = 1000
_FOLDER = re.compile(r"seed-(\d+)")

MakeReporter = Callable[[Path, RunConfig], Reporter]


class SeedsFailed(SimplePCFGError):
    """Some of several runs failed; the others are finished and kept."""


@dataclass(frozen=True, slots=True)
class SeedsFolder:
    """A folder with a run for each seed: seed-0, seed-1, …, and the configuration that they share."""

    path: Path

    @property
    def config(self) -> Path:
        """The configuration of all runs but for their seeds; it tells such a folder from others."""
        return self.path / "seeds.toml"

    @property
    def resume_command(self) -> str:
        """Command that goes on with the runs that are not finished."""
        return f"simplepcfg train --resume {shlex.quote(str(self.path))}"

    def exists(self) -> bool:
        """Tell whether runs of several seeds were ever begun here."""
        return self.config.is_file()

    def folder(self, seed: int) -> Path:
        """Return the folder of one run."""
        return self.path / f"seed-{seed}"

    def seeds(self) -> list[int]:
        """Return the seeds in order; a folder stands for each, empty where the run has not begun."""
        names = [item.name for item in self.path.iterdir() if item.is_dir()]
        return sorted(int(match[1]) for name in names if (match := _FOLDER.fullmatch(name)))

    def create(self, config: RunConfig, count: int) -> None:
        """Write the configuration and make a folder for each of `count` seeds, from the configuration's on."""
        if not 1 <= count <= MOST_SEEDS:
            raise InputError(f"{count} seeds; train 1 to {MOST_SEEDS:,} runs together")
        if self.exists():
            raise InputError(f"{self.path} already holds runs of several seeds; go on with `{self.resume_command}`")
        folders = [self.folder(seed) for seed in range(config.seed, config.seed + count)]
        for path in (self.path, *folders):
            RunFolder(path).refuse_if_taken()
        for path in folders:
            path.mkdir(parents=True, exist_ok=True)
        save_config(with_absolute_paths(config), self.config)

    def withdraw(self) -> None:
        """Undo `create` where no run has begun, so that the folder is free for a corrected configuration."""
        if any(RunFolder(self.folder(seed)).holds_a_run() for seed in self.seeds()):
            return
        self.config.unlink(missing_ok=True)
        for seed in self.seeds():
            if not any(self.folder(seed).iterdir()):
                self.folder(seed).rmdir()

    def read_config(self, overrides: Sequence[str] = ()) -> RunConfig:
        """Read the shared configuration, changed by overrides."""
        verify_checksum_line(self.config, "restore it or, if you changed it on purpose, delete its first line")
        return load_config(self.config, overrides, environment={})


@dataclass(frozen=True, slots=True)
class _Plan:
    """What the runs of one folder have in common."""

    folder: SeedsFolder
    shared: RunConfig
    overrides: Sequence[str]  # of runs that go on
    device: str
    logs: Sequence[str] = ()

    def config(self, seed: int) -> RunConfig:
        """Return the configuration of one run."""
        return self.shared.model_copy(update={"seed": seed})

    def train(self, seed: int, reporter: Reporter) -> TrainingResult:
        """Begin the run of a seed, or go on with it."""
        run = RunFolder(self.folder.folder(seed))
        begun = run.config.exists()
        config = run.read_config(self.overrides) if begun else self.config(seed)
        return train(config, run.path, resume=begun, device=self.device, reporter=reporter)


def train_seeds(
    config: RunConfig | None,
    directory: str | Path,
    seeds: int = 0,
    *,
    overrides: Sequence[str] = (),
    device: str = "auto",
    jobs: int = 1,
    logs: Sequence[str] = (),
    make_reporter: MakeReporter = lambda folder, config: Reporter(),
    note: Callable[[str], None] = lambda text: None,
) -> dict[str, TrainingResult]:
    """Train a run for each of `seeds` seeds, from the configuration's on, into seed-0, seed-1, … of a new folder.

    Without a configuration the runs in the folder go on where they were: finished ones stay, interrupted ones resume,
    others begin; `overrides` may change what a resumed run may change. One run after the other, each with the reporter
    that `make_reporter` gives for its folder, or `jobs` at a time in processes, whose lines `note` is told. Returns the
    results by the names of the runs' folders. A run that fails does not end the others; SeedsFailed says at the end
    which. Interrupted says how to go on with all.
    """
    folder = SeedsFolder(Path(directory))
    if jobs < 1:
        raise InputError(f"jobs = {jobs}; train at least one run at a time")
    if config is not None:
        folder.create(config, seeds)
    elif not folder.exists():
        raise InputError(f"{folder.path}: no runs of several seeds; give a folder that holds {folder.config.name}")
    shared = folder.read_config(overrides)
    if overrides:
        refuse_changes(folder.read_config(), with_absolute_paths(shared), folder.config)
        save_config(shared, folder.config)
    plan = _Plan(folder, shared, tuple(overrides), device, tuple(logs))
    tasks = {f"seed-{seed}": (plan, seed) for seed in folder.seeds()}
    stopped = f"stopped, all saved; go on with: {folder.resume_command}"
    if jobs == 1:
        outcomes = _one_by_one(tasks, make_reporter, note, stopped)
    else:
        outcomes = run_side_by_side(_in_a_process, tasks, jobs, note, stopped)
    new = [] if config is None else [folder]
    return _results(outcomes, new, f"go on with: {folder.resume_command}")


def train_groups(
    groups: Mapping[str, SeedsFolder],
    jobs: int,
    *,
    device: str = "auto",
    note: Callable[[str], None] = lambda text: None,
) -> None:
    """Begin or go on with the runs of several folders, `jobs` at a time, each in a process of its own.

    A run that fails does not end the others; SeedsFailed says at the end which, and a folder none of whose runs has
    begun is withdrawn. Raises Interrupted when all were stopped.
    """
    plans = {name: _Plan(folder, folder.read_config(), (), device) for name, folder in groups.items()}
    tasks = {f"{name} seed-{seed}": (plan, seed) for name, plan in plans.items() for seed in plan.folder.seeds()}
    outcomes = run_side_by_side(_in_a_process, tasks, jobs, note, "stopped, all saved")
    _results(outcomes, list(groups.values()), "begin again")


def _results(outcomes: Mapping[str, Outcome], new: Sequence[SeedsFolder], go_on: str) -> dict[str, TrainingResult]:
    """Return the results of all runs; where one failed, withdraw `new` folders without a run, and raise SeedsFailed.

    `go_on` says how the runs that are kept go on; with numbers out of range all of them would fail again.
    """
    failed = {name: item for name, item in outcomes.items() if item.error is not None}
    if failed:
        for folder in new:
            folder.withdraw()
        first = next(iter(failed.values()))
        if len(failed) < len(outcomes):
            advice = f"the others are kept, {go_on}"
        elif new and not any(folder.exists() for folder in new):
            advice = "nothing was kept, begin again"
        else:
            advice = "begin again in another folder" if first.exit_code == NumericalError.exit_code else go_on
        message = f"{len(failed)} of {len(outcomes)} runs failed ({', '.join(failed)}): {first.error}; {advice}"
        raise SeedsFailed(message, first.exit_code or 1)
    return {name: item.result for name, item in outcomes.items() if item.result is not None}


def _one_by_one(
    tasks: Mapping[str, tuple[_Plan, int]], make_reporter: MakeReporter, note: Callable[[str], None], stopped: str
) -> dict[str, Outcome]:
    outcomes = {}
    for number, (name, (plan, seed)) in enumerate(tasks.items(), start=1):
        note(f"{name}, run {number} of {len(tasks)}")
        folder = plan.folder.folder(seed)
        try:
            outcomes[name] = Outcome(plan.train(seed, make_reporter(folder, plan.config(seed))))
        except Interrupted as error:
            raise Interrupted(stopped, error.signal_number) from None
        except Exception as error:  # whatever it is, the other runs do not depend on it
            outcomes[name] = failure_of(error)
            note(f"{name} failed: {outcomes[name].traceback or outcomes[name].error}")
            if number == 1 and isinstance(error, InputError) and not RunFolder(folder).holds_a_run():
                plan.folder.withdraw()  # a mistake that all runs would share
                raise
    return outcomes


def _in_a_process(tell: Callable[[str], None], task: tuple[_Plan, int]) -> Outcome:
    plan, seed = task

    class TellingReporter(PlainReporter):
        def note(self, text: str) -> None:
            """Send a line to the process that started this one."""
            tell(text)

    try:
        settings = plan.config(seed).model_dump()
        return Outcome(plan.train(seed, with_logs(TellingReporter(), plan.logs, plan.folder.folder(seed), settings)))
    except Interrupted as error:
        return Outcome(error=str(error), exit_code=error.exit_code)  # counts where the others were not stopped, too
    except Exception as error:
        return failure_of(error)


def failure_of(error: Exception) -> Outcome:
    """Return an error as the line and the exit code that the command line would give it; of a defect all of it."""
    if isinstance(error, SimplePCFGError):
        return Outcome(error=str(error), exit_code=error.exit_code)
    if isinstance(error, OSError):
        place = f"{error.filename}: " if error.filename is not None else ""
        return Outcome(error=f"{place}{error.strerror or error}", exit_code=2)
    trace = "".join(traceback.format_exception(error)).rstrip()
    return Outcome(error=f"{type(error).__name__}: {error}", exit_code=1, traceback=trace)
