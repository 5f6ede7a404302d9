"""Damage to the files of a run: every kind of it must be found, named, and change nothing else."""

import random
import shutil
from collections.abc import Callable
from pathlib import Path

from attacks.outcomes import Outcome
from damage import KINDS
from simplepcfg.errors import InputError
from simplepcfg.runs.run_folder import RunFolder, load_run
from simplepcfg.training import train

RESUMED_EVERY = 10  # damaged models, which resuming writes again, in a second each
FILES = ("model", "checkpoint", "config", "vocabulary", "facts")


def damage_files(run: Path, folder: Path, count: int, seed: int = 0) -> list[Outcome]:
    """`count` random damages of each file of a finished run, of all kinds in turn; the rest must stay as it was."""
    found = []
    copy = RunFolder(folder / "damaged")
    whole = RunFolder(run)
    for name in FILES:
        outcome = Outcome(f"damage to {getattr(whole, name).name}")
        found.append(outcome)
        for number in range(count):
            kind = list(KINDS)[number % len(KINDS)]
            rng = random.Random(f"{seed} {name} {number}")
            shutil.rmtree(copy.path, ignore_errors=True)
            shutil.copytree(whole.path, copy.path)
            path = getattr(copy, name)
            if path.stat().st_size <= 1000 and kind in ("100 bits", "a lost sector", "swapped blocks"):
                kind = "one bit"
            KINDS[kind](path, rng)
            if path.read_bytes() == getattr(whole, name).read_bytes():
                outcome.count(None)
                continue
            outcome.count(_finding(whole, copy, name, number, f"{kind}, seed {seed} {name} {number}"))
    return found


def _finding(whole: RunFolder, copy: RunFolder, name: str, number: int, label: str) -> str | None:
    before = {path.name: path.read_bytes() for path in copy.path.iterdir()}
    attempts: list[Callable[[], object]] = [lambda: train(None, copy.path, resume=True)]
    if name in ("model", "config", "vocabulary"):
        attempts.insert(0, lambda: load_run(copy.path, "cpu"))
    if name == "model":  # which resuming writes again from the checkpoint
        attempts.pop()
    for attempt in attempts:
        try:
            attempt()
        except InputError as error:
            if "\n" in str(error):
                return f"{label}: several lines: {error}"
        except Exception as error:
            return f"{label}: {type(error).__name__}: {error}"
        else:
            return None if _means_the_same(whole, copy, name) else f"{label}: went unnoticed"
    if {path.name: path.read_bytes() for path in copy.path.iterdir()} != before:
        return f"{label}: other files changed"
    if name == "model" and not number % RESUMED_EVERY:
        train(None, copy.path, resume=True)
        if copy.model.read_bytes() != whole.model.read_bytes() and not _same_weights(whole, copy):
            return f"{label}: the model was not written again"
    return None


def _means_the_same(whole: RunFolder, copy: RunFolder, name: str) -> bool:
    """A flipped line end, or a byte of a comment, can leave the meaning as it is."""
    if name == "config":
        from simplepcfg.runs.config.files import load_config

        return load_config(copy.config, environment={}) == load_config(whole.config, environment={})
    if name == "vocabulary":
        from simplepcfg.data.vocabulary import Vocabulary

        return Vocabulary.load(copy.vocabulary) == Vocabulary.load(whole.vocabulary)
    if name == "facts":
        import json

        return json.loads(copy.facts.read_bytes()) == json.loads(whole.facts.read_bytes())
    return False


def _same_weights(one: RunFolder, other: RunFolder) -> bool:
    from simplepcfg.runs.tensor_files import read_tensor_file

    (a, _), (b, _) = read_tensor_file(one.model), read_tensor_file(other.model)
    return a.keys() == b.keys() and all(bool((a[name] == b[name]).all()) for name in a)


def truncate_last_kilobyte(run: Path, folder: Path) -> list[Outcome]:
    """Every shorter length within the last kilobyte of model and checkpoint."""
    from simplepcfg.runs.tensor_files import read_checked_tensor_file

    found = []
    for name in ("model", "checkpoint"):
        outcome = Outcome(f"{name}.safetensors cut off at each of its last 1,024 bytes")
        found.append(outcome)
        content = getattr(RunFolder(run), name).read_bytes()
        path = folder / "cut.safetensors"
        for size in range(max(0, len(content) - 1024), len(content)):
            path.write_bytes(content[:size])
            try:
                read_checked_tensor_file(path)
            except InputError:
                outcome.count(None)
            else:
                outcome.count(f"{size} of {len(content)} bytes went unnoticed")
    return found
