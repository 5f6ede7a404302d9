"""Train several grammars and distil them into one: generations of members of several configurations, then a student."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from simplepcfg.errors import InputError, counted
from simplepcfg.runs.config.schema import RunConfig
from simplepcfg.runs.run_folder import RunFolder
from simplepcfg.training.opening import resumed_config, with_absolute_paths
from simplepcfg.training.reporting.progress import Reporter
from simplepcfg.training.seeds import MakeReporter, SeedsFolder, train_groups, train_seeds
from simplepcfg.training.signals import Interrupted
from simplepcfg.training.start import TrainingResult, train
from simplepcfg.training.teacher_choice import Choice, choose_teachers
from simplepcfg.training.teachers import check_teacher, check_teachers, teacher_folders

LEAST_GAIN = 0.01  # in the agreement of teachers, from one generation to the next
TEACHER_WEIGHT = 5.0
FULL_AGREEMENT = 0.97  # Teachers that agree as far as this have little to teach each other.


@dataclass(frozen=True, slots=True)
class DistillationFolder:
    """A folder with `members/NAME/seed-0`, … for each configuration, and the run `student`.

    Members of a second generation are in `generation-2/NAME/seed-0`, …, and so on.
    """

    path: Path

    @property
    def student(self) -> Path:
        """The run that learned from the members."""
        return self.path / "student"

    def generation(self, number: int) -> Path:
        """Return the folder of all members of a generation, counted from 1."""
        return self.path / ("members" if number == 1 else f"generation-{number}")

    def members(self, name: str, generation: int = 1) -> SeedsFolder:
        """Return the runs of one configuration."""
        return SeedsFolder(self.generation(generation) / name)

    def finished(self, name: str, generation: int = 1) -> list[Path]:
        """Return the finished runs of one configuration, in the order of seeds."""
        members = self.members(name, generation)
        runs = [members.folder(seed) for seed in members.seeds()] if members.exists() else []
        return [run for run in runs if RunFolder(run).model.exists()]

    def teachers(self) -> list[Path]:
        """Return the runs that teach the student, which must have begun; members as paths below that of the folder."""
        own, teachers = self.path.absolute(), map(Path, RunFolder(self.student).read_config().training.teacher)
        return [self.path / run.relative_to(own) if run.is_relative_to(own) else run for run in teachers]


def distil(
    configs: Mapping[str, RunConfig],
    directory: str | Path,
    seeds: int,
    *,
    seeds_of: Mapping[str, int] | None = None,
    teachers: Sequence[str] = (),
    student: RunConfig | None = None,
    keep: int = 2,
    generations: int = 1,
    jobs: int = 1,
    device: str = "auto",
    make_reporter: MakeReporter = lambda folder, config: Reporter(),
    note: Callable[[str], None] = lambda text: None,
) -> TrainingResult:
    """Train `seeds` members of each configuration, by its name, and then a student, by default of the first one.

    The student learns from the span marginals of `keep` members of each configuration, with the weight
    `TEACHER_WEIGHT` unless a configuration names another. `choose_teachers` says which members teach, and that it
    leaves out configurations that do not fit. `seeds_of` has the seeds of configurations with another number.
    `teachers` are runs, or folders of runs, that are there already; all of them teach beside the members.

    With more `generations` the members are trained again, as students of those before of other configurations.
    Generations end where the teachers' agreement no longer rises, and one that agrees less than the one before does not
    count.

    `jobs` members train at a time. What is in the folder already is not trained again, and what was interrupted goes
    on. Returns the result of the student's training. Raises InputError if the folder was begun with other settings,
    and whatever `train_seeds` and `train` raise.

        distil({"sn-pcfg": load_config("sn-pcfg", ["data.train=train.txt", "data.valid=valid.txt"])}, "runs/four", 4)
    """
    folder = DistillationFolder(Path(directory))
    if not configs:
        raise InputError("no configuration; name at least one")
    first, default = next(iter(configs.items()))
    student_base = default if student is None else student
    # What the student's training would refuse later.
    for name, config in {**configs, "the student": student_base}.items():
        check_teacher(name, config.model, config.data.preprocessing, first, default)
    counts = {name: (seeds_of or {}).get(name, seeds) for name in configs}
    for name, config in configs.items():
        _refuse_other_settings(folder.members(name), config, counts[name])
    run = RunFolder(folder.student)
    if not run.config.exists():
        check_teachers(student_config(student_base, teachers))

    def train_generation(number: int, before: Choice | None) -> Choice:
        chosen = configs
        if before is not None:
            taught_by = _teachers_of(configs, before)
            chosen = {name: student_config(configs[name], runs) for name, runs in taught_by.items()}
            note(f"generation {number}, taught by that before")
        groups = {name: folder.members(name, number) for name in chosen}
        _train_members(chosen, groups, counts, jobs, device, make_reporter, note)
        members = {name: folder.finished(name, number) for name in chosen}
        return choose_teachers(members, keep, student_base, folder.generation(number), device=device, note=note)

    if run.config.exists():  # One that was begun with another configuration or other members is refused.
        untrained = [folder.members(name).path for name in configs if not folder.finished(name)]
        resumed_config(student_config(student_base, [*folder.teachers(), *untrained]), run)
    try:
        choice = train_generation(1, None)
        for number in range(2, generations + 1):
            if choice.agreement >= FULL_AGREEMENT:
                note(f"no generation {number}: the teachers agree ({100 * choice.agreement:.1f} %)")
                break
            before, choice = choice, train_generation(number, choice)
            note(f"agreement of teachers: {100 * before.agreement:.1f}, now {100 * choice.agreement:.1f} %")
            if choice.agreement < before.agreement + LEAST_GAIN:
                choice = max(before, choice, key=lambda item: item.agreement)
                break
        config = student_config(student_base, [*choice.teachers, *teachers])
        note("student of " + ", ".join("/".join(Path(teacher).parts[-2:]) for teacher in config.training.teacher))
        resume, reporter = run.config.exists(), make_reporter(run.path, config)
        return train(config, run.path, resume=resume, device=device, reporter=reporter)
    except Interrupted as error:
        message = f"stopped, all saved; the same command goes on with what is in {shlex.quote(str(folder.path))}"
        raise Interrupted(message, error.signal_number) from None


def _teachers_of(configs: Iterable[str], before: Choice) -> dict[str, list[Path]]:
    """Return which runs of the generation before teach each configuration that was not left out: those of others."""
    teachers = {}
    for name in configs:
        if name not in before.left_out:
            others = [run for run in before.teachers if run.parent.name != name]
            teachers[name] = others or list(before.teachers)  # all, where no other teaches
    return teachers


def _train_members(
    configs: Mapping[str, RunConfig],
    groups: Mapping[str, SeedsFolder],
    counts: Mapping[str, int],
    jobs: int,
    device: str,
    make_reporter: MakeReporter,
    note: Callable[[str], None],
) -> None:
    """Train what is not there yet of the runs of each configuration, in the folder of its group.

    Raises InputError, before anything is trained, if a group was begun with other settings.
    """
    for name, config in configs.items():
        _refuse_other_settings(groups[name], config, counts[name])
    for name, config in configs.items():
        note(f"members of {name}: {counted(counts[name], 'run')}")
        if jobs == 1:
            new = None if groups[name].exists() else config
            train_seeds(new, groups[name].path, counts[name], device=device, make_reporter=make_reporter, note=note)
        elif not groups[name].exists():
            groups[name].create(config, counts[name])
    if jobs > 1:
        train_groups(groups, jobs, device=device, note=note)


def student_config(config: RunConfig, teachers: Sequence[Path | str]) -> RunConfig:
    """Return a configuration with these runs, or folders of runs, as teachers."""
    settings: dict[str, object] = {"teacher": teacher_folders([str(teacher) for teacher in teachers])}
    if "teacher_weight" not in config.training.model_fields_set:
        settings["teacher_weight"] = TEACHER_WEIGHT
    return config.model_copy(update={"training": config.training.model_copy(update=settings)})


def _refuse_other_settings(members: SeedsFolder, config: RunConfig, seeds: int) -> None:
    if not members.exists():
        return
    if members.read_config() != with_absolute_paths(config):
        raise InputError(f"{members.path} was begun with other settings; give the same as then, or another folder")
    begun = len(members.seeds())
    if begun != seeds:
        raise InputError(f"{members.path} was begun with {begun} seeds, not {seeds}; give as many, or another folder")
