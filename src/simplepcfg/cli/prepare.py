"""`simplepcfg prepare`: a treebank or text as published, as the files that train and evaluate read."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from simplepcfg.cli.options import Quiet
from simplepcfg.cli.output import note, write_lines
from simplepcfg.cli.prepare_options import (
    ByTag,
    DropTags,
    Encoding,
    FunctionTags,
    KeepTags,
    Kept,
    Language,
    Lowercase,
    MinCount,
    Numbers,
    NumberStyle,
    Out,
    Punctuation,
    Seed,
    Shares,
    Size,
    Sources,
    TestRange,
    TrainRange,
    Unary,
    UnaryChains,
    Unk,
    ValidRange,
    conventions_of,
    ranges_of,
    shares_of,
)
from simplepcfg.cli.requests import flag
from simplepcfg.errors import InputError

if TYPE_CHECKING:
    from simplepcfg.data.conventions import Conventions
    from simplepcfg.data.preparation import Job

NAME = "prepare"
SUMMARY = "Make text, trees and a vocabulary from a treebank."

app = typer.Typer(rich_markup_mode=None)


@app.callback(invoke_without_command=True)
def top(context: typer.Context) -> None:
    """Make text, trees and a vocabulary from a treebank or text as it is published.

    \b
    Example:
      simplepcfg prepare ptb treebank_3/parsed/mrg/wsj --out data/ptb
    """
    if context.invoked_subcommand is None:
        write_lines([context.get_help()])


@app.command("ptb", short_help="Penn Treebank 3, Wall Street Journal: sections 02-21, 22, 23.")
def ptb(
    sources: Sources,
    out: Out,
    train: TrainRange = None,
    valid: ValidRange = None,
    test: TestRange = None,
    punctuation: ByTag = Punctuation.tags,
    keep_tags: KeepTags = None,
    drop_tags: DropTags = None,
    lowercase: Lowercase = True,
    numbers: NumberStyle = Numbers.N,
    function_tags: FunctionTags = Kept.drop,
    unary: UnaryChains = Unary.keep,
    vocabulary: Size = 10_000,
    min_count: MinCount = 1,
    unk: Unk = False,
    encoding: Encoding = "utf-8",
    quiet: Quiet = False,
) -> None:
    """The Penn Treebank's Wall Street Journal, from files such as wsj_0201.mrg.

    \b
    Example:
      simplepcfg prepare ptb treebank_3/parsed/mrg/wsj --out data/ptb
    """
    from simplepcfg.data.treebank_files import PTB_SECTIONS, PTB_TREES, find_ptb

    ranges = ranges_of(PTB_SECTIONS, train, valid, test)
    conventions = conventions_of(
        ("penn",), (), punctuation, keep_tags, drop_tags, lowercase, numbers, function_tags, unary, vocabulary,
        min_count, unk,
    )  # fmt: skip
    job = _job("ptb", sources, find_ptb(sources, ranges), conventions, encoding, ranges)
    _run(job, out, quiet, PTB_TREES if ranges == PTB_SECTIONS else {})


@app.command("ctb", short_help="Chinese Treebank 5.1: files 1-270 and 440-1151, 301-325, 271-300.")
def ctb(
    sources: Sources,
    out: Out,
    train: TrainRange = None,
    valid: ValidRange = None,
    test: TestRange = None,
    punctuation: ByTag = Punctuation.tags,
    keep_tags: KeepTags = None,
    drop_tags: DropTags = None,
    lowercase: Lowercase = True,
    numbers: NumberStyle = Numbers.N,
    function_tags: FunctionTags = Kept.drop,
    unary: UnaryChains = Unary.keep,
    vocabulary: Size = 10_000,
    min_count: MinCount = 1,
    unk: Unk = False,
    encoding: Encoding = "auto",
    quiet: Quiet = False,
) -> None:
    """The Chinese Treebank, from files such as chtb_001.fid; leaves tagged PU are punctuation.

    \b
    Example:
      simplepcfg prepare ctb ctb5.1/data/bracketed --out data/ctb
    """
    from simplepcfg.data.conventions import CHINESE_PUNCTUATION
    from simplepcfg.data.treebank_files import CTB_FILES, find_ctb

    ranges = ranges_of(CTB_FILES, train, valid, test)
    conventions = conventions_of(
        (), CHINESE_PUNCTUATION, punctuation, keep_tags, drop_tags, lowercase, numbers, function_tags, unary,
        vocabulary, min_count, unk,
    )  # fmt: skip
    _run(_job("ctb", sources, find_ctb(sources, ranges), conventions, encoding, ranges), out, quiet)


@app.command("spmrl", short_help="SPMRL shared task, French or German.")
def spmrl(
    sources: Sources,
    out: Out,
    language: Annotated[
        Language | None, flag("--language", "Whose tags the files have.  [default: by their names]")
    ] = None,
    punctuation: ByTag = Punctuation.tags,
    keep_tags: KeepTags = None,
    drop_tags: DropTags = None,
    lowercase: Lowercase = True,
    numbers: NumberStyle = Numbers.N,
    function_tags: FunctionTags = Kept.drop,
    unary: UnaryChains = Unary.keep,
    vocabulary: Size = 10_000,
    min_count: MinCount = 1,
    unk: Unk = False,
    encoding: Encoding = "utf-8",
    quiet: Quiet = False,
) -> None:
    """A treebank of the SPMRL shared task, from files such as train.French.gold.ptb.

    Other languages than French and German need their punctuation tags, by --drop-tags.

    \b
    Example:
      simplepcfg prepare spmrl GERMAN_SPMRL/gold/ptb --out data/german
      simplepcfg prepare spmrl train.French.gold.ptb dev.French.gold.ptb test.French.gold.ptb --out data/french
    """
    from simplepcfg.data.conventions import FRENCH_PUNCTUATION, GERMAN_PUNCTUATION
    from simplepcfg.data.treebank_files import find_spmrl, language_of

    source = find_spmrl(sources)
    found = language.value if language is not None else language_of(source.files)
    known = {"french": FRENCH_PUNCTUATION, "german": GERMAN_PUNCTUATION}.get(found or "", ())
    if not known and punctuation is Punctuation.tags and not keep_tags and not drop_tags:
        raise InputError("the files' names do not say French or German; give --language, --drop-tags or --keep-tags")
    conventions = conventions_of(
        (), known, punctuation, keep_tags, drop_tags, lowercase, numbers, function_tags, unary, vocabulary, min_count,
        unk,
    )  # fmt: skip
    _run(_job("spmrl", sources, source, conventions, encoding), out, quiet)


@app.command("brackets", short_help="Any folder or files of bracketed trees.")
def brackets(
    sources: Sources,
    out: Out,
    split: Shares = None,
    seed: Seed = 0,
    punctuation: ByTag = Punctuation.tags,
    keep_tags: KeepTags = None,
    drop_tags: DropTags = None,
    lowercase: Lowercase = True,
    numbers: NumberStyle = Numbers.N,
    function_tags: FunctionTags = Kept.drop,
    unary: UnaryChains = Unary.keep,
    vocabulary: Size = 10_000,
    min_count: MinCount = 1,
    unk: Unk = False,
    encoding: Encoding = "utf-8",
    quiet: Quiet = False,
) -> None:
    """Bracketed trees; train, dev (valid) or test in the name of a file or folder says the split.

    Leaves with one of the 36 Penn word tags stay, unless other tags are given.

    \b
    Example:
      simplepcfg prepare brackets gum --out data/gum
      simplepcfg prepare brackets trees --out data/mine --split 90,5,5 --drop-tags 'PUNCT SYM'
    """
    from simplepcfg.data.treebank_files import find_trees

    conventions = conventions_of(
        ("penn",), (), punctuation, keep_tags, drop_tags, lowercase, numbers, function_tags, unary, vocabulary,
        min_count, unk,
    )  # fmt: skip
    job = _job("brackets", sources, find_trees(sources), conventions, encoding)
    _run(replace(job, shares=shares_of(split), seed=seed), out, quiet)


@app.command("text", short_help="Plain text, one sentence a line, for language modelling.")
def text(
    sources: Sources,
    out: Out,
    split: Shares = None,
    seed: Seed = 0,
    punctuation: Annotated[
        Punctuation, flag("--punctuation", "Drop words without letter or digit, or keep them.")
    ] = Punctuation.keep,
    split_sentences: Annotated[
        bool, flag("--split-sentences", "Lines are paragraphs, folded or not: find the sentences.")
    ] = False,
    tokenize: Annotated[bool, flag("--tokenize", "Part words from punctuation, as Penn does: do n't stop .")] = False,
    lowercase: Lowercase = False,
    numbers: NumberStyle = Numbers.keep,
    vocabulary: Size = 10_000,
    min_count: MinCount = 1,
    unk: Unk = False,
    encoding: Encoding = "utf-8",
    quiet: Quiet = False,
) -> None:
    """Plain text or CoNLL-U, words separated by white space; nothing is changed unless asked for.

    <eos> is not written: training adds it (data.eos = true).

    \b
    Example:
      simplepcfg prepare text ptb.train.txt ptb.valid.txt ptb.test.txt --out data/ptb-lm
      simplepcfg prepare text novel.txt --split-sentences --tokenize --split 90,5,5 --out data/novel
    """
    from simplepcfg.data.treebank_files import find_text

    if punctuation is Punctuation.tags:
        raise InputError("--punctuation tags: plain text has no tags; take characters or keep")
    conventions = conventions_of(
        ("penn",), (), punctuation, None, None, lowercase, numbers, Kept.keep, Unary.keep, vocabulary, min_count, unk
    )
    job = _job("text", sources, find_text(sources), conventions, encoding)
    job = replace(job, split_sentences=split_sentences, tokenize=tokenize)
    _run(replace(job, shares=shares_of(split), seed=seed), out, quiet)


def _job(
    kind: str, sources: list[Path], source: Any, conventions: "Conventions", encoding: str, ranges: Any = None
) -> "Job":
    from simplepcfg.data.encodings import AUTO, check_encoding
    from simplepcfg.data.preparation import Job

    if encoding != AUTO:
        check_encoding(encoding)
    return Job(
        kind=kind, sources=sources, source=source, conventions=conventions, encoding=encoding, ranges=ranges or {}
    )


def _run(job: "Job", out: Path, quiet: bool, expected: dict[str, int] | None = None) -> None:
    from simplepcfg.cli.preparing import file_progress, summary
    from simplepcfg.data.preparation import prepare
    from simplepcfg.data.prepared_folder import refuse_filled

    refuse_filled(out)
    with file_progress(job, quiet) as progress:
        done = prepare(job, out, progress)
    if quiet:
        return
    from simplepcfg.training.recommendation import fitting_configuration

    fitting = fitting_configuration(done.splits["train"].sentences, language_model=job.kind == "text")
    for line in summary(job, done, expected or {}, fitting):
        note(line)
