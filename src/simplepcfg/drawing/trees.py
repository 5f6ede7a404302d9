"""A constituency tree: where its nodes lie, and the picture."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Literal, Protocol

from simplepcfg.drawing.svg import element, path, picture, rect, text, text_width, title
from simplepcfg.errors import shortened

# Labels of trees without symbols: such nodes are drawn as dots, and such tags are left out.
PLAIN_LABELS = frozenset({"X", "T", ""})
MARGIN = 12.0
GAP = 16.0
LEAST_STEP = 26.0  # between levels: enough for a label and a slanted line below it
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
    symbol: str = ""  # of the tree, where the label is a name for it

    @property
    def is_dot(self) -> bool:
        """Whether it is a node without a symbol."""
        return self.kind == "span" and self.symbol in PLAIN_LABELS


@dataclass(frozen=True, slots=True)
class TreeLayout:
    """Nodes, parents before children, the size of the whole, and the height of a level."""

    nodes: list[Node]
    width: float
    height: float
    step: float


def layout_tree(tree: AnyTree, names: Mapping[str, str] | None = None) -> TreeLayout:
    """Place the words side by side on the lowest line, and every node over the words that it covers.

    Each label lies within the columns of its own words and the children of a node within its own, so that the edges of
    `edge_points` cross neither each other nor a label.
    """
    n = len(tree.words)
    words = [shortened(word, LONGEST_WORD) for word in tree.words]
    shown = {label: shortened(name, LONGEST_WORD) for label, name in (names or {}).items()}
    labels = [shown.get(label, label) for _, _, label in tree.spans]
    tags = ["" if tag in PLAIN_LABELS else shown.get(tag, tag) for tag in tree.tags]
    columns = [max(text_width(word), text_width(tag, 12.0), 14.0) + GAP for word, tag in zip(words, tags, strict=True)]
    for (i, j, _), label in zip(reversed(tree.spans), reversed(labels), strict=True):  # children before parents
        missing = _label_width(label) + GAP / 2 - sum(columns[i:j])
        if missing > 0:
            columns[i:j] = [width + missing / (j - i) for width in columns[i:j]]
    edges = list(accumulate(columns, initial=MARGIN - GAP / 2))
    centres = [(left + right) / 2 for left, right in pairwise(edges)]
    parents, above_word = _parents_of(tree)
    lowest = 1.0 if any(tags) else 0.0
    heights = [lowest] * len(tree.spans)
    children: list[list[float]] = [[] for _ in tree.spans]  # where they lie
    for centre, parent in zip(centres, above_word, strict=True):
        if parent >= 0:
            children[parent].append(centre)
            heights[parent] = lowest + 1
    places = [0.0] * len(tree.spans)
    for index in range(len(tree.spans) - 1, -1, -1):
        i, j, _ = tree.spans[index]
        room = _label_width(labels[index]) / 2
        middle = (min(children[index]) + max(children[index])) / 2
        places[index] = min(max(middle, edges[i] + room), edges[j] - room)
        parent = parents[index]
        if parent >= 0:
            children[parent].append(places[index])
            heights[parent] = max(heights[parent], heights[index] + 1)
    step = max(LEAST_STEP, 44.0 - 0.6 * n)
    tallest = max(heights, default=lowest)
    bottom = MARGIN + 14 + (tallest - lowest) * step + (22 if lowest else 0)

    def level(height: float) -> float:
        return bottom - (22 if lowest else 0) - (height - lowest) * step

    nodes = [
        Node("span", labels[k], i, j, places[k], level(heights[k]), parents[k], label)
        for k, (i, j, label) in enumerate(tree.spans)
    ]
    for i, (word, tag) in enumerate(zip(words, tags, strict=True)):
        above = above_word[i]
        if tag:
            nodes.append(Node("tag", tag, i, i + 1, centres[i], bottom - 22, above, tree.tags[i]))
            above = len(nodes) - 1
        nodes.append(Node("word", word, i, i + 1, centres[i], bottom, above))
    return TreeLayout(nodes, edges[-1] - GAP / 2 + MARGIN, bottom + MARGIN + 8, step)


def edge_points(layout: TreeLayout) -> list[list[tuple[float, float]]]:
    """Return the edge above each node that has one: a slanted line to the next level, then straight down."""
    edges = []
    # The slanted line keeps clear of labels.
    room = 0.0 if all(node.is_dot for node in layout.nodes if node.kind == "span") else 13.0
    for node in layout.nodes:
        if node.parent < 0 or (node.kind == "word" and layout.nodes[node.parent].kind == "tag"):
            continue
        above = layout.nodes[node.parent]
        start = above.y + (0.0 if above.is_dot else 6.0)
        end = node.y - (0.0 if node.is_dot else 12.0)
        turn = min(above.y + layout.step - room, end)
        edges.append([(above.x, start), (node.x, turn), *([(node.x, end)] if end > turn else [])])
    return edges


def tree_picture(tree: AnyTree, *, wrong: Collection[Span] = (), names: Mapping[str, str] | None = None) -> str:
    """Return an SVG picture of a tree; nodes without symbols are dots.

    The nodes of ``wrong`` spans are marked. Symbols that ``names`` has are shown by their names.
    """
    layout = layout_tree(tree, names)
    lines = [path("polyline", points, class_="edge") for points in edge_points(layout)]
    marks = [_mark(node, tree, wrong) for node in layout.nodes]
    return picture([*lines, *marks], layout.width, layout.height, "tree of: " + " ".join(tree.words))


def _label_width(label: str) -> float:
    return 9.0 if label in PLAIN_LABELS else text_width(label, 12.0) + 6


def _mark(node: Node, tree: AnyTree, wrong: Collection[Span]) -> str:
    place = {"data_start": node.start, "data_end": node.end}
    if node.kind == "word":
        return text(node.label, node.x, node.y, text_anchor="middle", class_="word", **place)
    told = " ".join(tree.words[node.start : node.end])
    if node.symbol not in PLAIN_LABELS:
        told = f"{node.symbol}{f' ({node.label})' if node.label != node.symbol else ''}: {told}"
    marked = "node wrong" if (node.start, node.end) in wrong and node.kind == "span" else "node"
    if node.is_dot:
        return element("circle", title(told), cx=node.x, cy=node.y, r=4.5, class_=marked, **place)
    width = _label_width(node.label)
    halo = rect(node.x - width / 2, node.y - 11, width, 16, rx=3, class_="halo")
    kind = "symbol wrong" if "wrong" in marked else "symbol"
    inner = text(node.label, node.x, node.y + 1, text_anchor="middle", class_=kind)
    return element("g", [title(told), halo, inner], class_="labelled", data_symbol=node.symbol, **place)


def _parents_of(tree: AnyTree) -> tuple[list[int], list[int]]:
    """Return the index of the lowest span around each span and each word; -1 where there is none."""
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
