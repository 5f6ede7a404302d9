"""A constituency tree: where its nodes lie, and the picture."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from simplepcfg.drawing.svg import element, line, picture, shortened, text, text_width, title

# Labels of trees without symbols: such nodes are drawn as dots, and such tags are left out.
PLAIN_LABELS = frozenset({"X", "T", ""})
MARGIN = 12.0
GAP = 16.0
LONGEST_WORD = 24

Span = tuple[int, int]


class AnyTree(Protocol):
    """Words, a tag for each, and half-open labelled spans, parents first; ``SpanTree`` is one."""

    @property
    def words(self) -> Sequence[str]:
        """Return the words, the leaves."""

    @property
    def tags(self) -> Sequence[str]:
        """Return the tags, one for each word."""

    @property
    def spans(self) -> Sequence[tuple[int, int, str]]:
        """Return the spans (i, j, label) of all other nodes, parents first."""


@dataclass(frozen=True, slots=True)
class Node:
    """A label at its place; ``parent`` is the index of the node above, -1 for the topmost."""

    kind: Literal["span", "tag", "word"]
    label: str
    start: int
    end: int
    x: float
    y: float
    parent: int


@dataclass(frozen=True, slots=True)
class TreeLayout:
    """Nodes, parents before children, and the size of the whole."""

    nodes: list[Node]
    width: float
    height: float


def layout_tree(tree: AnyTree) -> TreeLayout:
    """Place the words side by side on the lowest line and every node above the middle of its children."""
    n = len(tree.words)
    words = [shortened(word, LONGEST_WORD) for word in tree.words]
    tags = ["" if tag in PLAIN_LABELS else tag for tag in tree.tags]
    centres, edge = [], MARGIN
    for word, tag in zip(words, tags, strict=True):
        width = max(text_width(word), text_width(tag, 12.0), 14.0)
        centres.append(edge + width / 2)
        edge += width + GAP
    parents, above_word = _parents(tree)
    lowest = 1.0 if any(tags) else 0.0
    heights = [lowest] * len(tree.spans)
    first = [edge] * len(tree.spans)
    last = [0.0] * len(tree.spans)
    for i, parent in enumerate(above_word):
        if parent >= 0:
            first[parent], last[parent] = min(first[parent], centres[i]), max(last[parent], centres[i])
            heights[parent] = max(heights[parent], lowest + 1)
    for index in range(len(tree.spans) - 1, -1, -1):
        parent = parents[index]
        if parent >= 0:
            middle = (first[index] + last[index]) / 2
            first[parent], last[parent] = min(first[parent], middle), max(last[parent], middle)
            heights[parent] = max(heights[parent], heights[index] + 1)
    step = max(20.0, 44.0 - 0.6 * n)
    tallest = max(heights, default=lowest)
    bottom = MARGIN + 14 + (tallest - lowest) * step + (22 if lowest else 0)

    def level(height: float) -> float:
        return bottom - (22 if lowest else 0) - (height - lowest) * step

    nodes = [
        Node("span", label, i, j, (first[k] + last[k]) / 2, level(heights[k]), parents[k])
        for k, (i, j, label) in enumerate(tree.spans)
    ]
    for i, (word, tag) in enumerate(zip(words, tags, strict=True)):
        above = above_word[i]
        if tag:
            nodes.append(Node("tag", tag, i, i + 1, centres[i], bottom - 22, above))
            above = len(nodes) - 1
        nodes.append(Node("word", word, i, i + 1, centres[i], bottom, above))
    return TreeLayout(nodes, max(edge - GAP, MARGIN) + MARGIN, bottom + MARGIN + 8)


def tree_picture(
    tree: AnyTree,
    *,
    probabilities: Mapping[Span, float] | None = None,
    wrong: Collection[Span] = (),
    label: str | None = None,
) -> str:
    """Return an SVG picture of a tree; nodes without symbols are dots.

    ``probabilities`` of spans are told where the pointer rests; the nodes of ``wrong`` spans are marked.
    """
    layout = layout_tree(tree)
    lines, marks = [], []
    for node in layout.nodes:
        if node.parent >= 0:
            above = layout.nodes[node.parent]
            drop = 4.0 if above.label in PLAIN_LABELS else 6.0
            if not (node.kind == "word" and above.kind == "tag"):
                rise = 12.0 if node.kind != "span" else 4.0 if node.label in PLAIN_LABELS else 10.0
                lines.append(line(above.x, above.y + drop, node.x, node.y - rise))
        marks.append(_mark(node, tree, probabilities or {}, wrong))
    return picture([*lines, *marks], layout.width, layout.height, label or "tree of: " + " ".join(tree.words))


def _mark(node: Node, tree: AnyTree, probabilities: Mapping[Span, float], wrong: Collection[Span]) -> str:
    place = {"data_start": node.start, "data_end": node.end}
    if node.kind == "word":
        return text(node.label, node.x, node.y, text_anchor="middle", class_="word", **place)
    span = (node.start, node.end)
    told = " ".join(tree.words[node.start : node.end])
    if node.label not in PLAIN_LABELS:
        told = f"{node.label}: {told}"
    if span in probabilities and node.kind == "span":
        told += f" ({probabilities[span]:.3f})"
    marked = "node wrong" if span in wrong and node.kind == "span" else "node"
    if node.label in PLAIN_LABELS:
        return element("circle", title(told), cx=node.x, cy=node.y, r=4.5, class_=marked, **place)
    width = text_width(node.label, 12.0) + 6
    halo = element("rect", x=node.x - width / 2, y=node.y - 11, width=width, height=16, rx=3, class_="halo")
    kind = "symbol wrong" if "wrong" in marked else "symbol"
    inner = text(node.label, node.x, node.y + 1, text_anchor="middle", class_=kind)
    return element("g", [title(told), halo, inner], class_="labelled", data_symbol=node.label, **place)


def _parents(tree: AnyTree) -> tuple[list[int], list[int]]:
    """For each span and for each word the index of the lowest span around it; -1 where there is none."""
    parents: list[int] = []
    above_word: list[int] = []
    open_spans: list[int] = []
    following = 0
    for i in range(len(tree.words)):
        while open_spans and tree.spans[open_spans[-1]][1] <= i:
            open_spans.pop()
        while following < len(tree.spans) and tree.spans[following][0] == i:
            parents.append(open_spans[-1] if open_spans else -1)
            open_spans.append(following)
            following += 1
        above_word.append(open_spans[-1] if open_spans else -1)
    return parents, above_word
