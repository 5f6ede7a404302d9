"""`simplepcfg prepare`: a treebank as published, as the files that train and evaluate read."""

import math
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from simplepcfg.cli.options import Quiet
from simplepcfg.cli.output import note
from simplepcfg.cli.progress import shows_progress
from simplepcfg.cli.requests import arg, flag, group, opt, options, takes
from simplepcfg.errors import InputError, counted

if TYPE_CHECKING:
    from simplepcfg.data.conventions import Conventions
    from simplepcfg.data.preparation import Job, Preparation
    from simplepcfg.training.recommendation import Recommendation

SUMMARY = "Make text, trees and a vocabulary from a treebank."
SHOWN_TAGS = 12
Punctuation = Literal["tags", "characters", "keep"]

app = group(
    """Make text, trees and a vocabulary from a treebank as it is published.

    \b
    Example:
      simplepcfg prepare ptb treebank_3/parsed/mrg/wsj --out data/ptb
    """
)


@options
class TreebankRequest:
    """Where trees are, where they are written, and what happens to their leaves."""

    sources: list[Path] = arg("SOURCE", "Folders, searched to the bottom, or files.")
    out: Path = opt("--out", "DIR", "A new or empty folder for what is written.", ...)
    vocabulary: int = opt("--vocabulary", "N", "Most frequent training words listed; 0: all.", 10_000, min=0)
    min_count: int = opt("--min-count", "N", "Rarer words are not listed; 0: as in training.", 0, min=0)
    lowercase: bool = flag("--lowercase/--keep-case", "Lower-case words.", True)
    numbers: Literal["N", "keep"] = flag("--numbers", "Write N for each number, or keep them.", "N")
    punctuation: Punctuation = flag("--punctuation", "Drop it by its tag or its characters, or keep it.", "tags")
    keep_tags: list[str] | None = opt("--keep-tags", "TAGS", "Only leaves with these tags stay, such as 'penn ADD'.")
    drop_tags: list[str] | None = opt("--drop-tags", "TAGS", "Only leaves with these tags go, such as '$, $. PU'.")
    quiet: Quiet = False

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
            lowercase=self.lowercase,
            numbers=self.numbers,
            vocabulary_size=self.vocabulary,
            min_count=self.min_count,
            punctuation=self.punctuation,
            keep_tags=kept or (() if dropped else usual_kept),
            drop_tags=dropped or (() if kept else usual_dropped),
        )


@options
class RangesRequest(TreebankRequest):
    """Which numbered files or sections belong to which split."""

    train: str | None = opt("--train", "RANGES", "Other sections or files of this split, such as 2-21,24.")
    valid: str | None = opt("--valid", "RANGES", "Other sections or files of this split.")
    test: str | None = opt("--test", "RANGES", "Other sections or files of this split.")

    def ranges(self, usual: dict[str, str]) -> dict[str, str]:
        """Return the ranges of file numbers by split; the usual ones where none are given."""
        given = (self.train, self.valid, self.test)
        return {split: new or old for (split, old), new in zip(usual.items(), given, strict=True)}


@options
class SpmrlRequest(TreebankRequest):
    """A treebank of the SPMRL shared task, in the language whose punctuation is dropped."""

    language: Literal["french", "german"] | None = flag(
        "--language", "Whose tags the files have.  [default: by their names]", None
    )


@options
class BracketsRequest(TreebankRequest):
    """Any bracketed trees, and how they are drawn for the splits."""

    split: str | None = opt("--split", "A,B,C", "Shares of train, valid and test where no file names a split.")
    seed: int = opt("--seed", "N", "Seed of --split.", 0)

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


@app.command("ptb", short_help="Penn Treebank 3, Wall Street Journal: sections 02-21, 22, 23.")
@shows_progress
@takes(RangesRequest)
def ptb(request: RangesRequest) -> None:
    """Prepare the Penn Treebank's Wall Street Journal, from files such as wsj_0201.mrg.

    \b
    Example:
      simplepcfg prepare ptb treebank_3/parsed/mrg/wsj --out data/ptb
    """
    from simplepcfg.data.preparation import Job
    from simplepcfg.data.treebank_files import PTB_SECTIONS, PTB_TREES, find_ptb

    ranges, conventions = request.ranges(PTB_SECTIONS), request.conventions(("penn",))
    source = find_ptb(request.sources, ranges)
    job = Job(kind="ptb", sources=request.sources, source=source, conventions=conventions, ranges=ranges)
    _run(job, request, PTB_TREES if ranges == PTB_SECTIONS else {})


@app.command("ctb", short_help="Chinese Treebank 5.1: files 1-270 and 440-1151, 301-325, 271-300.")
@shows_progress
@takes(RangesRequest)
def ctb(request: RangesRequest) -> None:
    """Prepare the Chinese Treebank, from files such as chtb_001.fid; leaves tagged PU are punctuation.

    \b
    Example:
      simplepcfg prepare ctb ctb5.1/data/bracketed --out data/ctb
    """
    from simplepcfg.data.conventions import CHINESE_PUNCTUATION
    from simplepcfg.data.preparation import Job
    from simplepcfg.data.treebank_files import CTB_FILES, find_ctb

    ranges, conventions = request.ranges(CTB_FILES), request.conventions((), CHINESE_PUNCTUATION)
    source = find_ctb(request.sources, ranges)
    _run(Job(kind="ctb", sources=request.sources, source=source, conventions=conventions, ranges=ranges), request)


@app.command("spmrl", short_help="SPMRL shared task, French or German.")
@shows_progress
@takes(SpmrlRequest)
def spmrl(request: SpmrlRequest) -> None:
    """Prepare a treebank of the SPMRL shared task, from files such as train.French.gold.ptb.

    Other languages than French and German need their punctuation tags, by --drop-tags.

    \b
    Example:
      simplepcfg prepare spmrl GERMAN_SPMRL/gold/ptb --out data/german
      simplepcfg prepare spmrl train.French.gold.ptb dev.French.gold.ptb test.French.gold.ptb --out data/french
    """
    from simplepcfg.data.conventions import FRENCH_PUNCTUATION, GERMAN_PUNCTUATION
    from simplepcfg.data.preparation import Job
    from simplepcfg.data.treebank_files import find_spmrl, language_of

    source = find_spmrl(request.sources)
    language = request.language or language_of(source.files)
    known = {"french": FRENCH_PUNCTUATION, "german": GERMAN_PUNCTUATION}.get(language or "", ())
    if not known and request.punctuation == "tags" and not request.keep_tags and not request.drop_tags:
        raise InputError("the files' names do not say French or German; give --language, --drop-tags or --keep-tags")
    conventions = request.conventions((), known)
    _run(Job(kind="spmrl", sources=request.sources, source=source, conventions=conventions), request)


@app.command("brackets", short_help="Any folder or files of bracketed trees.")
@shows_progress
@takes(BracketsRequest)
def brackets(request: BracketsRequest) -> None:
    """Prepare bracketed trees; train, dev (valid) or test in the name of a file or folder says the split.

    Leaves with one of the 36 Penn word tags stay, unless other tags are given.

    \b
    Example:
      simplepcfg prepare brackets gum --out data/gum
      simplepcfg prepare brackets trees --out data/mine --split 90,5,5 --drop-tags 'PUNCT SYM'
    """
    from simplepcfg.data.preparation import Job
    from simplepcfg.data.treebank_files import find_trees

    job = Job(
        kind="brackets",
        sources=request.sources,
        source=find_trees(request.sources),
        conventions=request.conventions(("penn",)),
        shares=request.shares,
        seed=request.seed,
    )
    _run(job, request)


def _run(job: "Job", request: TreebankRequest, expected: dict[str, int] | None = None) -> None:
    from simplepcfg.data.preparation import prepare

    done = prepare(job, request.out)
    if request.quiet:
        return
    from simplepcfg.training.recommendation import fitting_configuration

    fitting = fitting_configuration(done.splits["train"].sentences)
    for line in _summary(job, done, expected or {}, fitting):
        note(line)


def _summary(job: "Job", done: "Preparation", expected: dict[str, int], fitting: "Recommendation") -> Iterator[str]:
    """Yield the lines of a summary: each split, what was dropped and why, the vocabulary, and how to train on it."""
    yield from done.notes
    for split, count in done.splits.items():
        one_word = f", {count.one_word_sentences:,} of them of one word" if count.one_word_sentences else ""
        size = f"{counted(count.sentences, 'sentence')}{one_word}, {counted(count.words, 'word')}"
        yield f"{split}: {size}, from {counted(count.read, 'tree')} in {counted(count.files, 'file')}"
    for split, trees in expected.items():
        if done.splits[split].read != trees:
            yield f"{split}: PTB-3 has {trees:,} trees here, not {done.splits[split].read:,}; is this all of it?"
    if job.source.files[0][0] is None and job.shares is None:
        yield "no file names a split, so all of it is training text; --split 90,5,5 makes three"
    yield from _dropped(done)
    yield f"vocabulary: {done.vocabulary:,} of the {done.types:,} different words of the training text"
    sentences = counted(done.splits["train"].sentences, "sentence")
    yield f"for {sentences} on this machine: {fitting.config} ({fitting.reason})"
    yield f"the files are in {done.folder}; next: {_train_command(done, job.conventions, fitting.config)}"


def _dropped(done: "Preparation") -> Iterator[str]:
    """Yield lines with what was dropped, by reason."""
    from simplepcfg.data.conventions import FOREIGN, KEPT_WORDS

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


def _train_command(done: "Preparation", conventions: "Conventions", config: str) -> str:
    """Return the command that trains on what was written, with the settings of prepared.toml."""
    from simplepcfg.data.preparation import AS_PREPARED

    folder, defaults = done.folder, type(conventions)()
    valid = f" --valid {shlex.quote(str(folder / 'valid.txt'))}" if "valid" in done.splits else ""
    values = dict(AS_PREPARED)
    for key in ("vocabulary_size", "min_count"):
        if getattr(conventions, key) != getattr(defaults, key):
            values[key] = getattr(conventions, key)
    settings = "".join(f" --set data.{key}={str(value).lower()}" for key, value in values.items())  # false, keep
    out = f" --out {shlex.quote(f'runs/{folder.resolve().name}')}"
    return f"simplepcfg train {config} --train {shlex.quote(str(folder / 'train.txt'))}{valid}{settings}{out}"
