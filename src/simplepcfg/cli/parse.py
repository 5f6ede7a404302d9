"""`simplepcfg parse`: for each sentence a tree, by span marginals or by probability, or its most probable ones."""

import math
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal

from simplepcfg.cli import answers
from simplepcfg.cli.options import SentencesRequest, refuse_baseline
from simplepcfg.cli.output import write_lines
from simplepcfg.cli.requests import arg, flag, opt, options, takes
from simplepcfg.cli.sentence_stream import Answer, Chunk, Part, SentenceStream
from simplepcfg.cli.tree_output import Format, one_picture, render, render_k_best
from simplepcfg.errors import InputError

if TYPE_CHECKING:
    from simplepcfg.data.inputs import Item

SUMMARY = "Print a tree for each sentence."
Labels = Literal["learned", "none"]
SUFFIXES = {"brackets": ".trees", "json": ".jsonl", "pretty": ".txt", "columns": ".tsv"}  # of files in --out


@options
class ParseOptions:
    """Options of this command alone, which its help has first."""

    run: str = arg("RUN", "Folder of a run or of runs, or english.")
    format: Format = flag(
        "--format", "A bracketed tree or a JSON object a line, drawings, a word a line, or one SVG picture.", "brackets"
    )
    decode: Literal["mbr", "exact-mbr", "viterbi"] = flag(
        "--decode",
        "mbr: largest sum of span marginals, without improbable ones; exact-mbr: with all; viterbi: most probable.",
        "mbr",
    )
    k: int | None = opt("--k -k", "K", "With --decode viterbi: the K most probable trees and their nats.", min=1)
    labels: Labels = flag("--labels", "Those that the run has learned from a treebank, if any, or none.", "learned")
    others: list[str] | None = opt("--with", "RUN", "Another run, which parses together with the first; repeatable.")


@options
class ParseRequest(SentencesRequest, ParseOptions):
    """What to parse, with what, and how trees are written."""


@takes(ParseRequest)
def command(request: ParseRequest) -> None:
    """Print a tree for each sentence, in the order of the input; an empty line stays empty.

    FILE may be a folder or a pattern, too, and there may be several. A sentence of more than --max-words words gets a
    flat tree, and a remark at the end says so. Columns and JSON also have the sent_id of CoNLL-U, the file where there
    are several and, with --offsets, the characters of each word.

    With --out, trees go into a folder, a file for each input file or each --part-size sentences of it, by all cores or
    GPUs; if it is killed, the same command goes on. docs/corpora.md has an example for job arrays.

    If the run has learned labels from a treebank, as english has, trees have labels, and nodes that are probably no
    constituents are left out; --labels none prints binary trees of X.

    Punctuation that the run drops is attached to the lowest node around it. Symbols have numbers: nonterminal 12
    is NT-12, preterminal 5 is T-5. With --k a line has the log-probability of a tree (nats), a tab and the tree, the
    best first; an empty line ends each sentence, and one without a tree has -inf, one not computed NA.

    \b
    Example:
      echo "The old dog slept by the fire." | simplepcfg parse english
      simplepcfg parse english story.txt --raw --format columns
      echo "the dog sees a cat" | simplepcfg parse runs/demo --format pretty
      simplepcfg parse runs/demo sentences.txt > parsed.trees
      simplepcfg parse english texts/*.txt --raw --format columns --offsets > words.tsv
      simplepcfg parse english corpus/*.txt.gz --out parsed/ --shard 3/16
      simplepcfg parse runs/demo sentences.txt --decode viterbi --k 5
      simplepcfg parse runs/seed-1 sentences.txt --with runs/seed-2
      simplepcfg parse runs/eight sentences.txt
    """
    runs = _members(request)
    _refuse_contradictions(request, runs)
    suffix = ".txt" if request.k is not None else SUFFIXES.get(request.format, "")
    answers.answer(request, prepare, runs, suffix, "parsing")


def prepare(request: ParseRequest) -> Answer:
    """Load the runs, and return what writes the trees of sentences."""
    from simplepcfg.inference.run import load

    runs = _members(request)
    model = load(runs[0], request.device)
    parse: Callable[[Chunk], list[Any]]  # trees, with --k lists of scored ones
    if len(runs) > 1:
        from simplepcfg.inference.ensembles import ensemble

        parse = ensemble([model, *runs[1:]], request.device).parse_spans
    elif request.k is not None:
        parse = partial(model.k_best, k=request.k)
    else:
        parse = partial(model.parse_spans, decode=request.decode, labels=request.labels == "learned")

    def answer(part: Part | None) -> None:
        with SentenceStream(request, "parsing", model, part) as stream:
            blocks: Iterator[list[Any]] = map(parse, stream.chunks())
            if request.format == "svg":
                write_lines([one_picture(chain.from_iterable(blocks))])
                return
            if request.k is not None and request.format != "json":  # its keys name the unit
                stream.remark = "unit: nats (natural log-probability of words and tree), before each tree"
            for trees in blocks:
                stream.write(trees, lambda item, tree: [_text_of(item, tree, request, stream.place(item))])

    return answer


def _members(request: ParseRequest) -> list[str]:
    """Return all runs that are named, those of folders of runs one by one."""
    from simplepcfg.runs.run_folder import runs_inside

    return [folder for name in [request.run, *(request.others or [])] for folder in runs_inside(name) or [name]]


def _refuse_contradictions(request: ParseRequest, runs: list[str]) -> None:
    """Raise InputError if options contradict each other or do not go with the runs."""
    by_probability, k = request.decode == "viterbi", request.k
    for name in runs:
        refuse_baseline(name, "grammar, and are for evaluate")
    if len(runs) > 1 and by_probability:
        raise InputError(f"{runs[1]} beside {runs[0]} combines span marginals; leave out --decode viterbi")
    if request.offsets and request.format not in ("columns", "json"):
        raise InputError("--offsets adds columns; give --format columns or --format json with it")
    if k is not None and not by_probability:
        raise InputError(f"--k {k} needs --decode viterbi; span marginals give one tree")
    if k is not None and request.format in ("columns", "svg"):
        raise InputError(f"--format {request.format} shows one tree a sentence; leave out --k")


def _text_of(item: "Item", answer: Any, request: ParseRequest, place: Mapping[str, str]) -> str:
    """Return a tree as text or, with --k, a list of scored ones; for None, as nothing was computed, a flat one."""
    from simplepcfg.data.trees import SpanTree
    from simplepcfg.inference.derivations import ScoredTree

    if answer is None:
        flat = SpanTree.from_spans(item.words, [])
        answer = flat if request.k is None else [ScoredTree(flat, math.nan)]
    if request.k is not None:
        return render_k_best(answer, request.format, place, item.offsets)
    return render(answer, request.format, request.decode == "viterbi", place, item.offsets)
