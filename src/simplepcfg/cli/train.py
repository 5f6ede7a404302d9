"""`simplepcfg train`: fit a grammar to text, or go on with a run that was interrupted."""

import json
import os
import shlex
from collections.abc import Mapping
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from simplepcfg.cli.failures import is_follower
from simplepcfg.cli.options import Device, Quiet
from simplepcfg.cli.output import note, write_lines
from simplepcfg.cli.requests import arg, flag, opt, options, takes
from simplepcfg.errors import InputError

if TYPE_CHECKING:
    from simplepcfg.runs.config.schema import RunConfig
    from simplepcfg.training.start import TrainingResult

SUMMARY = "Learn a grammar from text."


class Log(StrEnum):
    """Programs that show training; an Enum, since typer takes no list of literals."""

    tensorboard = "tensorboard"
    wandb = "wandb"


@options
class TrainRequest:
    """What to train, on what, and where."""

    config: str | None = arg("CONFIG", "A TOML file, or a built-in name such as sn-pcfg-128.", None)
    train: list[str] | None = opt(
        "--train", "FILE", "Text, one sentence a line (or trees; .gz too); a folder or pattern; repeatable."
    )
    valid: str | None = opt("--valid", "FILE", "Validation text; otherwise 5 % is held out.")
    raw: bool = flag("--raw", "The text is raw: paragraphs, which are split into sentences and words.")
    language: str | None = opt("--language", "CODE", "Language of the text, such as fr.  [default: en]")
    out: Path | None = opt("--out", "DIR", "Folder of the run.  [default: runs/NAME]")
    settings: list[str] | None = opt("--set", "KEY=VALUE", "Change one key, such as training.epochs=3; repeatable.")
    seed: int | None = opt("--seed", "N", "Seed of every random draw.")
    teachers: list[str] | None = opt("--teacher", "RUN", "Learn from the span marginals of this run, too; repeatable.")
    seeds: int | None = opt("--seeds", "K", "Train K runs with K seeds into DIR/seed-0, DIR/seed-1, …")
    jobs: int | None = opt("--jobs", "K", "With --seeds: train K runs at a time.  [default: 1]")
    device: Device = "auto"
    resume: Path | None = opt("--resume", "DIR", "Go on with the run (or runs) in this folder, instead of CONFIG.")
    plan: bool = flag("--plan", "Print layout, memory, traffic and time of a step on training.mesh, and train nothing.")
    log: list[Log] | None = flag("--log", "Also write events for this program to show; repeatable.", None)
    quiet: Quiet = False


@takes(TrainRequest)
def command(request: TrainRequest) -> None:
    """Learn a grammar from text; the best model by validation likelihood is kept in the run's folder.

    Progress goes to standard error. After Ctrl-C everything is saved and --resume goes on, bit for bit. Started by
    torchrun, several processes (GPUs) share every batch. With --seeds, one run that fails does not end the others, and
    --resume goes on with all that are not finished.

    \b
    Example:
      simplepcfg train sn-pcfg-128 --train train.txt --valid valid.txt --out runs/first
      simplepcfg train sn-pcfg-128 --train train.txt --set training.epochs=3 --seed 7
      simplepcfg train sn-pcfg-128 --train novel.txt --raw --out runs/novel
      simplepcfg train --resume runs/first
      simplepcfg train sn-pcfg-128 --train train.txt --valid valid.txt --seeds 8 --out runs/eight
      simplepcfg train sn-pcfg-128 --train train.txt --valid valid.txt --teacher runs/eight --out runs/student
      simplepcfg train sn-pcfg-128 --train train.txt --log tensorboard
      torchrun --nproc_per_node=2 -m simplepcfg train sn-pcfg --train train.txt
      simplepcfg train sn-pcfg --train train.txt --set training.mesh=[2,4] --plan
    """
    if is_follower():
        request = replace(request, quiet=True)
    files = request.train[0] if request.train is not None and len(request.train) == 1 else request.train
    keys = {
        "data.train": files,
        "data.valid": request.valid,
        "data.language": request.language,
        "training.teacher": request.teachers,
        "seed": request.seed,
    }
    changes = settings_of(request.settings, keys, request.raw)
    if request.plan:
        _print_plan(request, changes)
        return
    from simplepcfg.runs.run_folder import RunFolder
    from simplepcfg.training.reporting.reporters import make_reporter
    from simplepcfg.training.seeds import SeedsFolder
    from simplepcfg.training.start import train

    resume = request.resume
    several = request.seeds is not None or (resume is not None and SeedsFolder(resume).exists())
    if request.jobs is not None and not several:
        raise InputError(f"--jobs {request.jobs} is for the runs of --seeds; leave it out")
    if resume is None:
        config, folder = _configuration(request, changes)
        valid = config.data.valid
        if valid is not None and valid in listed(config.data.train) and (valid == "-" or Path(valid).is_fifo()):
            # Whoever reads a pipe a second time waits for ever.
            raise InputError(f"{valid} is a pipe, so cannot be training and validation text both; save it to a file")
    elif request.config is not None or request.out is not None or request.seeds is not None:
        raise InputError("--resume DIR goes on with the run in DIR; leave out CONFIG, --out and --seeds")
    else:
        config, folder = None, resume
    if several:
        _train_seeds(request, config, folder, changes if config is None else [])
        return
    settings = None if config is None else config.model_dump()
    if config is None:
        if not folder.is_dir():
            raise InputError(f"{folder}: no such run folder; give --resume one that `simplepcfg train` wrote")
        run = RunFolder(folder)
        run.require(run.config)
        config = run.read_config(changes) if changes else None
    reporter = make_reporter(request.quiet, request.log or (), folder, settings)
    result = train(config, folder, resume=resume is not None, device=request.device, reporter=reporter)
    note(_best(result), request.quiet)
    quoted = shlex.quote(str(result.directory))
    note(f"the run is in {result.directory}; next: simplepcfg evaluate {quoted} FILE", request.quiet)


def settings_of(given: list[str] | None, keys: Mapping[str, object], raw: bool) -> list[str]:
    """Return the settings of --set, then those of options that stand for keys, which count where both are given."""
    changes = [f"{key}={json.dumps(value, ensure_ascii=False)}" for key, value in keys.items() if value is not None]
    return [*(given or []), *changes, *(["data.raw=true", "data.tokenize=true"] if raw else [])]


def _print_plan(request: TrainRequest, changes: list[str]) -> None:
    """Print what a step will cost, by the sizes of the text; no GPU is needed."""
    from simplepcfg.runs.corpus import prepare_corpus
    from simplepcfg.training.cluster_plan import describe_plan
    from simplepcfg.training.step.state_dropout import check_sharded_settings

    if request.resume is not None:
        raise InputError("--plan is for a run that has not begun; give CONFIG instead of --resume")
    config, _ = _configuration(request, changes)
    corpus = prepare_corpus(config.data, config.seed)
    settings = config.training
    mesh = tuple(settings.mesh) or (int(os.environ.get("WORLD_SIZE", "1")), 1)
    if mesh[1] > 1:
        check_sharded_settings(settings)
    longest = int(corpus.train.lengths.max())
    shape = (len(corpus.vocabulary), settings.batch_size, longest, (mesh[0], mesh[1]))
    write_lines(describe_plan(config.model, *shape))


def _train_seeds(request: TrainRequest, config: "RunConfig | None", folder: Path, changes: list[str]) -> None:
    """Train a run for each seed, or go on with those in the folder, and print a line for each."""
    from simplepcfg.training.reporting.reporters import make_reporter
    from simplepcfg.training.seeds import SeedsFolder, train_seeds

    quiet, logs = request.quiet, request.log or ()
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise InputError("torchrun's processes share one run; train several seeds without it, with --jobs K")
    if config is not None and "-" in listed(config.data.train):
        raise InputError("--train - can be read once, and --seeds reads it for each run; save it to a file")
    if config is not None and config.data.valid is None:
        note("no --valid: each run holds out sentences of its own, so their perplexities are not comparable", quiet)
    results = train_seeds(
        config,
        folder,
        request.seeds or 0,
        overrides=changes,
        device=request.device,
        jobs=1 if request.jobs is None else request.jobs,
        logs=logs,
        make_reporter=lambda run, settings: make_reporter(quiet, logs, run, settings.model_dump()),
        note=lambda text: note(text, quiet),
    )
    for name, result in results.items():
        note(f"{name}: {_best(result, ',')}", quiet)
    trees = SeedsFolder(folder).read_config().model.has_trees
    together = " --ensemble" if len(results) > 1 and trees else ""
    note(f"the runs are in {folder}; next: simplepcfg evaluate {shlex.quote(str(folder))} FILE{together}", quiet)


def _best(result: "TrainingResult", separator: str = ":") -> str:
    best = result.best
    score = "infinite" if best.perplexity is None else f"{best.perplexity:.2f}"
    return f"best epoch {best.epoch} of {result.epochs}{separator} validation perplexity {score}"


def _configuration(request: TrainRequest, changes: list[str]) -> "tuple[RunConfig, Path]":
    """Return the configuration of a new run with its text, and the folder of the run."""
    from simplepcfg.runs.config.files import load_config

    config = request.config
    if config is None:
        raise InputError(
            "name a configuration (a TOML file or a built-in name), as in `simplepcfg train sn-pcfg-128 "
            "--train FILE`, or --resume DIR"
        )
    try:
        chosen = load_config(config, changes)
    except InputError as error:
        if request.train is not None or Path(config).suffix == ".toml" or not Path(config).is_file():
            raise
        advice = f"to learn from this file: simplepcfg train sn-pcfg-128 --train {shlex.quote(config)}"
        raise InputError(f"{error}; {advice}") from None
    named = "name" in chosen.model_fields_set
    folder = request.out if request.out is not None else default_folder(chosen.name if named else Path(config).stem)
    if chosen.data.train is None:
        raise InputError(f"{config} names no training text; give --train FILE")
    return chosen, folder


def default_folder(name: str) -> Path:
    """Return runs/NAME; InputError for a name that would lead out of runs."""
    if not name or name in {".", ".."} or any(character in name for character in "/\\\0"):
        raise InputError(f"name = {name!r} cannot name a folder in runs; choose another, or give --out DIR")
    return Path("runs") / name


def listed(files: str | tuple[str, ...] | None) -> tuple[str, ...]:
    """Return the files of a training text, of which there may be one, several or none."""
    return () if files is None else (files,) if isinstance(files, str) else files
