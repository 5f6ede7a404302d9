"""`train`: start or resume a run, from a configuration and text to a folder with the best model."""

import json
import os
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from simplepcfg.data.tokens import TextSource
from simplepcfg.models import Model
from simplepcfg.models.sharding import row_groups
from simplepcfg.ops.autograd_context import recording
from simplepcfg.ops.modes import without_modes
from simplepcfg.runs.checkpoint import Best, Checkpoint
from simplepcfg.runs.config.files import save_config
from simplepcfg.runs.config.schema import RunConfig
from simplepcfg.runs.corpus import Corpus, prepare_corpus
from simplepcfg.runs.device import reproducible, subnormals_as_zero, use_expandable_segments
from simplepcfg.runs.failures import TRAINING_ADVICE, resource_errors
from simplepcfg.runs.run_folder import RunFolder, program_identity
from simplepcfg.training.loop import Trainer
from simplepcfg.training.memory_estimate import MemoryNeeds, require_memory
from simplepcfg.training.opening import (
    load_checkpoint,
    make_folder,
    model_is_behind,
    new_config,
    open_folder,
    own_vocabulary,
    resumed_config,
)
from simplepcfg.training.reporting.progress import Reporter
from simplepcfg.training.signals import StopSignals
from simplepcfg.training.step.distributed import Group, join_group, mesh_shape
from simplepcfg.training.step.span_prior import bias_note, punctuation_note
from simplepcfg.training.teachers import prepare_teachers


@dataclass(frozen=True, slots=True)
class TrainingResult:
    """Summary of a finished run; its model is in `directory`, for `load_run`."""

    directory: Path
    epochs: int
    steps: int
    stopped_by: str  # "epochs", "patience" or "max_minutes"
    best: Best
    skipped_steps: int
    seconds: float
    notes: tuple[str, ...]


@without_modes
def train(
    config: RunConfig | None,
    directory: str | Path,
    *,
    resume: bool = False,
    device: str = "auto",
    reporter: Reporter | None = None,
    train_text: TextSource | None = None,
    valid_text: TextSource | None = None,
) -> TrainingResult:
    """Train a model into a new run folder, or with `resume` continue the run in it from its last checkpoint.

    `config` may be None for a resumed run, which then takes the configuration of its folder; one that is given may
    differ only in how long and where to train. A `device` other than "auto" overrides the configuration.
    `train_text` and `valid_text` (a path, or an iterable of strings, word lists or trees) replace the files of the
    configuration. Where torchrun started several processes, they share every batch and
    train one model; where it starts them again after a failure, they go on from the last checkpoint.

    Returns a summary of the run. Raises InputError for settings, text or a folder that cannot be used, ResourceError
    for too little memory or disk, NumericalError if too many steps in a row are skipped, and Interrupted after SIGINT
    or SIGTERM, when everything has been saved.

        config = load_config("sn-pcfg-128", ["training.epochs=3"])
        result = train(config, "runs/first", train_text="train.txt")
        print(result.best.perplexity)
    """
    folder = RunFolder(Path(directory))
    # Torchrun may have started this process again after a failure, when the run had begun.
    resume = resume or (int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")) > 0 and folder.config.exists())
    with (
        recording(),
        StopSignals() as stop,
        join_group() as group,
        resource_errors("training", TRAINING_ADVICE),
        ExitStack() as held,
    ):
        reporter = reporter if reporter is not None and group.is_leader else Reporter()
        with group.failing_together():
            config = resumed_config(config, folder) if resume else new_config(config, folder)
            chosen = group.device(config.training.device if device == "auto" else device)
            vocabulary = own_vocabulary(folder) if resume and folder.checkpoint.exists() else None
            corpus = prepare_corpus(
                config.data,
                config.seed,
                train_text,
                valid_text,
                vocabulary,
                keep_words=bool(config.training.teacher),
                keep_breaks=config.training.punctuation_weight > 0 or bool(config.training.teacher),
            )
            mesh = mesh_shape(config.training.mesh, group.size)
            needs = require_memory(config, corpus, chosen, mesh, group.local_size)
            if chosen.type == "cuda" and not needs.capture:
                use_expandable_segments(True)
                held.callback(use_expandable_segments, False)  # The next run of this process may be captured.
        _require_same_run(group, config, corpus)
        group.arrange(chosen, mesh, config.training.timeout_minutes)
        checkpoint = None
        with group.failing_together():
            if group.is_leader:
                make_folder(folder.path)
                held.enter_context(folder.locked())
                if not resume:
                    folder.refuse_if_taken()
            held.enter_context(subnormals_as_zero())
            held.enter_context(reproducible(chosen, config.training.threads))
            # The model comes before the folder is written: it may refuse its settings, and a corrected run needs a
            # free folder.
            begins = not (resume and folder.checkpoint.exists())
            trainer = Trainer(config, folder, corpus, chosen, reporter, stop, group, needs.capture, begins)
            if group.is_leader:
                checkpoint = open_folder(folder, config, corpus, chosen, reporter)
        _restore(trainer, checkpoint, resume)
        with group.failing_together():
            _report_start(trainer, needs, checkpoint)
        _broadcast_weights(trainer.model, group)
        try:
            trainer.run()
        finally:
            reporter.close()
        return _result(trainer)


def _broadcast_weights(model: Model, group: Group) -> None:
    """Give all processes the weights of the first one; rows that are sharded, within their part of the grammar."""
    sharded = row_groups(model) if group.shards is not None else {}
    weights = model.state_dict()
    whole = [weight for name, weight in weights.items() if name not in sharded]
    group.broadcast(whole, [weights[name] for name in sharded])


def _require_same_run(group: Group, config: RunConfig, corpus: Corpus) -> None:
    """Raise InputError if the processes do not run the same program with the same settings on the same text."""
    if group.size == 1:
        return
    group.require_same("the version of simplepcfg or torch", program_identity(), "install the same on all machines")
    group.require_same("the configuration", config.model_dump_json(), "start all with the same command")
    group.require_same("the text", json.dumps(corpus.identity()), "give a file that all can read")
    group.require_same("the vocabulary", corpus.vocabulary.checksum, "give a file that all can read")


def _restore(trainer: Trainer, checkpoint: Checkpoint | None, resume: bool) -> None:
    """Continue from the checkpoint in all processes, prepare the teachers, and bring the run's files up to date.

    `checkpoint` is that of the first process, None for a new run. A process that refuses leaves the folder unchanged.
    """
    config, corpus, folder, group = trainer.config, trainer.corpus, trainer.folder, trainer.group
    with group.failing_together():
        if not group.is_leader and resume and folder.checkpoint.exists():
            checkpoint = load_checkpoint(folder, corpus)
        if checkpoint is not None:
            trainer.resume(checkpoint)
    for leaders_turn in (True, False):  # The other processes read what the first has computed.
        with group.failing_together():
            if group.is_leader == leaders_turn:
                note = trainer.reporter.note
                trainer.teacher_marginals = prepare_teachers(config, corpus, folder.teacher, trainer.device, note)
    with group.failing_together():
        if checkpoint is not None and group.is_leader:
            write_model = model_is_behind(folder, checkpoint)  # may refuse, so before anything is written
            save_config(config, folder.config)
            if write_model:
                checkpoint.save_best(folder.model)


def _report_start(trainer: Trainer, needs: MemoryNeeds, checkpoint: Checkpoint | None) -> None:
    """Tell the user about the text, the settings and the memory, and where a resumed run stands."""
    config, corpus = trainer.config, trainer.corpus
    position = None
    if checkpoint is not None:
        position = _describe_position(trainer)
    bias = bias_note(config.training, len(corpus.train))
    silent = punctuation_note(config.training, corpus.train_breaks)
    notes = (_summary(trainer), trainer.curriculum.note, bias, silent, needs.note, position)
    for note in (*corpus.notes, *notes):
        if note is not None:
            trainer.reporter.note(note)


def _summary(trainer: Trainer) -> str:
    corpus, group = trainer.corpus, trainer.group
    where = str(trainer.device) if group.size == 1 else f"{trainer.device.type} in {group.size} processes"
    if group.shards is not None:
        where += f", each with 1 / {group.shards.size} of the grammar"
    return (
        f"{len(corpus.train):,} training and {len(corpus.valid):,} validation sentences, "
        f"{len(corpus.vocabulary):,} words in the vocabulary, {trainer.weight_count:,} weights, on {where}"
    )


def _describe_position(trainer: Trainer) -> str:
    if trainer.stopped_by is not None:
        config = trainer.config.training
        reasons = {
            "epochs": f"all epochs are done; to go on, set training.epochs to more than {config.epochs}",
            "patience": f"validation has not gained for training.patience = {config.patience} epochs; "
            "to go on, set it to more, or to 0",
            "max_minutes": f"training.max_minutes = {config.max_minutes:g} are over; to go on, set it to more, or to 0",
        }
        return f"nothing left to do after epoch {trainer.state.epoch}: {reasons[trainer.stopped_by]}"
    return f"resumed in epoch {trainer.state.epoch + 1}, after step {trainer.state.step}"


def _result(trainer: Trainer) -> TrainingResult:
    state = trainer.state
    assert state.best is not None  # Every epoch ends with a validation, and that of the first is the best so far.
    return TrainingResult(
        directory=trainer.folder.path,
        epochs=state.epoch,
        steps=state.step,
        stopped_by=trainer.stopped_by or "epochs",
        best=state.best,
        skipped_steps=state.skipped_steps,
        seconds=state.seconds,
        notes=tuple(trainer.corpus.notes),
    )
