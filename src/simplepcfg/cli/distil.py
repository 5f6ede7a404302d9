"""`simplepcfg distil`: an ensemble, a student of it, and what each is worth, by one command."""

import os
import re
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from simplepcfg.cli.options import Device, Quiet
from simplepcfg.cli.output import note, results_console, write_json, write_text
from simplepcfg.cli.requests import arg, flag, opt, options, takes
from simplepcfg.cli.train import settings_of
from simplepcfg.errors import InputError

if TYPE_CHECKING:
    from simplepcfg.runs.config.schema import RunConfig

SUMMARY = "Train several grammars, and one that learns from them."
# Members of several kinds whose mean had the best trees, by type of device, and the student. On a GPU the third kind,
# which begins without a branching bias, remains where the others fail: in short texts.
THOUSAND_WORDS = "sn-pcfg-1024,data.vocabulary_size=1000,data.unknown_classes=endings"
MEMBERS = {"cuda": ("sn-pcfg-biased", "rank-pcfg-biased", THOUSAND_WORDS), "cpu": ("sn-pcfg-128", "rank-pcfg-64")}
STUDENT = {"cuda": "sn-pcfg", "cpu": "sn-pcfg-128"}


@options
class DistilRequest:
    """Which grammars are trained on what, and which of them teach."""

    train: str = opt("--train", "FILE", "Training text, one sentence a line.", ...)
    valid: str = opt("--valid", "FILE", "Validation text.", ...)
    out: Path = opt("--out", "DIR", "Folder of all runs and of the table.", ...)
    configs: list[str] | None = arg(
        "CONFIG",
        "TOML files or built-in names, of the members; as NAME:SEEDS,KEY=VALUE,… with another number of seeds and "
        f"keys of its own. By default {' and '.join(MEMBERS['cuda'])}, with {STUDENT['cuda']} as the student; on "
        f"a CPU {' and '.join(MEMBERS['cpu'])}, with {STUDENT['cpu']}.",
        None,
    )
    trees: str | None = opt("--test", "TREES", "Evaluate members, ensemble and student on these, at the end.")
    student: str | None = opt(
        "--student",
        "CONFIG",
        "Configuration of the student, also NAME,KEY=VALUE,…; by default that of the first members.",
    )
    teachers: list[str] | None = opt(
        "--teacher", "RUN", "A run that is there already and teaches beside the members, english say; repeatable."
    )
    seeds: int = opt("--seeds", "K", "Members of each configuration.", 3, min=1)
    keep: int = opt("--keep", "K", "Members of each configuration that teach.", 2, min=1)
    generations: int = opt(
        "--generations",
        "K",
        "Rounds of members, at most; from the second on, they are students of other configurations.",
        1,
        min=1,
    )
    jobs: int | None = opt(
        "--jobs", "K", "Members that train at a time.  [default: one a core on a CPU, otherwise 1]", min=1
    )
    settings: list[str] | None = opt(
        "--set", "KEY=VALUE", "Change one key of every configuration that does not name it itself; repeatable."
    )
    raw: bool = flag("--raw", "Both texts are raw: paragraphs, which are split into sentences and words.")
    device: Device = "auto"
    quiet: Quiet = False


@takes(DistilRequest)
def command(request: DistilRequest) -> None:
    """Train K seeds of each configuration, then one grammar that learns from the span marginals of the best of them.

    Members are in DIR/members/CONFIG/seed-0, …, the student in DIR/student: ordinary runs. The command can be stopped
    at any point, and the same command goes on. Members whose trees branch to one side, or are unlike those of the
    likeliest member that does not, do not teach (DIR/members/teachers.json). With --test, DIR/table.md and
    DIR/scores.json say what the members, the teachers among them together, and the student are worth beside
    right-branching trees.

    \b
    Example:
      simplepcfg distil --jobs 9 --train train.txt --valid valid.txt --test test.trees --out runs/distilled
      simplepcfg distil sn-pcfg-128 --seeds 2 --teacher english --train train.txt --valid valid.txt --out runs/small
      simplepcfg distil sn-pcfg-1024:2 sn-pcfg-biased:4 rank-pcfg-biased,model.nonterminals=1024 \\
        --student sn-pcfg --generations 2 --train train.txt --valid valid.txt --out runs/three-kinds
    """
    from simplepcfg.data.inputs import expanded
    from simplepcfg.data.readers import sniff
    from simplepcfg.runs.config.files import load_config
    from simplepcfg.runs.device import resolve_device, usable_cores
    from simplepcfg.training.distillation import DistillationFolder, distil
    from simplepcfg.training.reporting.reporters import make_reporter

    changes = _settings(request)
    configs, student = request.configs, request.student
    kind = "cpu" if resolve_device(request.device).type == "cpu" else "cuda"
    if not configs:
        configs, student = list(MEMBERS[kind]), student or STUDENT[kind]
    members = {member.name: member for member in map(Member.parse, configs)}
    if len(members) < len(configs):
        raise InputError(f"two of {', '.join(configs)} have the same name; rename one, or ask for more --seeds")

    def loaded(member: Member) -> "RunConfig":
        return load_config(member.config, [*changes, *member.settings])

    chosen = {name: loaded(member) for name, member in members.items()}
    texts = dict.fromkeys(text for config in chosen.values() for text in (config.data.train, config.data.valid))
    for text in filter(None, texts):
        for file in expanded([text] if isinstance(text, str) else text):
            sniff(file)  # A file that cannot be read is refused before a folder is begun for it.
    result = distil(
        chosen,
        request.out,
        request.seeds,
        seeds_of={name: member.seeds for name, member in members.items() if member.seeds is not None},
        teachers=request.teachers or (),
        student=None if student is None else loaded(Member.parse(student)),
        keep=request.keep,
        generations=request.generations,
        jobs=request.jobs or (usable_cores() if kind == "cpu" else 1),
        device=request.device,
        make_reporter=lambda folder, config: make_reporter(request.quiet, (), folder, config.model_dump()),
        note=lambda text: note(text, request.quiet),
    )
    note(f"the student is in {result.directory}", request.quiet)
    if request.trees is not None:
        folder = DistillationFolder(request.out)
        each = range(1, request.generations + 1)
        groups = [folder.members(name, generation) for generation in each for name in members]
        teachers = folder.teachers()
        asked = [group.path for group in groups if group.exists()]
        asked += [path for path in teachers if not path.is_relative_to(folder.path)]
        report(request, request.trees, list(map(str, asked)), list(map(str, teachers)), str(folder.student))


def _settings(request: DistilRequest) -> list[str]:
    """Return the settings of all configurations. Raises InputError for text that cannot be read again and again."""
    from simplepcfg.data.readers import has_dependencies, sniff

    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise InputError("torchrun's processes share one run; distil without it, with --jobs K")
    texts = {"data.train": request.train, "data.valid": request.valid}
    if "-" in texts.values():
        raise InputError("text from standard input can be read once, and every run reads it; save it to a file")
    if request.trees is not None and sniff(request.trees) != "trees" and not has_dependencies(request.trees):
        raise InputError(f"--test {request.trees} holds no bracketed trees; give a file of trees, CoNLL-U or none")
    return settings_of(request.settings, texts, request.raw)


@dataclass(frozen=True, slots=True)
class Member:
    """A configuration as the command line names it, with a number of seeds, if any, and keys that it changes."""

    config: str
    seeds: int | None
    settings: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> "Member":
        """Read CONFIG, CONFIG:SEEDS or CONFIG:SEEDS,KEY=VALUE,…"""
        named, *settings = text.split(",")
        config, _, seeds = named.rpartition(":")
        if not seeds.isdecimal() or not config:
            return cls(named, None, tuple(settings))
        if int(seeds) < 1:
            raise InputError(f"{named}: {seeds} seeds; train at least one")
        return cls(config, int(seeds), tuple(settings))

    @property
    def name(self) -> str:
        """Name of its folder: that of the built-in configuration or of the file, and the values of its keys."""
        base = Path(self.config).stem if self.config.endswith(".toml") else self.config
        values = [setting.partition("=")[2] for setting in self.settings]
        return re.sub(r"[^\w.-]", "_", "-".join([base, *values]))


def report(request: DistilRequest, trees: str, members: list[str], teachers: list[str], student: str) -> None:
    """Print and write the table of members, teachers together, student and right branching, with intervals."""
    from simplepcfg.evaluation.columns import with_intervals
    from simplepcfg.evaluation.rendering import markdown_report, rich_table
    from simplepcfg.inference.systems import evaluate_systems

    evaluate = partial(evaluate_systems, device=request.device, remark=partial(note, quiet=request.quiet))
    columns = evaluate(members, trees, together=len(teachers) > 1, ensemble_of=teachers)
    columns = with_intervals(columns + evaluate([student, "right-branching"], trees))
    results_console().print(rich_table(columns, title=f"on {trees}"))
    write_text(str(request.out / "table.md"), markdown_report(columns, f"on {trees}") + "\n")
    write_json(str(request.out / "scores.json"), [column.to_dict() for column in columns])
