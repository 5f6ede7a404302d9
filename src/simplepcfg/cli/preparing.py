"""What a person sees of `prepare`: a bar while files are read, then what is there and what is not."""

import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from simplepcfg.data.conventions import FOREIGN, KEPT_WORDS
from simplepcfg.errors import counted

if TYPE_CHECKING:
    from simplepcfg.data.preparation import Job, Prepared, Progress
    from simplepcfg.training.recommendation import Recommendation

SHOWN_TAGS = 12
LANGUAGE_MODELS = ("sn-pcfg-4096", "sn-pcfg-small-lm")


@contextmanager
def file_progress(job: "Job", quiet: bool) -> "Iterator[Progress | None]":
    """Provide a function that reports progress by a bar of files on standard error; None if that is no terminal."""
    from rich.console import Console

    console = Console(stderr=True, highlight=False)
    if quiet or not console.is_terminal or console.is_dumb_terminal:
        yield None
        return
    from rich.progress import BarColumn, Progress, TextColumn

    places = {path: number for number, (_, path) in enumerate(job.source.files)}
    columns = TextColumn("{task.fields[name]}"), BarColumn(), TextColumn("{task.fields[sentences]:,} sentences")
    with Progress(*columns, console=console, transient=True) as bar:
        # One file has no share of files to show: the bar just moves.
        task = bar.add_task("", total=len(places) if len(places) > 1 else None, name="", sentences=0)

        def show(path: Path, sentences: int) -> None:
            bar.update(task, completed=places[path], name=path.name, sentences=sentences)

        yield show


def summary(job: "Job", done: "Prepared", expected: dict[str, int], fitting: "Recommendation") -> Iterator[str]:
    """Yield the lines of a summary: each split, what was dropped and why, the vocabulary, and how to train on it."""
    yield from done.notes
    unit = "sentence" if job.kind == "text" else "tree"
    for split, count in done.splits.items():
        one_word = f", {count.one_word:,} of them of one word" if count.one_word else ""
        size = f"{counted(count.sentences, 'sentence')}{one_word}, {counted(count.words, 'word')}"
        yield f"{split}: {size}, from {counted(count.read, unit)} in {counted(count.files, 'file')}"
    for split, trees in expected.items():
        if done.splits[split].read != trees:
            yield f"{split}: PTB-3 has {trees:,} trees here, not {done.splits[split].read:,}; is this all of it?"
    if job.source.files[0][0] is None and job.shares is None:
        yield "no file names a split, so all of it is training text; --split 90,5,5 makes three"
    yield from dropped(done)
    yield f"vocabulary: {done.vocabulary:,} of the {done.types:,} different words of the training text"
    sentences = counted(done.splits["train"].sentences, "sentence")
    yield f"for {sentences} on this machine: {fitting.config} ({fitting.reason})"
    yield f"the files are in {done.folder}; next: {train_command(done, fitting.config)}"


def dropped(done: "Prepared") -> Iterator[str]:
    """Yield lines with what was dropped, by reason."""
    tags = done.losses.tags
    if tags:
        listed = "  ".join(f"{tag} {count:,}" for tag, count in tags.most_common(SHOWN_TAGS))
        more = f"  and {len(tags) - SHOWN_TAGS} more tags" if len(tags) > SHOWN_TAGS else ""
        yield f"dropped {sum(tags.values()):,} leaves by tag: {listed}{more}"
    foreign = done.losses.reasons[FOREIGN]
    if tags and foreign:
        yield f"{foreign:,} of these have a letter or digit; --keep-tags would let their tags stay"
    for reason, count in done.losses.reasons.items():
        if count and reason not in (KEPT_WORDS, FOREIGN):
            yield f"{'changed' if ', now ' in reason else 'dropped'} {count:,} {reason}"


def train_command(done: "Prepared", config: str) -> str:
    """Return the command that trains on what was written, with the settings of prepared.toml."""
    folder = done.folder
    valid = f" --valid {shlex.quote(str(folder / 'valid.txt'))}" if "valid" in done.splits else ""
    # The configurations for language modelling change nothing by themselves; those for parsing do.
    keys = [] if config in LANGUAGE_MODELS else ["lowercase", "numbers", "punctuation"]
    if done.settings["eos"] and keys:
        keys.append("eos")
    settings = "".join(f" --set data.{key}={_toml(done.settings[key])}" for key in keys)
    return f"simplepcfg train {config} --train {shlex.quote(str(folder / 'train.txt'))}{valid}{settings}"


def _toml(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
