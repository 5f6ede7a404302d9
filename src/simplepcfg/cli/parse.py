"""`simplepcfg parse`: for each sentence the tree with the largest sum of span posteriors."""

import json
from collections.abc import Iterator
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from simplepcfg.cli.drawing import draw_tree
from simplepcfg.cli.options import Device, Quiet, sentence_chunks
from simplepcfg.cli.output import write_lines

if TYPE_CHECKING:
    from simplepcfg.data.trees import SpanTree

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
    device: Device = "auto",
    quiet: Quiet = False,
) -> None:
    """Print a tree for each sentence, in the input's order; an empty line stays one.

    Punctuation that the run does not look at hangs from the lowest node around it.

    \b
    Example:
      echo "the dog sees a cat" | simplepcfg parse runs/demo --format pretty
      simplepcfg parse runs/demo sentences.txt > parsed.trees
    """
    for trees in _parsed_chunks(run, file, device, quiet):
        write_lines(render(tree, format) for tree in trees)


def render(tree: "SpanTree", format: Format) -> str:
    """A tree as text; brackets and JSON are one line."""
    if format is Format.brackets:
        return tree.to_brackets()
    if format is Format.pretty:
        return "\n".join([*draw_tree(tree), ""]) if tree.words else ""
    spans = [[i, j] for i, j, _ in tree.spans if j - i > 1]
    return json.dumps({"words": tree.words, "spans": spans, "tree": tree.to_brackets()}, ensure_ascii=False)


def _parsed_chunks(run: str, file: str, device: str, quiet: bool) -> Iterator[list["SpanTree"]]:
    from simplepcfg.evaluation.treebank import BASELINES, refuse_misspelt_baseline

    if run in BASELINES:
        yield from _baseline_chunks(run, file, quiet)
        return
    refuse_misspelt_baseline(run)
    from simplepcfg.api import load

    model = load(run, device)
    for chunk in sentence_chunks(file, quiet):
        yield model.parse_spans(chunk)


def _baseline_chunks(name: str, file: str, quiet: bool) -> Iterator[list["SpanTree"]]:
    """Trees that need no model, over the words that are left without punctuation."""
    from simplepcfg.data.preprocessing import Preprocessing
    from simplepcfg.evaluation.treebank import brancher
    from simplepcfg.sentences import original_tree, split_sentences

    branch = brancher(name)  # refuses oracle before anything is read
    preprocessing = Preprocessing()
    chunk: list[Any]
    for chunk in sentence_chunks(file, quiet):
        prepared = [(words, preprocessing.apply(words, tags)) for words, tags in split_sentences(chunk)]
        yield [original_tree(words, item, branch(len(item.kept))) for words, item in prepared]
