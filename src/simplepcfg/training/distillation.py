"""Train several grammars and distil them into one: members of different configurations and seeds, then a student."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from simplepcfg.errors import InputError
from simplepcfg.runs.config.schema import RunConfig
from simplepcfg.runs.run_folder import RunFolder
from simplepcfg.runs.tensor_files import read_tensor_file
from simplepcfg.training.reporting.progress import Reporter
from simplepcfg.training.seeds import MakeReporter, SeedsFolder, train_groups, train_seeds
from simplepcfg.training.signals import Interrupted
from simplepcfg.training.start import TrainingResult, resumed_config, train, with_absolute_paths


@dataclass(frozen=True, slots=True)
class DistillationFolder:
    """A folder with `members/NAME/seed-0`, … for each configuration, and the run `student`."""

    path: Path

    @property
    def student(self) -> Path:
        """The run that learned from the members."""
        return self.path / "student"

    def members(self, name: str) -> SeedsFolder:
        """Return the runs of one configuration."""
        return SeedsFolder(self.path / "members" / name)

    def best_members(self, name: str, keep: int) -> list[Path]:
        """Return the finished runs of one configuration with the largest validation likelihood, in the order of seeds.

        All have the same validation text and vocabulary. Seeds of one configuration can end far apart, and those with
        a low likelihood have worse trees, which a student would learn.
        """
        members = self.members(name)
        runs = [members.folder(seed) for seed in members.seeds()] if members.exists() else []
        finished = [run for run in runs if RunFolder(run).model.exists()]
        likelihoods = {run: read_tensor_file(RunFolder(run).model)[1]["log_likelihood"] for run in finished}
        best = sorted(finished, key=lambda run: likelihoods[run], reverse=True)[:keep]
        return [run for run in finished if run in best]


def distil(
    configs: Mapping[str, RunConfig],
    directory: str | Path,
    seeds: int,
    *,
    student: RunConfig | None = None,
    keep: int = 2,
    teacher_weight: float = 5.0,
    teacher_steps: int = 0,
    jobs: int = 1,
    device: str = "auto",
    make_reporter: MakeReporter = lambda folder, config: Reporter(),
    note: Callable[[str], None] = lambda text: None,
) -> TrainingResult:
    """Train `seeds` members of each configuration, by its name, and then a student, by default of the first one.

    The student learns from the span marginals of those `keep` members of each configuration that have the largest
    validation likelihood, with the weight `teacher_weight`, which falls to 0 over `teacher_steps`, or stays if they
    are 0; a configuration that names another weight or number of steps keeps them.
    `jobs` members train at a time. What is in the folder already is not trained again, and what was interrupted goes
    on. Returns the result of the student's training. Raises InputError if the folder was begun with other settings,
    and whatever `train_seeds` and `train` raise.

        distil({"sn-pcfg": load_config("sn-pcfg", ["data.train=train.txt", "data.valid=valid.txt"])}, "runs/four", 4)
    """
    folder = DistillationFolder(Path(directory))
    _refuse_what_cannot_be_taught({**configs, "the student": student} if student is not None else configs)
    for name, config in configs.items():
        _refuse_other_settings(folder.members(name), config, seeds)
    run = RunFolder(folder.student)

    def taught() -> RunConfig:
        # Where a configuration has no finished member, the folder of its members takes their place. A student that was
        # trained before has no such teacher, so that it is refused below as one of other members.
        best = [folder.best_members(name, keep) or [folder.members(name).path] for name in configs]
        teachers = [path for paths in best for path in paths]
        return student_config(student or next(iter(configs.values())), teachers, teacher_weight, teacher_steps)

    if run.config.exists():  # One that was begun with another configuration or other members is refused.
        resumed_config(taught(), run)
    try:
        _train_members(configs, folder, seeds, jobs, device, make_reporter, note)
    except Interrupted as error:
        raise Interrupted(_how_to_go_on(folder), error.signal_number) from None
    config = taught()
    named = ", ".join("/".join(Path(teacher).parts[-2:]) for teacher in config.training.teacher)
    note(f"student of {named}")
    reporter = make_reporter(run.path, config)
    try:
        return train(config, run.path, resume=run.config.exists(), device=device, reporter=reporter)
    except Interrupted as error:
        raise Interrupted(_how_to_go_on(folder), error.signal_number) from None


def _train_members(
    configs: Mapping[str, RunConfig],
    folder: DistillationFolder,
    seeds: int,
    jobs: int,
    device: str,
    make_reporter: MakeReporter,
    note: Callable[[str], None],
) -> None:
    """Train what is missing of the members, one after the other or `jobs` of all configurations at a time."""
    counted = f"{seeds} {'run' if seeds == 1 else 'runs'}"
    if jobs > 1:
        groups = {name: folder.members(name) for name in configs}
        for name, config in configs.items():
            note(f"members of {name}: {counted}")
            if not groups[name].exists():
                groups[name].create(config, seeds)
        train_groups(groups, jobs, device=device, note=note)
        return
    for name, config in configs.items():
        note(f"members of {name}: {counted}")
        members = folder.members(name)
        new = None if members.exists() else config
        train_seeds(new, members.path, seeds, device=device, make_reporter=make_reporter, note=note)


def student_config(config: RunConfig, teachers: Sequence[Path], weight: float, steps: int) -> RunConfig:
    """Return a configuration with the runs in these folders as teachers."""
    settings: dict[str, object] = {"teacher": tuple(str(path.absolute()) for path in teachers)}
    for key, value in (("teacher_weight", weight), ("teacher_steps", steps)):
        if key not in config.training.model_fields_set:
            settings[key] = value
    return config.model_copy(update={"training": config.training.model_copy(update=settings)})


def _refuse_what_cannot_be_taught(configs: Mapping[str, RunConfig]) -> None:
    """Raise before the members are trained what the student's training would raise after it."""
    if not configs:
        raise InputError("no configuration; name at least one")
    first, *_ = configs
    for name, config in configs.items():
        if getattr(config.model, "states", None):
            raise InputError(f"{name}: a model of kind {config.model.kind} has no trees; leave it out")
        if config.data.preprocessing != configs[first].data.preprocessing:
            raise InputError(
                f"{name} prepares words in another way than {first}; make data.lowercase, data.numbers, "
                "data.punctuation, data.eos and data.tokenize the same"
            )


def _refuse_other_settings(members: SeedsFolder, config: RunConfig, seeds: int) -> None:
    if not members.exists():
        return
    if members.read_config() != with_absolute_paths(config):
        raise InputError(f"{members.path} was begun with other settings; give the same as then, or another folder")
    available: Sequence[int] = members.seeds()
    if len(available) != seeds:
        raise InputError(
            f"{members.path} was begun with {len(available)} seeds, not {seeds}; give as many, or another folder"
        )


def _how_to_go_on(folder: DistillationFolder) -> str:
    return f"stopped, all saved; the same command goes on with what is in {shlex.quote(str(folder.path))}"
