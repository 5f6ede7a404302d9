"""Teachers: trained runs whose span marginals on the training text a new run learns from, and which it keeps."""

import time
from collections.abc import Callable, Sequence
from itertools import accumulate
from pathlib import Path

import torch
from torch import Tensor
from torch.nn.functional import pad

from simplepcfg.data.batching import collate, evaluation_batches
from simplepcfg.data.preprocessing import Preprocessing, TokenCache
from simplepcfg.data.separators import crossing_spans
from simplepcfg.errors import InputError, counted
from simplepcfg.evaluation.likelihood import cells_a_batch, sentences_a_batch, shared_grammar
from simplepcfg.files import Record
from simplepcfg.models import ModelConfig
from simplepcfg.ops.mbr import best_tree_mask
from simplepcfg.pretrained import run_directory
from simplepcfg.runs.checksums import DamagedFileError
from simplepcfg.runs.config.schema import RunConfig
from simplepcfg.runs.corpus import Corpus
from simplepcfg.runs.history import duration
from simplepcfg.runs.run_folder import LoadedRun, RunFolder, load_run, runs_inside
from simplepcfg.runs.tensor_files import read_tensor_file, write_tensor_file

# Sentences that are computed together. A block's batches depend on nothing else, so that a computation that was
# interrupted and goes on gives the same numbers.
BLOCK = 512
SECONDS_BETWEEN_SAVES, SECONDS_BEFORE_THE_FIRST = 60.0, 10.0
PSEUDO_MARGINAL = 1e-3  # added before geometric means, so that no teacher alone can rule out a span


class TeacherMarginals:
    """The marginals of the spans of two or more words of each sentence, and the largest sum that a tree has of them.

    `packed` is float16 with n (n − 1) / 2 numbers for a sentence of n words, sentence after sentence; `best` [S] is
    float32. The first `done` sentences have been computed.
    """

    def __init__(self, lengths: Sequence[int]) -> None:
        self.lengths = list(lengths)
        self._starts = list(accumulate((n * (n - 1) // 2 for n in self.lengths), initial=0))
        self.packed = torch.zeros(self._starts[-1], dtype=torch.float16)
        self.best = torch.zeros(len(self.lengths))
        self.done = 0

    @property
    def is_complete(self) -> bool:
        """Whether all sentences have been computed."""
        return self.done == len(self.lengths)

    def append(self, tables: Tensor, best: Tensor) -> None:
        """Add the next sentences: their tables [B, n + 1, n + 1], padded, and their largest sums [B]."""
        first, self.done = self.done, self.done + len(tables)
        spans = _spans(self.lengths[first : self.done], tables.shape[1] - 1)
        self.packed[self._starts[first] : self._starts[self.done]] = tables[spans].half()
        self.best[first : self.done] = best

    def of(self, indices: Sequence[int], n: int) -> Tensor:
        """Return the tables of these sentences, [B, n + 1, n + 1] in float32 with 0 beyond their ends."""
        tables = torch.zeros(len(indices), n + 1, n + 1)
        packed = [self.packed[self._starts[index] : self._starts[index + 1]] for index in indices]
        tables[_spans([self.lengths[index] for index in indices], n)] = torch.cat(packed).float()
        return tables

    def save(self, path: Path, identity: Record) -> None:
        """Write what has been computed, with the identity of text and teachers; replaces an older file atomically."""
        write_tensor_file(path, self.state(), {**identity, "done": self.done})

    @classmethod
    def load(cls, path: Path, lengths: Sequence[int], identity: Record) -> "TeacherMarginals":
        """Read a file of `save`, complete or not.

        Raises DamagedFileError if its checksum does not match, InputError if it is of another text or other teachers.
        """
        tensors, record, *_ = read_tensor_file(path)
        stored = cls(lengths)
        expected = {name: (tensor.dtype, tensor.shape) for name, tensor in stored.state().items()}
        if {key: value for key, value in record.items() if key != "done"} != identity:
            raise InputError(f"{path}: is of another text or other teachers; restore it, or train into another folder")
        if {name: (tensor.dtype, tensor.shape) for name, tensor in tensors.items()} != expected:
            raise DamagedFileError(path, "its tensors have other sizes")
        stored.packed, stored.best, stored.done = tensors["packed"], tensors["best"], int(record["done"])
        return stored

    def state(self) -> dict[str, Tensor]:
        """Return the tensors that the file holds."""
        return {"packed": self.packed, "best": self.best}


def _spans(lengths: Sequence[int], n: int) -> Tensor:
    """Return which (i, j) are spans of two or more words of sentences of these lengths, [B, n + 1, n + 1]."""
    inside = torch.arange(n + 1) <= torch.tensor(lengths)[:, None]  # [B, n + 1]
    return inside[:, None] & torch.ones(n + 1, n + 1, dtype=torch.bool).triu(2)


def teacher_folders(names: Sequence[str]) -> tuple[str, ...]:
    """Return the absolute paths of the runs with these names; a folder of runs stands for all of them."""
    folders = dict.fromkeys(folder for name in names for folder in runs_inside(name) or [name])
    return tuple(
        str(Path(name).absolute()) if Path(name).exists() and run_directory(name) == Path(name) else name
        for name in folders
    )


def prepare_teachers(
    config: RunConfig, corpus: Corpus, path: Path, device: torch.device, note: Callable[[str], None]
) -> TeacherMarginals | None:
    """Return the mean span marginals of the teachers on the training text, from the file at `path` if it is there.

    What is missing is computed, and the file is written now and then and at the end. None without teachers. Raises
    InputError for a teacher that cannot be used.
    """
    names, mean = config.training.teacher, config.training.teacher_mean
    if not names:
        return None
    lengths, breaks = corpus.train.lengths.tolist(), corpus.train_breaks
    identity = {"teachers": list(names), "train": corpus.train.fingerprint()}
    if mean != "arithmetic":
        identity["mean"] = mean
    marginals = TeacherMarginals.load(path, lengths, identity) if path.exists() else TeacherMarginals(lengths)
    if marginals.is_complete:
        return marginals
    check_teachers(config)
    teachers = [Teacher(load_run(name, str(device))) for name in names]
    assert corpus.train_words is not None
    went_on = f", {marginals.done:,} of them are done" if marginals.done else ""
    note(f"computing span marginals of {len(lengths):,} sentences by {counted(len(names), 'teacher')}{went_on}")
    began, before = time.monotonic(), marginals.done
    last = began - SECONDS_BETWEEN_SAVES + SECONDS_BEFORE_THE_FIRST
    while not marginals.is_complete:
        block = corpus.train_words[marginals.done : marginals.done + BLOCK]
        places = None if breaks is None else [breaks[marginals.done + k] for k in range(len(block))]
        tables = mean_marginals([teacher.span_marginals(block, places) for teacher in teachers], mean)
        padded, ends = padded_tables(tables)
        padded = padded.clamp_(max=1.0).half().float()
        moved = padded.to(device)
        marginals.append(padded, (moved * best_tree_mask(moved, ends)).sum((1, 2)).cpu())
        if time.monotonic() - last >= SECONDS_BETWEEN_SAVES:
            marginals.save(path, identity)
            last = time.monotonic()
            left = (last - began) / (marginals.done - before) * (len(lengths) - marginals.done)
            note(f"{marginals.done:,} of {len(lengths):,} sentences done, about {duration(left)} left")
    marginals.save(path, identity)
    return marginals


def check_teachers(config: RunConfig) -> None:
    """Raise InputError for a teacher that cannot be used; before anything is written."""
    for name in config.training.teacher:
        folder = RunFolder(run_directory(name))
        folder.require(folder.config, folder.vocabulary, folder.model)
        model, preprocessing = folder.read_config().model, folder.read_preprocessing()
        check_teacher(f"training.teacher = {name}", model, preprocessing, "this run", config)


def check_teacher(name: str, model: ModelConfig, theirs: Preprocessing, other: str, config: RunConfig) -> None:
    """Raise InputError if a model cannot teach a run with this configuration; with their names for the message."""
    if not model.has_trees:
        raise InputError(f"{name}: a model of kind {model.kind} has no trees; leave it out")
    ours = config.data.preprocessing
    differ = [f"data.{key}" for key in ("punctuation", "eos") if getattr(theirs, key) != getattr(ours, key)]
    if differ:
        raise InputError(f"{name} sees other tokens than {other}; make {' and '.join(differ)} the same")


def mean_marginals(each: Sequence[Sequence[Tensor]], mean: str = "arithmetic") -> list[Tensor]:
    """Return the arithmetic or geometric mean over teachers of the tables of each sentence."""
    stacks = [torch.stack(tables) for tables in zip(*each, strict=True)]
    if mean == "arithmetic":
        return [stack.mean(0) for stack in stacks]
    return [((stack + PSEUDO_MARGINAL).log().mean(0).exp() - PSEUDO_MARGINAL).clamp_(min=0) for stack in stacks]


class Teacher:
    """A run that teaches: it prepares the words of a sentence in its own way, and keeps all of them."""

    def __init__(self, run: LoadedRun) -> None:
        self.run = run
        own = run.config.data.preprocessing.completed(run.vocabulary.words)
        self._tokens = TokenCache(own.model_copy(update={"punctuation": "keep"}))

    def span_marginals(
        self, sentences: Sequence[Sequence[str]], breaks: Sequence[Sequence[int]] | None = None
    ) -> list[Tensor]:
        """Return the span marginals of each sentence, words as `read_words` gives them, [n + 1, n + 1] on the CPU.

        With `breaks`, the places of dropped separators, they are those by which the teacher chooses its trees:
        `data.separator_weight` is taken off the log-weight of spans that cross one.
        """
        run, model = self.run, self.run.model
        encoded = [run.vocabulary.encode(self._tokens.tokens(words)) for words in sentences]
        marginals: list[Tensor] = [torch.zeros(0)] * len(encoded)
        precision = "tf32" if run.device.type == "cuda" else None  # they are kept in float16
        with torch.no_grad():
            shared = shared_grammar(model, precision) if model.shares_rules else None
            source = run.config.model.sizes(1) if shared is None else shared
            limits = (cells_a_batch(source, run.device), sentences_a_batch(model, run.device))
            for indices in evaluation_batches([len(ids) for ids in encoded], *limits):
                batch = collate(encoded, indices).to(run.device)
                grammar = model.grammar(batch.words, batch.lengths) if shared is None else shared
                bonus, weight = None, run.config.data.separator_weight
                if weight and breaks is not None and any(here := [breaks[index] for index in indices]):
                    crossing = crossing_spans(here, batch.words.shape[1], batch.lengths.cpu())
                    bonus = -weight * crossing.float().to(run.device)
                tables = grammar.span_marginals(batch.words, batch.lengths, span_bonus=bonus).float().cpu()
                for index, table, n in zip(indices, tables, batch.lengths.tolist(), strict=True):
                    marginals[index] = table[: n + 1, : n + 1]
        return marginals


def padded_tables(tables: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """Return tables in one tensor with 0 beyond their ends, and the lengths of their sentences [B]."""
    lengths = torch.tensor([len(table) - 1 for table in tables])
    longest = int(lengths.max()) + 1
    return torch.stack([pad(table, (0, longest - len(table)) * 2) for table in tables]), lengths
