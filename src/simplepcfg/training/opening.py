"""The configuration and the files of a run folder, when a run begins or goes on."""

import json
import os
from pathlib import Path

import torch

from simplepcfg.data.readers import STDIN
from simplepcfg.data.vocabulary import Vocabulary
from simplepcfg.errors import InputError
from simplepcfg.files import Record, crc32_of_file, remove_leftovers, write_json
from simplepcfg.runs.checkpoint import Checkpoint
from simplepcfg.runs.checkpoint_shards import remove_old_shards, stored_shards
from simplepcfg.runs.checksums import DamagedFileError, add_checksum, record_is_intact
from simplepcfg.runs.config.files import save_config
from simplepcfg.runs.config.schema import RunConfig
from simplepcfg.runs.corpus import Corpus
from simplepcfg.runs.failures import DISK_FULL
from simplepcfg.runs.metrics import check_length
from simplepcfg.runs.run_folder import FORMAT, RunFolder, run_facts
from simplepcfg.runs.tensor_files import read_tensor_file, stored_metadata, write_tensor_file
from simplepcfg.training.reporting.progress import Reporter
from simplepcfg.training.teachers import check_teachers, teacher_folders

# The keys that a resumed run may change: how long and where it trains, the paths of its text, how trees are chosen.
CHANGEABLE = {
    "name",
    "data.train",
    "data.valid",
    "data.separator_weight",
    "data.branching_bonus",
    "training.epochs",
    "training.patience",
    "training.max_minutes",
    "training.device",
    "training.mesh",
    "training.timeout_minutes",
    "training.threads",
    "training.checkpoint_minutes",
    "training.checkpoint_steps",
    "training.log_every",
    "training.captured_shapes",
    "training.check_identity",
    "training.stop_at_skipped",
}


def new_config(config: RunConfig | None, folder: RunFolder) -> RunConfig:
    """Return the configuration of a new run; raise InputError if it or its folder cannot be used."""
    folder.refuse_if_taken()
    folder.refuse_foreign_files()
    if config is None:
        raise InputError("a new run needs a configuration; use load_config")
    config = with_absolute_paths(config)
    check_teachers(config)
    return config


def resumed_config(config: RunConfig | None, folder: RunFolder) -> RunConfig:
    """Return the folder's configuration with the changes of `config`; raise InputError for one that is not allowed."""
    folder.require(folder.config)
    folder.refuse_foreign_files()
    if folder.checkpoint.exists():
        folder.require(folder.vocabulary, folder.facts, folder.metrics)
    elif folder.model.exists():  # Training writes the checkpoint first, so the model was saved or copied without one.
        raise InputError(
            f"{folder.path} holds a model but no {folder.checkpoint.name} to resume from, and a new run would "
            "overwrite the model; restore the checkpoint or train into another folder"
        )
    saved = folder.read_config()
    if config is None:
        return saved
    config = with_absolute_paths(config)
    refuse_changes(saved, config, folder.config)
    return config


def refuse_changes(saved: RunConfig, config: RunConfig, file: Path) -> None:
    """Raise InputError for a key that differs from that of the saved configuration, but for those that may change."""
    before, after = _flat(saved), _flat(config)
    for key in sorted(before.keys() | after.keys()):
        if before.get(key) != after.get(key) and key not in CHANGEABLE:
            raise InputError(
                f"{key} = {after.get(key)!r} differs from {before.get(key)!r} in {file}; "
                "a resumed run cannot change it, start a new one"
            )


def with_absolute_paths(config: RunConfig) -> RunConfig:
    """Return the configuration with absolute paths, so that the run can be resumed from another working directory."""

    def absolute(paths: str | tuple[str, ...] | None) -> str | tuple[str, ...] | None:
        if isinstance(paths, tuple):
            return tuple(str(Path(path).absolute()) for path in paths)
        return paths if paths in (None, STDIN) else str(Path(paths).absolute())

    data = config.data.model_copy(update={"train": absolute(config.data.train), "valid": absolute(config.data.valid)})
    start, teachers = config.training.start_from, teacher_folders(config.training.teacher)
    if start is not None and Path(start).exists():  # else the name of an installed grammar
        start = str(Path(start).absolute())
    changed = {"start_from": start, "teacher": teachers}
    return config.model_copy(update={"data": data, "training": config.training.model_copy(update=changed)})


def own_vocabulary(folder: RunFolder) -> Vocabulary:
    """Return the folder's vocabulary, checked first: text encoded with a damaged one would look like another text."""
    vocabulary = Vocabulary.load(folder.vocabulary)
    folder.check_vocabulary(vocabulary, stored_metadata(folder.checkpoint).get("vocabulary"))
    return vocabulary


def make_folder(path: Path) -> None:
    """Make the folder of a run; raise InputError if that is not possible, or if nothing can be written to it."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        if error.errno in DISK_FULL:
            raise
        raise InputError(f"{path}: the run folder cannot be made ({error.strerror}); choose another") from None
    if not os.access(path, os.R_OK | os.W_OK | os.X_OK):
        raise InputError(f"{path}: the run folder cannot be written to; change its permissions or choose another")


def open_folder(
    folder: RunFolder, config: RunConfig, corpus: Corpus, device: torch.device, reporter: Reporter
) -> Checkpoint | None:
    """Write the first files of a new run, or check that a resumed run belongs to this text and return its checkpoint.

    Returns None for a new run.
    """
    remove_leftovers(folder.path)
    remove_old_shards(folder.checkpoint, stored_shards(folder.checkpoint))
    if folder.checkpoint.exists():
        _check_same_text(folder, corpus)
        checkpoint = load_checkpoint(folder, corpus)
        begun = checkpoint.state.epoch + (checkpoint.state.batch > 0)
        if config.training.epochs < begun:
            raise InputError(
                f"training.epochs = {config.training.epochs}, but {folder.path} is in epoch {begun} already; "
                f"give {begun} or more, or start a new run"
            )
        check_length(folder.metrics, checkpoint.state.metrics_bytes)
        if crc32_of_file(folder.metrics, checkpoint.state.metrics_bytes) != checkpoint.state.metrics_crc32:
            reporter.note(f"{folder.metrics}: is not what the run wrote, by its checksum; training goes on without it")
        return checkpoint
    save_config(config, folder.config)
    # A run that was stopped before its first checkpoint starts from the beginning.
    corpus.vocabulary.save(folder.vocabulary)
    if corpus.spelling is not None:
        write_tensor_file(folder.spelling, corpus.spelling.to_tensors(), {})
    write_json(folder.facts, add_checksum(run_facts(config, device, corpus.identity())))
    return None


def load_checkpoint(folder: RunFolder, corpus: Corpus) -> Checkpoint:
    """Return the checkpoint; raise InputError if it is damaged or belongs to another vocabulary."""
    try:
        checkpoint = Checkpoint.load(folder.checkpoint)
    except DamagedFileError as error:
        raise folder.with_advice(error) from None
    folder.check_vocabulary(corpus.vocabulary, checkpoint.vocabulary)
    return checkpoint


def model_is_behind(folder: RunFolder, checkpoint: Checkpoint) -> bool:
    """Return whether the model must be restored from the checkpoint: it is missing, damaged or another one."""
    best = checkpoint.state.best
    if best is None:
        return False
    try:
        model = read_tensor_file(folder.model)
    except InputError:
        return True
    return not (
        model.record == best.model_dump()
        and model.tensors.keys() == checkpoint.best_weights.keys()
        and all(torch.equal(tensor, checkpoint.best_weights[name]) for name, tensor in model.tensors.items())
    )


def _check_same_text(folder: RunFolder, corpus: Corpus) -> None:
    """Raise InputError if the run in `folder` was trained on another text, or if its facts are damaged."""
    try:
        facts = json.loads(folder.facts.read_text("utf-8"))
        if facts["format"] > FORMAT:
            raise InputError(
                f"{folder.path}: a run of format {facts['format']}, of simplepcfg {facts.get('simplepcfg')}; "
                f"this version knows formats up to {FORMAT}: upgrade"
            )
        if not record_is_intact(facts):
            raise DamagedFileError(folder.facts, "its checksum does not match its content")
        identity = corpus.identity()
        for name, text in (("train", "training"), ("valid", "validation")):
            now, then = identity[name], facts["data"][name]
            if now["sha256"] != then["sha256"]:
                raise InputError(
                    f"the {text} text is not the one that {folder.path} began with ({now['sentences']} usable "
                    f"sentences now, {then['sentences']} then); restore it or start a new run"
                )
    except InputError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DamagedFileError(folder.facts, str(error)) from None


def _flat(config: RunConfig) -> Record:
    """Return all values by their dotted keys."""
    flat: Record = {}
    for name, value in config.model_dump().items():
        flat |= {f"{name}.{key}": item for key, item in value.items()} if isinstance(value, dict) else {name: value}
    return flat
