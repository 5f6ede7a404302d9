"""Toy text, toy settings, and what it means for two run folders to be equal."""

import os
import random
from pathlib import Path

import torch

from simplepcfg.runs.checkpoint import Checkpoint
from simplepcfg.runs.run_folder import RunFolder
from simplepcfg.runs.tensor_files import read_tensor_file
from simplepcfg.training.reporting.progress import Reporter, StepReport

TOY_SETTINGS = [
    "model.nonterminals=4",
    "model.preterminals=8",
    "model.embedding=8",
    "training.epochs=3",
    "training.batch_size=8",
    "training.log_every=2",
    "training.checkpoint_steps=3",
    "training.schedule=linear",
    "training.warmup_steps=4",
    "training.device=cpu",
    "training.threads=1",
]
BRIEF = ["training.epochs=2", "training.batch_size=16", "training.checkpoint_steps=1"]  # few steps, many checkpoints
# Whatever makes a step more than a gradient and an update.
LEVERS = [
    "training.state_dropout=0.5",
    "training.embedding_dropout=0.25",
    "training.ema_decay=0.9",
    "training.weight_decay=0.1",
    "model.rms_norm=true",
]


def toy_sentences(rng: random.Random, count: int) -> list[str]:
    """Lines of one to nine words, with a little grammar in them."""
    nouns, verbs = ["dog", "cat", "man", "bird"], ["sees", "likes", "hears"]
    lines = []
    for _ in range(count):
        words = ["the", rng.choice(nouns)]
        for _ in range(rng.randint(0, 2)):
            words += [rng.choice(verbs), "the", rng.choice(nouns)]
        lines.append(" ".join(words[: min(rng.randint(1, 9), 5)]))
    return lines


class SignalAt(Reporter):
    """Sends this process a signal after some steps, as a user would, and perhaps a second one at once."""

    def __init__(self, step: int, number: int, times: int = 1) -> None:
        self._step, self._number, self._times = step, number, times

    def step(self, report: StepReport) -> None:
        if report.step == self._step:
            for _ in range(self._times):
                os.kill(os.getpid(), self._number)


def differences(one: RunFolder, other: RunFolder) -> list[str]:
    """Every respect in which two runs differ, wall-clock times aside; empty if equal bit for bit."""
    found = []
    for name in ("metrics", "vocabulary", "config"):
        if getattr(one, name).read_bytes() != getattr(other, name).read_bytes():
            found.append(f"{name} differ")
    a, b = Checkpoint.load(one.checkpoint), Checkpoint.load(other.checkpoint)
    a.state.seconds = b.state.seconds = 0.0
    if a.state != b.state:
        found.append(f"states differ: {a.state} {b.state}")
    for group in ("weights", "best_weights", "optimizer", "random"):
        found += _tensor_differences(group, getattr(a, group), getattr(b, group))
    (best_a, record_a, *_), (best_b, record_b, *_) = read_tensor_file(one.model), read_tensor_file(other.model)
    if record_a != record_b:
        found.append(f"records of model.safetensors differ: {record_a} {record_b}")
    found += _tensor_differences("model.safetensors", best_a, best_b)
    if one.teacher.exists():
        (taught_a, identity_a, *_), (taught_b, identity_b, *_) = (read_tensor_file(run.teacher) for run in (one, other))
        if identity_a != identity_b:
            found.append(f"records of teacher.safetensors differ: {identity_a} {identity_b}")
        found += _tensor_differences("teacher.safetensors", taught_a, taught_b)
    found += [f"left over: {path.name}" for path in leftovers(other.path)]
    return found


def leftovers(folder: Path) -> list[Path]:
    """Files of a run folder that are none of a run's."""
    expected = {
        "config.toml",
        "vocabulary.txt",
        "run.json",
        "spelling.safetensors",
        "model.safetensors",
        "checkpoint.safetensors",
        "metrics.jsonl",
        "timings.jsonl",
        "teacher.safetensors",
    }
    return sorted(path for path in folder.iterdir() if path.name not in expected)


def _tensor_differences(group: str, one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> list[str]:
    if one.keys() != other.keys():
        return [f"{group}: names differ"]
    return [f"{group}/{name} differs" for name in one if not torch.equal(one[name], other[name])]
