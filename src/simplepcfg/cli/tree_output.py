"""How `parse` writes trees: brackets, JSON, drawings of characters, columns, or one SVG picture."""

import json
import math
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Literal

from simplepcfg.cli.output import offset_cells, table_row
from simplepcfg.errors import InputError

if TYPE_CHECKING:
    from simplepcfg.data.inputs import Offsets
    from simplepcfg.data.trees import SpanTree
    from simplepcfg.inference.derivations import ScoredTree

MOST_PICTURES = 200
Format = Literal["brackets", "json", "pretty", "columns", "svg"]


def render(tree: "SpanTree", format: Format, tags: bool, place: Mapping[str, str], offsets: "Offsets | None") -> str:
    """Return a tree as text; brackets and JSON are one line. Drawings show words' symbols only with `tags`.

    Columns are a line for each word as in CoNLL: number, word, tag, and the brackets around it with * for the word.
    They and JSON have the place of the sentence and the offsets of its words, if not None.
    """
    if format == "brackets":
        return tree.to_brackets()
    if format == "pretty":
        from simplepcfg.drawing.text_trees import draw_tree

        return "\n".join([*draw_tree(tree, tags), ""]) if tree.words else ""
    if format == "columns":
        opened, closed = [""] * len(tree.words), [""] * (len(tree.words) + 1)
        for i, j, label in tree.spans:
            opened[i] += f"({label}"
            closed[j] += ")"
        rows = (
            [str(i + 1), word, tag, f"{opened[i]}*{closed[i + 1]}", *place.values(), *offset_cells(offsets, i)]
            for i, (word, tag) in enumerate(zip(tree.words, tree.tags, strict=True))
        )
        return "\n".join([*map(table_row, rows), ""])
    shown = {"words": tree.words, "spans": _wide_spans(tree), "tree": tree.to_brackets()}
    return _json_line(shown, place, offsets)


def _json_line(shown: Mapping[str, object], place: Mapping[str, str], offsets: "Offsets | None") -> str:
    where: dict[str, object] = {} if offsets is None else {"offsets": offsets}
    return json.dumps({**place, **shown, **where}, ensure_ascii=False)


def one_picture(trees: Iterable["SpanTree"]) -> str:
    """Return all trees in one SVG picture, one under another; InputError if they are too many for a picture."""
    from simplepcfg.drawing import standalone, tree_picture
    from simplepcfg.drawing.svg import one_below_another

    shown = [tree for tree in islice(trees, MOST_PICTURES + 1) if tree.words]
    if len(shown) > MOST_PICTURES:
        raise InputError(f"--format svg draws at most {MOST_PICTURES} trees; give fewer sentences at a time")
    if not shown:
        raise InputError("--format svg: there is no sentence to draw; give one")
    pictures = [tree_picture(tree) for tree in shown]
    return standalone(pictures[0] if len(pictures) == 1 else one_below_another(pictures, f"{len(pictures)} trees"))


def render_k_best(
    trees: list["ScoredTree"], format: Format, place: Mapping[str, str], offsets: "Offsets | None"
) -> str:
    """Return the trees of one sentence: lines that an empty one ends, or one JSON object."""
    if format == "json":
        entries = [
            {
                # JSON has no infinity; a tree that only stands in for one has no probability.
                "log_probability_nats": item.log_probability if math.isfinite(item.log_probability) else None,
                "spans": _wide_spans(item.tree),
                "tree": item.tree.to_brackets(),
            }
            for item in trees
        ]
        return _json_line({"words": trees[0].tree.words, "trees": entries}, place, offsets)
    if not trees[0].tree.words:
        return ""
    separator = "\n" if format == "pretty" else "\t"
    shown = [
        f"{_number(item.log_probability)}{separator}{render(item.tree, format, True, place, offsets)}" for item in trees
    ]
    return "\n".join(shown if format == "pretty" else [*shown, ""])


def _number(log_probability: float) -> str:
    return "NA" if math.isnan(log_probability) else f"{log_probability:.6f}"


def _wide_spans(tree: "SpanTree") -> list[list[int]]:
    return [[i, j] for i, j, _ in tree.spans if j - i > 1]
