"""Options and inputs that several commands share."""

from pathlib import Path
from typing import Annotated

from simplepcfg.cli.requests import arg, flag, opt, options, written
from simplepcfg.errors import InputError

_DEVICES = "auto|cpu|cuda|cuda:N"
Device = Annotated[str, opt("--device", _DEVICES, "Where to compute; auto takes a GPU if there is one.", ...)]
Quiet = Annotated[bool, flag("--quiet -q", "Say nothing on standard error but errors.", ...)]
Json = Annotated[str | None, written("--json", "Write everything as JSON too; - prints JSON instead of the rest.", ...)]
Raw = Annotated[bool, flag("--raw", "The file is raw text: paragraphs, which are split into sentences and words.", ...)]


@options
class SentencesRequest:
    """What commands that answer sentences share: which sentences, and where the answers go."""

    files: list[str] | None = arg(
        "FILE", "One sentence a line, trees or CoNLL-U (.gz too); folders, patterns; - is standard input.", None
    )
    raw: Raw = False
    offsets: bool = flag("--offsets", "Add where each word stands in its file, in characters from 0.")
    max_words: int | None = opt(
        "--max-words", "N", "Longer sentences are not computed.  [default: what takes half a minute]", min=1
    )
    out: Path | None = opt(
        "--out", "DIR", "Write a file for each input file or part of it; after Ctrl-C the same command goes on."
    )
    shard: str | None = opt("--shard", "K/N", "With --out: the parts of the Kth of N jobs, from 1/N to N/N.")
    jobs: int | None = opt(
        "--jobs", "N", "With --out: number of processes.  [default: one a core, or one a GPU]", min=1
    )
    part_size: int | None = opt(
        "--part-size", "N", "With --out: sentences in a file, at most.  [default: 10000]", min=1
    )
    device: Device = "auto"
    quiet: Quiet = False


def refuse_baseline(run: str, lacking: str = "probability") -> None:
    """Raise InputError if `run` names a baseline, which can be parsed with and evaluated, and nothing else."""
    from simplepcfg.evaluation.treebank import BASELINES

    if run in BASELINES:
        raise InputError(f"{run} trees have no {lacking}; give the folder of a trained run")
