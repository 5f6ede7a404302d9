"""`simplepcfg parse`: for each sentence a tree, by span posteriors or by probability, or its most probable ones."""

import json
import math
from collections.abc import Iterator
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from simplepcfg.cli.constrained import with_constraints
from simplepcfg.cli.options import Decode, Device, Quiet, sentence_chunks, with_remark
from simplepcfg.cli.output import write_lines
from simplepcfg.cli.unknown_words import UnknownWords
from simplepcfg.drawing.text_trees import draw_tree
from simplepcfg.errors import InputError

if TYPE_CHECKING:
    from simplepcfg.data.trees import SpanTree
    from simplepcfg.inference.labelled_trees import ScoredTree

NAME = "parse"
SUMMARY = "Print a tree for each sentence."


class Format(StrEnum):
    """How a tree is written."""

    brackets = "brackets"
    json = "json"
    pretty = "pretty"


def command(
    run: Annotated[
        str,
        typer.Argument(metavar="RUN", help="Folder of a trained run, or left-branching, right-branching, random."),
    ],
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="One sentence a line (.gz too); - is standard input.")
    ] = "-",
    format: Annotated[
        Format,
        typer.Option("--format", help="One bracketed tree a line, one JSON object a line, or drawings."),
    ] = Format.brackets,
    decode: Annotated[
        Decode,
        typer.Option("--decode", help="Largest sum of span posteriors, or most probable tree with its symbols."),
    ] = Decode.mbr,
    k: Annotated[
        int | None,
        typer.Option("--k", "-k", metavar="K", help="With --decode viterbi: the K most probable trees and their nats."),
    ] = None,
    constraints: Annotated[
        str | None,
        typer.Option(
            "--constraints", metavar="FILE", help="Spans to require, forbid or favour, one JSON object a line."
        ),
    ] = None,
    others: Annotated[
        list[str] | None,
        typer.Option("--with", metavar="RUN", help="Another run, whose span posteriors are averaged in; repeatable."),
    ] = None,
    device: Device = "auto",
    quiet: Quiet = False,
) -> None:
    """Print a tree for each sentence, in the input's order, some at a time as they are found; an empty line stays one.

    Punctuation that the run does not look at hangs from the lowest node around it. Symbols have numbers: nonterminal 12
    is NT-12, preterminal 5 is T-5. With --k each tree follows its log-probability (nats) and a tab, best first, and an
    empty line ends each sentence; one without a tree under the grammar has -inf. A line of --constraints is for the
    sentence of the same line, such as {"require": [[0, 3]], "forbid": [[3, 5]], "bonus": [[0, 2, 1.5]]}, with words
    counted from 0 as they stand there and bonuses in nats; an empty line asks for nothing.

    \b
    Example:
      echo "the dog sees a cat" | simplepcfg parse runs/demo --format pretty
      simplepcfg parse runs/demo sentences.txt > parsed.trees
      simplepcfg parse runs/demo sentences.txt --decode viterbi --k 5
      simplepcfg parse runs/seed-1 sentences.txt --with runs/seed-2 --constraints known.jsonl
    """
    _refuse_baseline([run, *(others or [])], decode, constraints, others)
    if k is not None:
        _refuse_k(k, decode)
        found = _k_best_chunks(run, file, device, quiet, k, constraints)
        remark = "unit: nats (natural log-probability of words and tree), before each tree"
        for lists in with_remark(found, remark, quiet):
            write_lines(render_k_best(trees, format) for trees in lists)
        return
    for trees in _parsed_chunks(run, file, device, quiet, decode, constraints, others):
        write_lines(render(tree, format, tags=decode is Decode.viterbi) for tree in trees)


def render(tree: "SpanTree", format: Format, tags: bool = False) -> str:
    """A tree as text; brackets and JSON are one line. Drawings show words' symbols only with ``tags``."""
    if format is Format.brackets:
        return tree.to_brackets()
    if format is Format.pretty:
        return "\n".join([*draw_tree(tree, tags), ""]) if tree.words else ""
    return json.dumps({"words": tree.words, "spans": _wide_spans(tree), "tree": tree.to_brackets()}, ensure_ascii=False)


def render_k_best(trees: list["ScoredTree"], format: Format) -> str:
    """The trees of one sentence: lines that an empty one ends, or one JSON object."""
    if format is Format.json:
        found = [
            {
                # JSON has no infinity; a tree that only stands in for one has no probability.
                "log_probability_nats": item.log_probability if math.isfinite(item.log_probability) else None,
                "spans": _wide_spans(item.tree),
                "tree": item.tree.to_brackets(),
            }
            for item in trees
        ]
        return json.dumps({"words": trees[0].tree.words, "trees": found}, ensure_ascii=False)
    if not trees[0].tree.words:
        return ""
    apart = "\n" if format is Format.pretty else "\t"
    shown = [f"{item.log_probability:.6f}{apart}{render(item.tree, format, tags=True)}" for item in trees]
    return "\n".join(shown if format is Format.pretty else [*shown, ""])


def _wide_spans(tree: "SpanTree") -> list[list[int]]:
    return [[i, j] for i, j, _ in tree.spans if j - i > 1]


def _refuse_baseline(names: list[str], decode: Decode, constraints: str | None, others: list[str] | None) -> None:
    from simplepcfg.evaluation.treebank import BASELINES

    for name in names:
        if name in BASELINES and decode is Decode.viterbi:
            raise InputError(f"{name} trees have no probability, hence no best one; leave out --decode viterbi")
        if name in BASELINES and (constraints or others):
            option = "--constraints" if constraints else "--with"
            raise InputError(f"{name} trees have no posteriors; leave out {option}, or give the folder of a run")
    if others and decode is Decode.viterbi:
        raise InputError(f"--with {others[0]} averages span posteriors; leave out --decode viterbi")


def _refuse_k(k: int, decode: Decode) -> None:
    if k < 1:
        raise InputError(f"--k {k}; ask for at least one tree")
    if decode is not Decode.viterbi:
        raise InputError(f"--k {k} needs --decode viterbi; span posteriors give one tree")


def _k_best_chunks(
    run: str, file: str, device: str, quiet: bool, k: int, constraints: str | None
) -> Iterator[list[list["ScoredTree"]]]:
    from simplepcfg.inference.api import load

    model = load(run, device)
    unknown = UnknownWords(model)
    for chunk, asked in with_constraints(sentence_chunks(file, quiet, model), constraints, file):
        unknown.count(chunk)
        yield from model.k_best_blocks(chunk, k, asked)
    unknown.tell(quiet)


def _parsed_chunks(
    run: str,
    file: str,
    device: str,
    quiet: bool,
    decode: Decode = Decode.mbr,
    constraints: str | None = None,
    others: list[str] | None = None,
) -> Iterator[list["SpanTree"]]:
    from simplepcfg.evaluation.treebank import BASELINES, refuse_misspelt_baseline

    if run in BASELINES:
        yield from _baseline_chunks(run, file, quiet)
        return
    refuse_misspelt_baseline(run)
    from simplepcfg.inference.api import load

    model = load(run, device)
    unknown = UnknownWords(model)
    group = None
    if others:
        from simplepcfg.inference.ensembles import ensemble

        group = ensemble([model, *others], device)
    for chunk, asked in with_constraints(sentence_chunks(file, quiet, model), constraints, file):
        unknown.count(chunk)
        if group is not None:
            yield from group.parse_blocks(chunk, asked)
        else:
            yield from model.parse_blocks(chunk, asked, decode=decode.value)
    unknown.tell(quiet)


def _baseline_chunks(name: str, file: str, quiet: bool) -> Iterator[list["SpanTree"]]:
    """Trees that need no model, over the words that are left without punctuation."""
    from simplepcfg.data.preprocessing import Preprocessing
    from simplepcfg.evaluation.treebank import brancher
    from simplepcfg.inference.sentences import original_tree, split_sentences

    branch = brancher(name)  # refuses oracle before anything is read
    preprocessing = Preprocessing()
    chunk: list[Any]
    for chunk in sentence_chunks(file, quiet):
        prepared = [(words, preprocessing.apply(words, tags)) for words, tags in split_sentences(chunk)]
        yield [original_tree(words, item, branch(len(item.kept))) for words, item in prepared]
