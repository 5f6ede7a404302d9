"""Options of the `prepare` commands, and what they ask for."""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from simplepcfg.cli.options import Quiet
from simplepcfg.cli.requests import arg, flag, opt, options
from simplepcfg.errors import InputError

if TYPE_CHECKING:
    from simplepcfg.data.conventions import Conventions

Punctuation = Literal["tags", "characters", "keep"]
Lowercase = Annotated[bool, flag("--lowercase/--keep-case", "Lower-case words.", ...)]
Encoding = Annotated[str, opt("--encoding", "NAME", "Of the files; auto is utf-8 or else gb18030.", ...)]
Numbers = Annotated[Literal["N", "keep"], flag("--numbers", "Write N for each number, or keep them.", ...)]


@options
class FilesRequest:
    """What every `prepare` command needs."""

    sources: list[Path] = arg("SOURCE", "Folders, searched to the bottom, or files.")
    out: Path = opt("--out", "DIR", "A new or empty folder for what is written.", ...)


@options
class RangesRequest(FilesRequest):
    """Which numbered files or sections belong to which split."""

    train: str | None = opt("--train", "RANGES", "Instead of the usual numbers.")
    valid: str | None = opt("--valid", "RANGES", "Instead of the usual numbers.")
    test: str | None = opt("--test", "RANGES", "Instead of the usual numbers.")

    def ranges(self, usual: dict[str, str]) -> dict[str, str]:
        """Return the ranges of file numbers by split; the usual ones where none are given."""
        given = (self.train, self.valid, self.test)
        return {split: new or old for (split, old), new in zip(usual.items(), given, strict=True)}


@options
class SharesRequest(FilesRequest):
    """How sentences are drawn for the splits."""

    split: str | None = opt("--split", "A,B,C", "Shares of train, valid and test where no file names a split.")
    seed: int = opt("--seed", "N", "Of the draws of --split.", 0)

    @property
    def shares(self) -> tuple[float, ...] | None:
        """Return the shares of train, valid and test, such as 90,5,5, or None; InputError for another text."""
        if self.split is None:
            return None
        try:
            shares = tuple(float(part) for part in self.split.split(","))
        except ValueError:
            shares = ()
        if len(shares) != 3 or not all(share >= 0 for share in shares) or not 0 < shares[0] <= sum(shares) < math.inf:
            raise InputError(f"--split {self.split}: give three shares, of train, valid and test, such as 90,5,5")
        return shares


@options
class VocabularyRequest(FilesRequest):
    """What the last options of every `prepare` command ask for."""

    vocabulary: int = opt("--vocabulary", "N", "Most frequent training words listed; 0: all.", 10_000, min=0)
    min_count: int = opt("--min-count", "N", "Rarer words are not listed; 0: as in training.", 0, min=0)
    unk: bool = flag("--unk", "Write <unk> for words outside the vocabulary, in text and trees.")
    encoding: Encoding = "utf-8"
    quiet: Quiet = False


@options
class TreesRequest(FilesRequest):
    """What happens to the leaves and labels of trees."""

    punctuation: Punctuation = flag("--punctuation", "How it is known and dropped, or keep it.", "tags")
    keep_tags: list[str] | None = opt("--keep-tags", "TAGS", "Only leaves with these tags stay, such as 'penn ADD'.")
    drop_tags: list[str] | None = opt("--drop-tags", "TAGS", "Only leaves with these tags go, such as '$, $. PU'.")
    lowercase: Lowercase = True
    numbers: Numbers = "N"
    function_tags: Literal["drop", "keep"] = flag("--function-tags", "Of labels such as NP-SBJ-1.", "drop")
    unary: Literal["keep", "collapse"] = flag(
        "--unary", "Chains such as (S (VP ...)), with phrases of one word.", "keep"
    )


@options
class TreebankRequest(VocabularyRequest, TreesRequest):
    """A treebank; in the help of a command, the options of the last class that it is made of come first."""

    def conventions(self, usual_kept: tuple[str, ...] = (), usual_dropped: tuple[str, ...] = ()) -> "Conventions":
        """Return the conventions that are asked for, with a treebank's usual tags if none are named.

        Raises InputError if options contradict each other.
        """
        from simplepcfg.data.conventions import Conventions

        kept, dropped = (tuple(" ".join(given or ()).split()) for given in (self.keep_tags, self.drop_tags))
        if kept and dropped:
            raise InputError("--keep-tags and --drop-tags are two ways to say one thing; give one of them")
        if (kept or dropped) and self.punctuation != "tags":
            raise InputError(f"--punctuation {self.punctuation} asks no tags; leave out --keep-tags and --drop-tags")
        if self.punctuation != "tags":
            usual_kept = usual_dropped = ()
        return Conventions(
            punctuation=self.punctuation,
            keep_tags=kept or (() if dropped else usual_kept),
            drop_tags=dropped or (() if kept else usual_dropped),
            lowercase=self.lowercase,
            numbers=self.numbers,
            function_tags=self.function_tags,
            unary=self.unary,
            vocabulary_size=self.vocabulary,
            min_count=self.min_count,
            unknown="<unk>" if self.unk else "keep",
        )


@options
class WordsRequest(SharesRequest):
    """What happens to the words of a text."""

    punctuation: Punctuation = flag("--punctuation", "Drop words without letter or digit, or keep them.", "keep")
    split_sentences: bool = flag("--split-sentences", "Lines are paragraphs, folded or not: find the sentences.")
    tokenize: bool = flag("--tokenize", "Part words from punctuation, as Penn does: do n't stop .")
    language: str = opt("--language", "CODE", "By whose rules sentences and words are found.", "en")
    lowercase: Lowercase = False
    numbers: Numbers = "keep"


@options
class TextRequest(VocabularyRequest, WordsRequest):
    """A text; nothing is changed unless asked for."""

    def conventions(self) -> "Conventions":
        """Return the conventions that are asked for. Raises InputError for punctuation by tags, which no text has."""
        from simplepcfg.data.conventions import Conventions

        if self.punctuation == "tags":
            raise InputError("--punctuation tags: plain text has no tags; take characters or keep")
        return Conventions(
            punctuation=self.punctuation,
            keep_tags=(),
            lowercase=self.lowercase,
            numbers=self.numbers,
            function_tags="keep",
            vocabulary_size=self.vocabulary,
            min_count=self.min_count,
            unknown="<unk>" if self.unk else "keep",
        )
