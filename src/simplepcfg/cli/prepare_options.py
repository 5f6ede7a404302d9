"""Options of the `prepare` commands, and what they ask for."""

import math
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from simplepcfg.cli.requests import arg, flag, opt
from simplepcfg.errors import InputError

if TYPE_CHECKING:
    from simplepcfg.data.conventions import Conventions


class Punctuation(StrEnum):
    """How punctuation is known."""

    tags = "tags"
    characters = "characters"
    keep = "keep"


class Numbers(StrEnum):
    """What becomes of numbers."""

    N = "N"
    keep = "keep"


class Kept(StrEnum):
    """Whether something stays."""

    drop = "drop"
    keep = "keep"


class Unary(StrEnum):
    """What becomes of unary chains."""

    keep = "keep"
    collapse = "collapse"


class Language(StrEnum):
    """Those whose punctuation tags are known."""

    french = "french"
    german = "german"


Sources = Annotated[list[Path], arg("SOURCE", "Folders, searched to the bottom, or files.")]
Out = Annotated[Path, opt("--out", "DIR", "A new or empty folder for what is written.")]
ByTag = Annotated[Punctuation, flag("--punctuation", "How it is known and dropped, or keep it.")]
KeepTags = Annotated[
    list[str] | None, opt("--keep-tags", "TAGS", "Only leaves with these tags stay, such as 'penn ADD'.")
]
DropTags = Annotated[
    list[str] | None, opt("--drop-tags", "TAGS", "Only leaves with these tags go, such as '$, $. PU'.")
]
Lowercase = Annotated[bool, flag("--lowercase/--keep-case", "Lower-case words.")]
NumberStyle = Annotated[Numbers, flag("--numbers", "Write N for each number, or keep them.")]
FunctionTags = Annotated[Kept, flag("--function-tags", "Of labels such as NP-SBJ-1.")]
UnaryChains = Annotated[Unary, flag("--unary", "Chains such as (S (VP ...)), with phrases of one word.")]
Size = Annotated[int, opt("--vocabulary", "N", "Most frequent training words listed; 0: all.", min=0)]
MinCount = Annotated[int, opt("--min-count", "N", "Words seen less often are not listed.", min=1)]
Unk = Annotated[bool, flag("--unk", "Write <unk> for words outside the vocabulary, in text and trees.")]
Encoding = Annotated[str, opt("--encoding", "NAME", "Of the files; auto is utf-8 or else gb18030.")]
Shares = Annotated[str | None, opt("--split", "A,B,C", "Shares of train, valid and test where no file names a split.")]
Seed = Annotated[int, opt("--seed", "N", "Of the draws of --split.")]
TrainRange = Annotated[str | None, opt("--train", "RANGES", "Instead of the usual numbers.")]
ValidRange = Annotated[str | None, opt("--valid", "RANGES", "Instead of the usual numbers.")]
TestRange = Annotated[str | None, opt("--test", "RANGES", "Instead of the usual numbers.")]


def conventions_of(
    usual_kept: tuple[str, ...],
    usual_dropped: tuple[str, ...],
    punctuation: Punctuation,
    keep_tags: list[str] | None,
    drop_tags: list[str] | None,
    lowercase: bool,
    numbers: Numbers,
    function_tags: Kept,
    unary: Unary,
    vocabulary: int,
    min_count: int,
    unk: bool,
) -> "Conventions":
    """Return the conventions of the options, with a treebank's usual tags if they name none.

    Raises InputError if options contradict each other.
    """
    from simplepcfg.data.conventions import Conventions

    kept, dropped = (tuple(" ".join(given or ()).split()) for given in (keep_tags, drop_tags))
    if kept and dropped:
        raise InputError("--keep-tags and --drop-tags are two ways to say one thing; give one of them")
    if (kept or dropped) and punctuation is not Punctuation.tags:
        raise InputError(f"--punctuation {punctuation.value} asks no tags; leave out --keep-tags and --drop-tags")
    if punctuation is not Punctuation.tags:
        usual_kept = usual_dropped = ()
    return Conventions(
        punctuation=punctuation.value,
        keep_tags=kept or (() if dropped else usual_kept),
        drop_tags=dropped or (() if kept else usual_dropped),
        lowercase=lowercase,
        numbers=numbers.value,
        function_tags=function_tags.value,
        unary=unary.value,
        vocabulary_size=vocabulary,
        min_count=min_count,
        unknown="<unk>" if unk else "keep",
    )


def ranges_of(usual: dict[str, str], *given: str | None) -> dict[str, str]:
    """Return the ranges of file numbers by split; the usual ones if none are given."""
    return {split: new or old for (split, old), new in zip(usual.items(), given, strict=True)}


def shares_of(text: str | None) -> tuple[float, ...] | None:
    """Return the shares of train, valid and test in a text such as 90,5,5, or None; InputError for another text."""
    if text is None:
        return None
    try:
        shares = tuple(float(part) for part in text.split(","))
    except ValueError:
        shares = ()
    if len(shares) != 3 or not all(share >= 0 for share in shares) or not 0 < shares[0] <= sum(shares) < math.inf:
        raise InputError(f"--split {text}: give three shares, of train, valid and test, such as 90,5,5")
    return shares
