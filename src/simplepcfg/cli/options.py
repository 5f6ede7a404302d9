"""Options and inputs that several commands share."""

import shlex
import sys
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

from simplepcfg.cli.output import note
from simplepcfg.cli.requests import flag, opt, written
from simplepcfg.errors import InputError, ResourceError

if TYPE_CHECKING:
    from simplepcfg.linguistics.word_model import WordModel

Result = TypeVar("Result")

Device = Annotated[str, opt("--device", "auto|cpu|cuda|cuda:N", "Where to compute; auto takes a GPU if there is one.")]
Quiet = Annotated[bool, flag("--quiet -q", "Say nothing on standard error but errors.")]

Json = Annotated[str | None, written("--json", "Write everything as JSON too; - prints JSON instead of the rest.")]


Raw = Annotated[bool, flag("--raw", "The file is raw text: paragraphs, which are split into sentences and words.")]


Decode = Literal["mbr", "viterbi"]
By = Literal["geometric", "arithmetic", "trees"]  # what several runs are combined by
Weigh = Literal["equal", "likelihood", "agreement"]  # what each of several runs counts by

Chunk = list[Any]  # of sentences, as lists of words or as trees
# Sentences that are read, sorted by length and answered together: enough to fill batches, few enough to hold.
CHUNK = 10_000


def refuse_baseline(run: str, lacking: str = "probability") -> None:
    """Raise InputError if `run` names a baseline, which can be parsed with and evaluated, and nothing else."""
    from simplepcfg.evaluation.treebank import BASELINES

    if run in BASELINES:
        raise InputError(f"{run} trees have no {lacking}; give the folder of a trained run")


def with_remark(results: Iterable[Result], remark: str, quiet: bool) -> Iterator[Result]:
    """Yield the results, and print the remark once there is a first one, so that a refusal stays one line."""
    for number, result in enumerate(results):
        if number == 0:
            note(remark, quiet)
        yield result


def sentence_chunks(
    path: str, quiet: bool = False, run: "WordModel | None" = None, raw: bool = False
) -> Iterator[Chunk]:
    """Yield chunks of sentences of a file or of standard input (`-`), line for line; of trees, the trees.

    With `raw` they are those of its paragraphs. Otherwise text that looks untokenised gets a remark or, if the run
    tokenises, text that seems to have several sentences on a line. So does a file without any sentence.
    At a keyboard each line is answered at once. A sentence that is too long for this machine and `run` is a
    ResourceError that names its line, after all sentences before it.
    """
    at_keyboard = path == "-" and sys.stdin.isatty()
    if at_keyboard:
        note("type one sentence a line; Ctrl-D ends", quiet)
    if path != "-" and any(map(str.isspace, path)) and not Path(path).exists():
        command = f"echo {shlex.quote(path)} | simplepcfg COMMAND RUN"
        raise InputError(f"{path}: no such file; check the path or, if it is a sentence, pipe it: {command}")
    from simplepcfg.data.raw_text import paragraph_remark, untokenized_remark
    from simplepcfg.data.readers import read_sentences, read_trees, sniff
    from simplepcfg.inference.run import Run

    are_trees = sniff(path) == "trees"
    tokenizes = run is not None and run.preprocessing.tokenize
    name = "standard input" if path == "-" else path
    if are_trees:
        items: Iterator[Any] = read_trees(path)
    elif run is None:
        items = read_sentences(path, keep_blank=True, raw=raw)
    else:
        as_run = run.preprocessing
        items = read_sentences(path, keep_blank=True, split=as_run.split, raw=raw, language=as_run.language)
    size = 1 if at_keyboard and not raw else CHUNK
    done = 0
    while chunk := list(islice(items, size)):
        if not (raw or are_trees or done):
            remark = paragraph_remark(chunk) if tokenizes else untokenized_remark(chunk)
            if remark is not None:
                note(f"the text {remark}; --raw splits it into sentences and words", quiet)
        too_long = run.first_too_long(chunk) if isinstance(run, Run) else None
        if too_long is not None:
            index, reason = too_long
            if index:
                yield chunk[:index]
            kind = ": tree " if are_trees else ": sentence " if raw else ":"
            place = f"{name}{kind}{done + index + 1}"
            raise ResourceError(f"{place}: {reason}")
        yield chunk
        done += len(chunk)
    if not done and not at_keyboard:
        note(f"{name}: no sentences", quiet)
