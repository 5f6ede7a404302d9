"""Several runs of one configuration that differ in their seeds, in folders beside each other."""

from __future__ import annotations

import re
import shlex
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from simplepcfg.errors import InputError, SimplePCFGError
from simplepcfg.runs.checksums import verify_checksum_line
from simplepcfg.runs.config.files import load_config, save_config
from simplepcfg.runs.config.schema import RunConfig
from simplepcfg.runs.run_folder import RunFolder
from simplepcfg.training.opening import with_absolute_paths
from simplepcfg.training.reporting.progress import Reporter
from simplepcfg.training.side_by_side import Ended, run_side_by_side
from simplepcfg.training.signals import Interrupted
from simplepcfg.training.start import TrainingResult, train

MOST_SEEDS = 1000
_FOLDER = re.compile(r"seed-(\d+)")

MakeReporter = Callable[[Path, RunConfig], Reporter]


class SeedsFailed(SimplePCFGError):
    """Some of several runs failed; the others are finished and kept."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


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
        RunFolder(self.path).refuse_if_taken()
        for seed in range(config.seed, config.seed + count):
            RunFolder(self.folder(seed)).refuse_if_taken()
        for seed in range(config.seed, config.seed + count):
            self.folder(seed).mkdir(parents=True, exist_ok=True)
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
class SeedOutcome:
    """The outcome of one run: its result, or the error that ended it."""

    seed: int
    result: TrainingResult | None
    error: str | None = None
    exit_code: int = 0


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

    def interrupted(self, signal_number: int) -> Interrupted:
        """Return the error after all runs were stopped."""
        return Interrupted(f"stopped, all saved; go on with: {self.folder.resume_command}", signal_number)


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
) -> list[SeedOutcome]:
    """Train a run for each of `seeds` seeds, from the configuration's on, into seed-0, seed-1, … of a new folder.

    Without a configuration the runs in the folder go on where they were: finished ones stay, interrupted ones resume,
    others begin; `overrides` may change what a resumed run may change. One run after the other, each with the reporter
    that `make_reporter` gives for its folder, or `jobs` at a time in processes, whose lines `note` is told. A run that
    fails does not end the others; SeedsFailed says at the end which. Interrupted says how to go on with all.
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
        save_config(shared, folder.config)
    plan, present = _Plan(folder, shared, tuple(overrides), device, tuple(logs)), folder.seeds()
    if jobs == 1:
        outcomes = _one_by_one(plan, present, make_reporter, note)
    else:
        outcomes = _side_by_side(plan, present, jobs, note)
    failed = {f"seed-{outcome.seed}": outcome for outcome in outcomes if outcome.error is not None}
    if config is not None and len(failed) == len(outcomes):
        folder.withdraw()
    if failed:
        raise _failure(failed, len(outcomes), f"the others are kept, go on with: {folder.resume_command}")
    return outcomes


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
    ended, signal_number = run_side_by_side(_in_a_process, tasks, jobs, note)
    if signal_number is not None:
        raise Interrupted("stopped, all saved", signal_number)
    failed = {name: item for name, item in ended.items() if item.error is not None}
    if failed:
        for folder in groups.values():
            folder.withdraw()
        raise _failure(failed, len(tasks), "the others are kept, begin again")


def _failure(failed: Mapping[str, Ended | SeedOutcome], runs: int, advice: str) -> SeedsFailed:
    """Return the error for some of several runs, with what the first of them said."""
    first = next(iter(failed.values()))
    message = f"{len(failed)} of {runs} runs failed ({', '.join(failed)}): {first.error}; {advice}"
    return SeedsFailed(message, first.exit_code or 1)


def train_one(plan: _Plan, seed: int, reporter: Reporter) -> TrainingResult:
    """Begin the run of a seed, or go on with it."""
    run = RunFolder(plan.folder.folder(seed))
    if run.config.exists():
        return train(run.read_config(plan.overrides), run.path, resume=True, device=plan.device, reporter=reporter)
    return train(plan.config(seed), run.path, device=plan.device, reporter=reporter)


def _one_by_one(
    plan: _Plan, seeds: Sequence[int], make_reporter: MakeReporter, note: Callable[[str], None]
) -> list[SeedOutcome]:
    outcomes = []
    for number, seed in enumerate(seeds, start=1):
        note(f"seed-{seed}, run {number} of {len(seeds)}")
        folder = plan.folder.folder(seed)
        try:
            outcomes.append(SeedOutcome(seed, train_one(plan, seed, make_reporter(folder, plan.config(seed)))))
        except Interrupted as error:
            raise plan.interrupted(error.signal_number) from None
        except Exception as error:  # whatever it is, the other runs do not depend on it
            ended = explained(error)
            note(f"seed-{seed} failed: {ended.traceback or ended.error}")
            outcomes.append(SeedOutcome(seed, None, ended.error, ended.exit_code))
            if number == 1 and isinstance(error, InputError) and not RunFolder(folder).holds_a_run():
                plan.folder.withdraw()  # a mistake that all runs would share
                raise
    return outcomes


def _side_by_side(plan: _Plan, seeds: Sequence[int], jobs: int, note: Callable[[str], None]) -> list[SeedOutcome]:
    ended, signal_number = run_side_by_side(_in_a_process, {f"seed-{seed}": (plan, seed) for seed in seeds}, jobs, note)
    if signal_number is not None:
        raise plan.interrupted(signal_number)
    return [
        SeedOutcome(seed, item.result if isinstance(item.result, TrainingResult) else None, item.error, item.exit_code)
        for seed in seeds
        for item in (ended[f"seed-{seed}"],)
    ]


def _in_a_process(tell: Callable[[str], None], task: tuple[_Plan, int]) -> Ended:
    from simplepcfg.training.reporting.event_logs import CombinedReporter
    from simplepcfg.training.reporting.progress import PlainReporter
    from simplepcfg.training.reporting.reporters import make_reporter

    plan, seed = task

    class Told(PlainReporter):
        def note(self, text: str) -> None:
            """Send a line to the process that started this one."""
            tell(text)

    try:
        reporter: Reporter = Told()
        if plan.logs:
            settings = plan.config(seed).model_dump()
            reporter = CombinedReporter([reporter, make_reporter(True, plan.logs, plan.folder.folder(seed), settings)])
        return Ended(result=train_one(plan, seed, reporter))
    except Interrupted as error:
        return Ended(error=str(error), exit_code=error.exit_code)  # counts where the others were not stopped, too
    except Exception as error:
        return explained(error)


def explained(error: Exception) -> Ended:
    """Return an error as the line and the exit code that the command line would give it; of a defect all of it."""
    if isinstance(error, SimplePCFGError):
        return Ended(error=str(error), exit_code=error.exit_code)
    if isinstance(error, OSError):
        place = f"{error.filename}: " if error.filename is not None else ""
        return Ended(error=f"{place}{error.strerror or error}", exit_code=2)
    trace = "".join(traceback.format_exception(error)).rstrip()
    return Ended(error=f"{type(error).__name__}: {error}", exit_code=1, traceback=trace)
