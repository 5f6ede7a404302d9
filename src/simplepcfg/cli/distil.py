"""`simplepcfg distil`: an ensemble, a student of it, and what each is worth, by one command."""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from simplepcfg.cli.options import Device, Quiet
from simplepcfg.cli.output import note, results_console, write_json, write_text
from simplepcfg.cli.requests import arg, flag, opt, takes
from simplepcfg.cli.train import RAW_SETTINGS, refuse_set_twice
from simplepcfg.errors import InputError

NAME = "distil"
SUMMARY = "Train several grammars, and one that learns from them."
# What gave the best trees, by type of device: members of two families, and the student.
MEMBERS = {"cuda": ("sn-pcfg-1024", "rank-pcfg-biased"), "cpu": ("sn-pcfg-128", "rank-pcfg-64")}
STUDENT = {"cuda": "sn-pcfg", "cpu": "sn-pcfg-128"}


@dataclass(frozen=True, kw_only=True)
class DistilRequest:
    """Which grammars are trained on what, and which of them teach."""

    train: Annotated[str, opt("--train", "FILE", "Training text, one sentence a line.")]
    valid: Annotated[str, opt("--valid", "FILE", "Validation text.")]
    out: Annotated[Path, opt("--out", "DIR", "Folder of all runs and of the table.")]
    configs: Annotated[
        list[str] | None,
        arg(
            "CONFIG",
            f"TOML files or built-in names, of the members. By default {' and '.join(MEMBERS['cuda'])}, with "
            f"{STUDENT['cuda']} as the student; on a CPU {' and '.join(MEMBERS['cpu'])}, with {STUDENT['cpu']}.",
        ),
    ] = None
    trees: Annotated[
        str | None, opt("--test", "TREES", "Evaluate members, ensemble and student on these, at the end.")
    ] = None
    student: Annotated[
        str | None, opt("--student", "CONFIG", "Of the student; that of the first members by default.")
    ] = None
    seeds: Annotated[int, opt("--seeds", "K", "Members of each configuration.", min=1)] = 4
    keep: Annotated[
        int,
        opt(
            "--keep", "K", "Members of each configuration that teach: those with the best validation likelihood.", min=1
        ),
    ] = 2
    jobs: Annotated[int, opt("--jobs", "K", "Members that train at a time.", min=1)] = 1
    settings: Annotated[
        list[str] | None, opt("--set", "KEY=VALUE", "Change one key of every configuration; repeatable.")
    ] = None
    raw: Annotated[bool, flag("--raw", "Both texts are raw: paragraphs, which are split into sentences and words.")] = (
        False
    )
    device: Device = "auto"
    quiet: Quiet = False


@takes(DistilRequest)
def command(request: DistilRequest) -> None:
    """Train K seeds of each configuration, then one grammar that learns from the span marginals of the best of them.

    Members are in DIR/members/CONFIG/seed-0, …, the student in DIR/student: ordinary runs. The command can be stopped
    at any point, and the same command goes on. With --test, DIR/table.md and DIR/scores.json say what the members, the
    teachers among them together, and the student are worth beside right-branching trees.

    \b
    Example:
      simplepcfg distil --jobs 4 --train train.txt --valid valid.txt --test test.trees --out runs/distilled
      simplepcfg distil sn-pcfg-128 --seeds 2 --train train.txt --valid valid.txt --out runs/small
    """
    from simplepcfg.runs.config.files import load_config
    from simplepcfg.runs.device import resolve_device
    from simplepcfg.training.distillation import DistillationFolder, distil
    from simplepcfg.training.reporting.reporters import make_reporter

    changes = _settings(request)
    configs, student = request.configs, request.student
    if not configs:
        kind = "cpu" if resolve_device(request.device).type == "cpu" else "cuda"
        configs, student = list(MEMBERS[kind]), student or STUDENT[kind]
    chosen = {config_name(config): load_config(config, changes) for config in configs}
    if len(chosen) < len(configs):
        raise InputError(f"two of {', '.join(configs)} have the same name; rename one, or ask for more --seeds")
    result = distil(
        chosen,
        request.out,
        request.seeds,
        student=None if student is None else load_config(student, changes),
        keep=request.keep,
        jobs=request.jobs,
        device=request.device,
        make_reporter=lambda folder, config: make_reporter(request.quiet, (), folder, config.model_dump()),
        note=lambda text: note(text, request.quiet),
    )
    note(f"the student is in {result.directory}", request.quiet)
    if request.trees is not None:
        folder = DistillationFolder(request.out)
        members = [str(folder.members(name).path) for name in chosen]
        teachers = [str(path) for name in chosen for path in folder.best_members(name, request.keep)]
        report(request, request.trees, members, teachers, str(folder.student))


def _settings(request: DistilRequest) -> list[str]:
    """Return the settings of all configurations. Raises InputError for text that cannot be read again and again."""
    from simplepcfg.data.readers import has_dependencies, sniff

    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise InputError("torchrun's processes share one run; distil without it, with --jobs K")
    texts = {"data.train": request.train, "data.valid": request.valid}
    if "-" in texts.values():
        raise InputError("text from standard input can be read once, and every run reads it; save it to a file")
    for path in texts.values():
        sniff(path)  # A file that cannot be read is refused before a folder is begun for it.
    if request.trees is not None and sniff(request.trees) != "trees" and not has_dependencies(request.trees):
        raise InputError(f"--test {request.trees} holds no bracketed trees; give a file of trees, CoNLL-U or none")
    changes = list(request.settings or [])
    refuse_set_twice(changes, texts)
    changes += [f"{key}={json.dumps(path, ensure_ascii=False)}" for key, path in texts.items()]
    return [*changes, *(RAW_SETTINGS if request.raw else ())]


def config_name(config: str) -> str:
    """Return the name of a configuration's folder: a built-in name, or a file's without its ending."""
    return Path(config).stem if config.endswith(".toml") else config


def report(request: DistilRequest, trees: str, members: list[str], teachers: list[str], student: str) -> None:
    """Print and write the table of members, teachers together, student and right branching, with intervals."""
    from simplepcfg.evaluation.columns import columns_to_json, with_intervals
    from simplepcfg.evaluation.rendering import markdown_report, rich_table
    from simplepcfg.inference.systems import evaluate_systems

    def say(text: str) -> None:
        note(text, request.quiet)

    together = len(teachers) > 1
    columns = evaluate_systems(
        members, trees, together=together, ensemble_of=teachers, device=request.device, remark=say
    )
    columns += evaluate_systems([student, "right-branching"], trees, device=request.device, remark=say)
    columns = with_intervals(columns)
    results_console().print(rich_table(columns, title=f"on {trees}"))
    write_text(str(request.out / "table.md"), markdown_report(columns, f"on {trees}") + "\n")
    write_json(str(request.out / "scores.json"), columns_to_json(columns))
