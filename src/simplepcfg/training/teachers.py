"""Teachers: trained runs whose span marginals on the training text a new run learns from."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from torch import Tensor

from simplepcfg.data.batching import collate, evaluation_batches
from simplepcfg.errors import InputError
from simplepcfg.evaluation.likelihood import cells_a_batch, sentences_a_batch, shared_grammar
from simplepcfg.ops.mbr import best_tree_mask
from simplepcfg.pretrained import run_directory
from simplepcfg.runs.config.schema import RunConfig
from simplepcfg.runs.corpus import Corpus
from simplepcfg.runs.run_folder import LoadedRun, RunFolder, load_run, runs_inside
from simplepcfg.training.teacher_marginals import TeacherMarginals

# Sentences that are computed together. A block's batches depend on nothing else, so that a computation that was
# interrupted and goes on gives the same numbers.
BLOCK = 512
SECONDS_BETWEEN_SAVES = 60.0
PSEUDO_MARGINAL = 1e-3  # added before geometric means, so that no teacher alone can rule out a span


def teacher_folders(names: Sequence[str]) -> tuple[str, ...]:
    """Return the absolute paths of the runs with these names; a folder of runs stands for all of them."""
    folders = [folder for name in names for folder in runs_inside(name) or [name]]
    return tuple(str(Path(name).absolute()) if Path(name).exists() else name for name in folders)


def prepare_teachers(
    config: RunConfig, corpus: Corpus, path: Path, device: torch.device, note: Callable[[str], None]
) -> TeacherMarginals | None:
    """Return the mean span marginals of the teachers on the training text, from the file at `path` if it is there.

    What is missing is computed, and the file is written now and then and at the end. None without teachers. Raises
    InputError for a teacher that cannot be used.
    """
    names = config.training.teacher
    if not names:
        return None
    lengths = corpus.train.lengths.tolist()
    mean = config.training.teacher_mean
    identity = {"teachers": list(names), "train": corpus.train.fingerprint()}
    if mean != "arithmetic":
        identity["mean"] = mean
    marginals = TeacherMarginals.load(path, lengths, identity) if path.exists() else TeacherMarginals(lengths)
    if marginals.is_complete:
        return marginals
    check_teachers(config)
    teachers = [load_run(name, str(device)) for name in names]
    assert corpus.train_tokens is not None
    went_on = f", {marginals.done:,} of them are done" if marginals.done else ""
    kind = "teacher" if len(names) == 1 else "teachers"
    note(f"computing span marginals of {len(lengths):,} sentences by {len(names)} {kind}{went_on}")
    last = time.monotonic()
    while not marginals.is_complete:
        block = corpus.train_tokens[marginals.done : marginals.done + BLOCK]
        tables = mean_marginals([span_marginals(teacher, block) for teacher in teachers], mean)
        tables = [table.clamp_(max=1.0).half().float() for table in tables]
        marginals.append(tables, _largest_sums(tables, device))
        if time.monotonic() - last >= SECONDS_BETWEEN_SAVES:
            marginals.save(path, identity)
            last = time.monotonic()
    marginals.save(path, identity)
    return marginals


def check_teachers(config: RunConfig) -> None:
    """Raise InputError for a teacher that cannot be used; before anything is written."""
    for name in config.training.teacher:
        folder = RunFolder(run_directory(name))
        folder.require(folder.config, folder.vocabulary, folder.model)
        teacher = folder.read_config()
        if teacher.data.preprocessing != config.data.preprocessing:
            raise InputError(
                f"training.teacher = {name}: it prepares words in another way than this run; make data.lowercase, "
                "data.numbers, data.punctuation, data.eos, data.tokenize and data.unknown_classes equal"
            )
        if not teacher.model.has_trees:
            raise InputError(
                f"training.teacher = {name}: a model of kind {teacher.model.kind} has no trees; leave it out"
            )


def mean_marginals(each: Sequence[Sequence[Tensor]], mean: str = "arithmetic") -> list[Tensor]:
    """Return the arithmetic or geometric mean over teachers of the tables of each sentence."""
    stacks = [torch.stack(tables) for tables in zip(*each, strict=True)]
    if mean == "arithmetic":
        return [stack.mean(0) for stack in stacks]
    return [((stack + PSEUDO_MARGINAL).log().mean(0).exp() - PSEUDO_MARGINAL).clamp_(min=0) for stack in stacks]


def span_marginals(teacher: LoadedRun, sentences: Sequence[Sequence[str]]) -> list[Tensor]:
    """Return the span marginals of each sentence, [n + 1, n + 1] on the CPU."""
    encoded = [teacher.vocabulary.encode(tokens) for tokens in sentences]
    model = teacher.model
    marginals: list[Tensor] = [torch.zeros(0)] * len(encoded)
    precision = "tf32" if teacher.device.type == "cuda" else None  # they are kept in float16
    with torch.no_grad():
        shared = shared_grammar(model, precision) if model.shares_rules else None
        source = teacher.config.model.sizes(1) if shared is None else shared
        limits = (cells_a_batch(source, teacher.device), sentences_a_batch(model, teacher.device))
        for indices in evaluation_batches([len(ids) for ids in encoded], *limits):
            batch = collate(encoded, indices).to(teacher.device)
            grammar = model.grammar(batch.words, batch.lengths) if shared is None else shared
            tables = grammar.span_marginals(batch.words, batch.lengths).float().cpu()
            for index, table, n in zip(indices, tables, batch.lengths.tolist(), strict=True):
                marginals[index] = table[: n + 1, : n + 1]
    return marginals


def best_tree_masks(tables: Sequence[Tensor], final_bonus: float = 0.0) -> Tensor:
    """Return masks of the trees with the largest sums of marginals, [B, n + 1, n + 1] for the longest sentence."""
    padded, lengths = _padded(tables)
    return best_tree_mask(padded, lengths, None, final_bonus)


def _largest_sums(tables: Sequence[Tensor], device: torch.device) -> Tensor:
    """Return the largest sum of marginals that a tree of each sentence has, [B] on the CPU."""
    padded, lengths = _padded(tables)
    padded = padded.to(device)
    return (padded * best_tree_mask(padded, lengths)).sum((1, 2)).cpu()


def _padded(tables: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """Return tables in one tensor with 0 beyond their ends, and the lengths of their sentences [B]."""
    lengths = torch.tensor([len(table) - 1 for table in tables])
    padded = torch.zeros(len(tables), int(lengths.max()) + 1, int(lengths.max()) + 1)
    for row, table in zip(padded, tables, strict=True):
        row[: len(table), : len(table)] = table
    return padded, lengths
