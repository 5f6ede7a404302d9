"""`simplepcfg prepare`: a treebank or text as published, as the files that train and evaluate read."""

from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from simplepcfg.cli.output import note
from simplepcfg.cli.prepare_options import (
    Encoding,
    FilesRequest,
    RangesRequest,
    SharesRequest,
    TextRequest,
    TreebankRequest,
    VocabularyRequest,
)
from simplepcfg.cli.requests import flag, group, options, takes
from simplepcfg.errors import InputError

if TYPE_CHECKING:
    from simplepcfg.data.conventions import Conventions
    from simplepcfg.data.preparation import Job
    from simplepcfg.data.treebank_files import Source

SUMMARY = "Make text, trees and a vocabulary from a treebank."

app = group(
    """Make text, trees and a vocabulary from a treebank or text as it is published.

    \b
    Example:
      simplepcfg prepare ptb treebank_3/parsed/mrg/wsj --out data/ptb
    """
)


@options
class PtbRequest(TreebankRequest, RangesRequest):
    """The Penn Treebank."""


@options
class CtbRequest(TreebankRequest, RangesRequest):
    """The Chinese Treebank, whose older files are in GB 18030."""

    encoding: Encoding = "auto"


@options
class LanguageRequest(FilesRequest):
    """Whose punctuation is dropped."""

    language: Literal["french", "german"] | None = flag(
        "--language", "Whose tags the files have.  [default: by their names]", None
    )


@options
class SpmrlRequest(TreebankRequest, LanguageRequest):
    """A treebank of the SPMRL shared task."""


@options
class BracketsRequest(TreebankRequest, SharesRequest):
    """Any bracketed trees."""


@app.command("ptb", short_help="Penn Treebank 3, Wall Street Journal: sections 02-21, 22, 23.")
@takes(PtbRequest)
def ptb(request: PtbRequest) -> None:
    """The Penn Treebank's Wall Street Journal, from files such as wsj_0201.mrg.

    \b
    Example:
      simplepcfg prepare ptb treebank_3/parsed/mrg/wsj --out data/ptb
    """
    from simplepcfg.data.treebank_files import PTB_SECTIONS, PTB_TREES, find_ptb

    ranges, conventions = request.ranges(PTB_SECTIONS), request.conventions(("penn",))
    job = replace(_job("ptb", request, find_ptb(request.sources, ranges), conventions), ranges=ranges)
    _run(job, request, PTB_TREES if ranges == PTB_SECTIONS else {})


@app.command("ctb", short_help="Chinese Treebank 5.1: files 1-270 and 440-1151, 301-325, 271-300.")
@takes(CtbRequest)
def ctb(request: CtbRequest) -> None:
    """The Chinese Treebank, from files such as chtb_001.fid; leaves tagged PU are punctuation.

    \b
    Example:
      simplepcfg prepare ctb ctb5.1/data/bracketed --out data/ctb
    """
    from simplepcfg.data.conventions import CHINESE_PUNCTUATION
    from simplepcfg.data.treebank_files import CTB_FILES, find_ctb

    ranges, conventions = request.ranges(CTB_FILES), request.conventions((), CHINESE_PUNCTUATION)
    job = _job("ctb", request, find_ctb(request.sources, ranges), conventions)
    _run(replace(job, ranges=ranges), request)


@app.command("spmrl", short_help="SPMRL shared task, French or German.")
@takes(SpmrlRequest)
def spmrl(request: SpmrlRequest) -> None:
    """A treebank of the SPMRL shared task, from files such as train.French.gold.ptb.

    Other languages than French and German need their punctuation tags, by --drop-tags.

    \b
    Example:
      simplepcfg prepare spmrl GERMAN_SPMRL/gold/ptb --out data/german
      simplepcfg prepare spmrl train.French.gold.ptb dev.French.gold.ptb test.French.gold.ptb --out data/french
    """
    from simplepcfg.data.conventions import FRENCH_PUNCTUATION, GERMAN_PUNCTUATION
    from simplepcfg.data.treebank_files import find_spmrl, language_of

    source = find_spmrl(request.sources)
    language = request.language or language_of(source.files)
    known = {"french": FRENCH_PUNCTUATION, "german": GERMAN_PUNCTUATION}.get(language or "", ())
    if not known and request.punctuation == "tags" and not request.keep_tags and not request.drop_tags:
        raise InputError("the files' names do not say French or German; give --language, --drop-tags or --keep-tags")
    _run(_job("spmrl", request, source, request.conventions((), known)), request)


@app.command("brackets", short_help="Any folder or files of bracketed trees.")
@takes(BracketsRequest)
def brackets(request: BracketsRequest) -> None:
    """Bracketed trees; train, dev (valid) or test in the name of a file or folder says the split.

    Leaves with one of the 36 Penn word tags stay, unless other tags are given.

    \b
    Example:
      simplepcfg prepare brackets gum --out data/gum
      simplepcfg prepare brackets trees --out data/mine --split 90,5,5 --drop-tags 'PUNCT SYM'
    """
    from simplepcfg.data.treebank_files import find_trees

    job = _job("brackets", request, find_trees(request.sources), request.conventions(("penn",)))
    _run(replace(job, shares=request.shares, seed=request.seed), request)


@app.command("text", short_help="Plain text, one sentence a line, for language modelling.")
@takes(TextRequest)
def text(request: TextRequest) -> None:
    """Plain text or CoNLL-U, words separated by white space; nothing is changed unless asked for.

    <eos> is not written: training adds it (data.eos = true).

    \b
    Example:
      simplepcfg prepare text ptb.train.txt ptb.valid.txt ptb.test.txt --out data/ptb-lm
      simplepcfg prepare text novel.txt --split-sentences --tokenize --split 90,5,5 --out data/novel
      simplepcfg prepare text romans --split-sentences --tokenize --language fr --out data/french
    """
    from simplepcfg.data.languages import check_language
    from simplepcfg.data.treebank_files import find_text

    conventions = request.conventions()
    job = _job("text", request, find_text(request.sources), conventions)
    job = replace(job, split_sentences=request.split_sentences, tokenize=request.tokenize)
    job = replace(job, language=check_language(request.language))
    _run(replace(job, shares=request.shares, seed=request.seed), request)


def _job(kind: str, request: VocabularyRequest, source: "Source", conventions: "Conventions") -> "Job":
    from simplepcfg.data.encodings import AUTO, check_encoding
    from simplepcfg.data.preparation import Job

    if request.encoding != AUTO:
        check_encoding(request.encoding)
    return Job(kind=kind, sources=request.sources, source=source, conventions=conventions, encoding=request.encoding)


def _run(job: "Job", request: VocabularyRequest, expected: dict[str, int] | None = None) -> None:
    from simplepcfg.cli.preparing import file_progress, summary
    from simplepcfg.data.preparation import prepare
    from simplepcfg.data.prepared_folder import refuse_filled

    refuse_filled(request.out)
    with file_progress(job, request.quiet) as progress:
        done = prepare(job, request.out, progress)
    if request.quiet:
        return
    from simplepcfg.training.recommendation import fitting_configuration

    fitting = fitting_configuration(done.splits["train"].sentences, language_model=job.kind == "text")
    for line in summary(job, done, expected or {}, fitting):
        note(line)
