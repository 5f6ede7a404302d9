"""`simplepcfg parse`: for each sentence a tree, by span marginals or by probability, or its most probable ones."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated

from simplepcfg.cli.constrained import with_constraints
from simplepcfg.cli.options import By, Chunk, Decode, Device, Quiet, Raw, Weigh, sentence_chunks, with_remark
from simplepcfg.cli.output import write_lines
from simplepcfg.cli.requests import arg, flag, opt, takes
from simplepcfg.cli.tree_output import Format, one_picture, render, render_k_best
from simplepcfg.cli.unknown_words import UnknownWords
from simplepcfg.errors import InputError

if TYPE_CHECKING:
    from simplepcfg.data.constraints import Constraints
    from simplepcfg.data.trees import SpanTree
    from simplepcfg.inference.labelled_trees import ScoredTree
    from simplepcfg.inference.run import Run

NAME = "parse"
SUMMARY = "Print a tree for each sentence."
NO_LABELS = "none"


@dataclass(frozen=True, kw_only=True)
class ParseRequest:
    """What to parse, with what, and how trees are written."""

    run: Annotated[str, arg("RUN", "Folder of a run or of runs, english, or left-branching, right-branching, random.")]
    file: Annotated[str, arg("FILE", "One sentence a line, or CoNLL-U (.gz too); - is standard input.")] = "-"
    format: Annotated[
        Format,
        flag("--format", "A bracketed tree or a JSON object a line, drawings, a word a line, or one SVG picture."),
    ] = "brackets"
    decode: Annotated[
        Decode, flag("--decode", "Largest sum of span marginals, or most probable tree with its symbols.")
    ] = "mbr"
    k: Annotated[int | None, opt("--k -k", "K", "With --decode viterbi: the K most probable trees and their nats.")] = (
        None
    )
    labels: Annotated[
        str | None,
        opt("--labels", "none|FILE", "No labels, or most probable trees with those of evaluate --write-labels."),
    ] = None
    constraints: Annotated[
        str | None, opt("--constraints", "FILE", "Spans to require, forbid or favour, one JSON object a line.")
    ] = None
    others: Annotated[
        list[str] | None, opt("--with", "RUN", "Another run, which parses together with the first; repeatable.")
    ] = None
    by: Annotated[
        By,
        flag(
            "--by", "Of several runs: by the geometric or arithmetic mean of span marginals, or votes of their trees."
        ),
    ] = "geometric"
    weigh: Annotated[Weigh, flag("--weigh", "Of several runs: by what each counts.")] = "equal"
    raw: Raw = False
    device: Device = "auto"
    quiet: Quiet = False


@takes(ParseRequest)
def command(request: ParseRequest) -> None:
    """Print a tree for each sentence, in the input's order, some at a time as they are found; an empty line stays one.

    Of a run that has learned labels from a treebank, as english has, trees have them, and nodes that are probably no
    constituents are left out; --labels none prints binary trees of X.

    Punctuation that the run drops is attached to the lowest node around it. Symbols have numbers: nonterminal 12
    is NT-12, preterminal 5 is T-5. With --k each tree follows its log-probability (nats) and a tab, best first, and an
    empty line ends each sentence; one without a tree under the grammar has -inf. A line of --constraints is for the
    sentence of the same line, such as {"require": [[0, 3]], "forbid": [[3, 5]], "bonus": [[0, 2, 1.5]]}, with words
    counted from 0 as they stand there and bonuses in nats; an empty line asks for nothing.

    \b
    Example:
      echo "The old dog slept by the fire." | simplepcfg parse english
      simplepcfg parse english story.txt --raw --format columns
      echo "the dog sees a cat" | simplepcfg parse runs/demo --format pretty
      simplepcfg parse runs/demo sentences.txt > parsed.trees
      simplepcfg parse runs/demo sentences.txt --decode viterbi --k 5
      simplepcfg parse runs/demo sentences.txt --labels labels.json
      simplepcfg parse runs/seed-1 sentences.txt --with runs/seed-2 --constraints known.jsonl
      simplepcfg parse runs/eight sentences.txt --by trees --weigh agreement
    """
    if request.labels not in (None, NO_LABELS):
        request = replace(request, decode="viterbi")
    runs = _members(request)
    _refuse_contradictions(request, runs)
    if request.k is not None:
        remark = "unit: nats (natural log-probability of words and tree), before each tree"
        for lists in with_remark(_k_best_chunks(request, runs[0], request.k), remark, request.quiet):
            write_lines(render_k_best(trees, request.format) for trees in lists)
        return
    chunks = _parsed_chunks(request, runs)
    if request.format == "svg":
        write_lines([one_picture(tree for trees in chunks for tree in trees)])
        return
    for trees in chunks:
        write_lines(render(tree, request.format, tags=request.decode == "viterbi") for tree in trees)


def _members(request: ParseRequest) -> list[str]:
    """Return all runs that are named, those of folders of runs one by one."""
    from simplepcfg.runs.run_folder import runs_inside

    return [folder for name in [request.run, *(request.others or [])] for folder in runs_inside(name) or [name]]


def _refuse_contradictions(request: ParseRequest, runs: list[str]) -> None:
    """Raise InputError if options contradict each other or do not go with the runs."""
    from simplepcfg.evaluation.treebank import BASELINES

    by_probability, k = request.decode == "viterbi", request.k
    if len(runs) == 1 and (request.by != "geometric" or request.weigh != "equal"):
        raise InputError("--by and --weigh are for several runs; give a folder of runs, or --with RUN")
    for name in filter(BASELINES.__contains__, runs):
        if by_probability:
            raise InputError(f"{name} trees have no probability, hence no best one; leave out --decode viterbi")
        if request.constraints or len(runs) > 1:
            option = "--constraints" if request.constraints else "--with"
            raise InputError(f"{name} trees have no span marginals; leave out {option}, or give the folder of a run")
    if len(runs) > 1 and by_probability:
        raise InputError(f"{runs[1]} beside {runs[0]} combines span marginals; leave out --decode viterbi, --labels")
    if request.raw and request.constraints is not None:
        raise InputError("--constraints has a line a sentence, which --raw finds itself; leave out one of them")
    if k is not None and k < 1:
        raise InputError(f"--k {k}; ask for at least one tree")
    if k is not None and not by_probability:
        raise InputError(f"--k {k} needs --decode viterbi; span marginals give one tree")
    if k is not None and request.format in ("columns", "svg"):
        raise InputError(f"--format {request.format} shows one tree a sentence; leave out --k")


def _k_best_chunks(request: ParseRequest, run: str, k: int) -> Iterator[list[list["ScoredTree"]]]:
    from simplepcfg.inference.run import load

    model = load(run, request.device)
    named = _naming(request.labels, model)
    for chunk, asked in _constrained_chunks(request, model):
        for block in model.k_best_blocks(chunk, k, asked):
            yield [[replace(item, tree=named(item.tree)) for item in trees] for trees in block]


def _parsed_chunks(request: ParseRequest, runs: list[str]) -> Iterator[list["SpanTree"]]:
    from simplepcfg.evaluation.treebank import BASELINES, check_baseline_name

    if runs[0] in BASELINES:
        yield from _baseline_chunks(request, runs[0])
        return
    check_baseline_name(runs[0])
    from simplepcfg.inference.run import load

    model = load(runs[0], request.device)
    if len(runs) == 1:
        named = _naming(request.labels, model)
        for chunk, asked in _constrained_chunks(request, model):
            with_labels = request.labels != NO_LABELS
            for block in model.parse_blocks(chunk, asked, decode=request.decode, labels=with_labels):
                yield [named(tree) for tree in block]
        return
    from simplepcfg.inference.ensembles import ensemble

    together = ensemble([model, *runs[1:]], request.device, by=request.by, weigh=request.weigh)
    for chunk, asked in _constrained_chunks(request, model):
        yield from together.parse_blocks(chunk, asked)


def _constrained_chunks(request: ParseRequest, model: "Run") -> Iterator[tuple[Chunk, "list[Constraints] | None"]]:
    """Yield sentences with what is asked of their trees; at the end, say which words are unknown."""
    unknown = UnknownWords(model)
    chunks = sentence_chunks(request.file, request.quiet, model, request.raw)
    for chunk, asked in with_constraints(chunks, request.constraints, request.file):
        unknown.count(chunk)
        yield chunk, asked
    unknown.tell(request.quiet)


def _naming(labels: str | None, model: "Run") -> Callable[["SpanTree"], "SpanTree"]:
    """Return what puts the labels of a file in place of the run's symbols; without a file, trees stay as they are."""
    if labels in (None, NO_LABELS):
        return lambda tree: tree
    from simplepcfg.inference.label_mapping import LabelMapping

    mapping = LabelMapping.load(labels)
    mapping.refuse_other(model.model, model.name)
    return mapping.apply


def _baseline_chunks(request: ParseRequest, name: str) -> Iterator[list["SpanTree"]]:
    """Yield trees that need no model, over the words that are left without punctuation."""
    from simplepcfg.data.preprocessing import Preprocessing
    from simplepcfg.evaluation.treebank import brancher
    from simplepcfg.inference.sentences import original_tree, split_sentences

    branch = brancher(name)  # refuses oracle before anything is read
    preprocessing = Preprocessing()
    for chunk in sentence_chunks(request.file, request.quiet, None, request.raw):
        prepared = [(words, preprocessing.apply(words, tags)) for words, tags in split_sentences(chunk)]
        yield [original_tree(words, item, branch(len(item.kept))) for words, item in prepared]
