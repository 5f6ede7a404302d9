"""`simplepcfg parse`: for each sentence a tree, by span marginals or by probability, or its most probable ones."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

from simplepcfg.cli.constrained import with_constraints
from simplepcfg.cli.options import By, Decode, Device, Quiet, Raw, Weigh, sentence_chunks, with_remark
from simplepcfg.cli.output import write_lines
from simplepcfg.cli.requests import arg, flag, opt
from simplepcfg.cli.tree_output import Format, one_picture, render, render_k_best
from simplepcfg.cli.unknown_words import UnknownWords
from simplepcfg.errors import InputError

if TYPE_CHECKING:
    from simplepcfg.data.trees import SpanTree
    from simplepcfg.inference.labelled_trees import ScoredTree
    from simplepcfg.inference.run import Run

NAME = "parse"
SUMMARY = "Print a tree for each sentence."


def command(
    run: Annotated[str, arg("RUN", "Folder of a run or of runs, english, or left-branching, right-branching, random.")],
    file: Annotated[str, arg("FILE", "One sentence a line, or CoNLL-U (.gz too); - is standard input.")] = "-",
    format: Annotated[
        Format,
        flag("--format", "A bracketed tree or a JSON object a line, drawings, a word a line, or one SVG picture."),
    ] = "brackets",
    decode: Annotated[
        Decode, flag("--decode", "Largest sum of span marginals, or most probable tree with its symbols.")
    ] = "mbr",
    k: Annotated[
        int | None, opt("--k -k", "K", "With --decode viterbi: the K most probable trees and their nats.")
    ] = None,
    labels: Annotated[
        str | None, opt("--labels", "FILE", "Most probable trees with gold labels, from evaluate --write-labels.")
    ] = None,
    constraints: Annotated[
        str | None, opt("--constraints", "FILE", "Spans to require, forbid or favour, one JSON object a line.")
    ] = None,
    others: Annotated[
        list[str] | None, opt("--with", "RUN", "Another run, which parses together with the first; repeatable.")
    ] = None,
    by: Annotated[
        By,
        flag(
            "--by", "Of several runs: by the geometric or arithmetic mean of span marginals, or votes of their trees."
        ),
    ] = "geometric",
    weigh: Annotated[Weigh, flag("--weigh", "Of several runs: by what each counts.")] = "equal",
    raw: Raw = False,
    device: Device = "auto",
    quiet: Quiet = False,
) -> None:
    """Print a tree for each sentence, in the input's order, some at a time as they are found; an empty line stays one.

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
    if labels is not None:
        decode = "viterbi"
    members = _members(run, others)
    if len(members) == 1 and (by != "geometric" or weigh != "equal"):
        raise InputError("--by and --weigh are for several runs; give a folder of runs, or --with RUN")
    run, others = members[0], members[1:]
    _refuse_baseline([run, *(others or [])], decode, constraints, others)
    if raw and constraints is not None:
        raise InputError("--constraints has a line a sentence, which --raw finds itself; leave out one of them")
    if k is not None:
        _refuse_k(k, decode)
        if format in ("columns", "svg"):
            raise InputError(f"--format {format} shows one tree a sentence; leave out --k")
        found = _k_best_chunks(run, file, device, quiet, raw, k, constraints, labels)
        remark = "unit: nats (natural log-probability of words and tree), before each tree"
        for lists in with_remark(found, remark, quiet):
            write_lines(render_k_best(trees, format) for trees in lists)
        return
    chunks = _parsed_chunks(run, file, device, quiet, raw, decode, constraints, others, labels, by, weigh)
    if format == "svg":
        write_lines([one_picture(tree for trees in chunks for tree in trees)])
        return
    for trees in chunks:
        write_lines(render(tree, format, tags=decode == "viterbi") for tree in trees)


def _members(run: str, others: list[str] | None) -> list[str]:
    """All runs that are named, those of folders of runs one by one."""
    from simplepcfg.runs.runs_inside import runs_inside

    return [folder for name in [run, *(others or [])] for folder in runs_inside(name) or [name]]


def _refuse_baseline(names: list[str], decode: Decode, constraints: str | None, others: list[str] | None) -> None:
    from simplepcfg.evaluation.treebank import BASELINES

    for name in names:
        if name in BASELINES and decode == "viterbi":
            raise InputError(f"{name} trees have no probability, hence no best one; leave out --decode viterbi")
        if name in BASELINES and (constraints or others):
            option = "--constraints" if constraints else "--with"
            raise InputError(f"{name} trees have no span marginals; leave out {option}, or give the folder of a run")
    if others and decode == "viterbi":
        raise InputError(f"{others[0]} beside {names[0]} combines span marginals; leave out --decode viterbi, --labels")


def _refuse_k(k: int, decode: Decode) -> None:
    if k < 1:
        raise InputError(f"--k {k}; ask for at least one tree")
    if decode != "viterbi":
        raise InputError(f"--k {k} needs --decode viterbi; span marginals give one tree")


def _k_best_chunks(
    run: str,
    file: str,
    device: str,
    quiet: bool,
    raw: bool,
    k: int,
    constraints: str | None,
    labels: str | None,
) -> Iterator[list[list["ScoredTree"]]]:
    from simplepcfg.inference.run import load

    model = load(run, device)
    named = _naming(labels, model)
    unknown = UnknownWords(model)
    for chunk, asked in with_constraints(sentence_chunks(file, quiet, model, raw), constraints, file):
        unknown.count(chunk)
        for block in model.k_best_blocks(chunk, k, asked):
            yield [[replace(item, tree=named(item.tree)) for item in trees] for trees in block]
    unknown.tell(quiet)


def _parsed_chunks(
    run: str,
    file: str,
    device: str,
    quiet: bool,
    raw: bool,
    decode: Decode,
    constraints: str | None,
    others: list[str] | None,
    labels: str | None,
    by: By,
    weigh: Weigh,
) -> Iterator[list["SpanTree"]]:
    from simplepcfg.evaluation.treebank import BASELINES, check_baseline_name

    if run in BASELINES:
        yield from _baseline_chunks(run, file, quiet, raw)
        return
    check_baseline_name(run)
    from simplepcfg.inference.run import load

    model = load(run, device)
    named = _naming(labels, model)
    unknown = UnknownWords(model)
    group = None
    if others:
        from simplepcfg.inference.ensembles import ensemble

        group = ensemble([model, *others], device, by=by, weigh=weigh)
    for chunk, asked in with_constraints(sentence_chunks(file, quiet, model, raw), constraints, file):
        unknown.count(chunk)
        if group is not None:
            yield from group.parse_blocks(chunk, asked)
        else:
            for block in model.parse_blocks(chunk, asked, decode=decode):
                yield [named(tree) for tree in block]
    unknown.tell(quiet)


def _naming(labels: str | None, model: "Run") -> Callable[["SpanTree"], "SpanTree"]:
    """What puts the labels of a file in place of the run's symbols, or leaves trees as they are without a file."""
    if labels is None:
        return lambda tree: tree
    from simplepcfg.inference.label_mapping import LabelMapping

    mapping = LabelMapping.load(labels)
    mapping.refuse_other(model)
    return mapping.apply


def _baseline_chunks(name: str, file: str, quiet: bool, raw: bool) -> Iterator[list["SpanTree"]]:
    """Trees that need no model, over the words that are left without punctuation."""
    from simplepcfg.data.preprocessing import Preprocessing
    from simplepcfg.evaluation.treebank import brancher
    from simplepcfg.inference.sentences import original_tree, split_sentences

    branch = brancher(name)  # refuses oracle before anything is read
    preprocessing = Preprocessing()
    chunk: list[Any]
    for chunk in sentence_chunks(file, quiet, None, raw):
        prepared = [(words, preprocessing.apply(words, tags)) for words, tags in split_sentences(chunk)]
        yield [original_tree(words, item, branch(len(item.kept))) for words, item in prepared]
