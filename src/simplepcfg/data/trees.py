"""A tree as words, tags and an array of labelled spans: no recursion, so depth is no limit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

from simplepcfg.errors import InputError

if TYPE_CHECKING:
    from nltk.tree import Tree

TRACE_TAG = "-NONE-"
TRACES, EMPTY_CONSTITUENTS = "traces", "constituents without words"  # names under which these are counted
PHRASE_LABEL = "X"
WORD_LABEL = "T"


@dataclass(frozen=True, slots=True)
class SpanTree:
    """A constituency tree over `words`; leaves carry `tags`, all other nodes are `spans`.

    Spans are half-open `(i, j, label)` in preorder: parents before children, unary chains outermost first.
    Phrases over one word are spans too. Two words or more need a span over all of them, which comes first.
    No words at all (everything was punctuation) is the empty tree, which has length 0 and no text.

        SpanTree(("a", "dog", "barks"), ("DT", "NN", "VBZ"), ((0, 3, "S"), (0, 2, "NP")))
    """

    words: tuple[str, ...]
    tags: tuple[str, ...]
    spans: tuple[tuple[int, int, str], ...]

    def __post_init__(self) -> None:
        n = len(self.words)
        if len(self.tags) != n:
            raise InputError(f"a tree of {n} words has {len(self.tags)} tags; give one tag a word")
        if n > 1 and not self.spans:
            raise InputError(f"a tree of {n} words has no spans; the first must be (0, {n}, label)")
        if self.spans and self.spans[0][:2] != (0, n):
            raise InputError(f"the first span is {self.spans[0]}; it must cover all {n} words")

    def __len__(self) -> int:
        """Number of words."""
        return len(self.words)

    @classmethod
    def from_spans(cls, words: Sequence[str], spans: Iterable[tuple[int, int]]) -> SpanTree:
        """Return a tree of unlabelled spans in any order, such as a parser's; the span over all words is added."""
        n = len(words)
        nested = sorted({*spans, (0, n)}, key=lambda span: (span[0], -span[1])) if n else []
        check_nested(nested, n)
        return cls(tuple(words), (WORD_LABEL,) * n, tuple((i, j, PHRASE_LABEL) for i, j in nested))

    @classmethod
    def from_nltk(cls, tree: Tree) -> SpanTree:
        """Read an `nltk.Tree` whose leaves are tagged words; traces go, with the parents they leave empty."""
        builder = TreeBuilder()
        stack: list[object] = [tree]
        while stack:
            node = stack.pop()
            if node is TreeBuilder:  # stands where a node ends
                builder.close()
            elif isinstance(node, str):
                builder.stack[-1].leaves.append(node)
            elif hasattr(node, "label"):
                builder.open(str(node.label()))
                stack += [TreeBuilder, *reversed(cast("Tree", node))]
            else:
                raise InputError(f"({builder.stack[-1].label} ...) holds the leaf {node!r}; leaves must be strings")
        return builder.finish()

    def to_nltk(self) -> Tree:
        """Return the same tree as `nltk.Tree`; InputError for the empty tree, and for spans that cross."""
        from nltk.tree import Tree  # here, because importing nltk takes as long as everything else together

        if not self.words:
            raise InputError("a tree without words has no nltk.Tree; leave it out")
        check_nested([(i, j) for i, j, _ in self.spans], len(self.words))
        top: list[Tree] = []
        stack: list[tuple[int, list[Tree]]] = [(len(self.words), top)]
        following = 0
        for i, (word, tag) in enumerate(zip(self.words, self.tags, strict=True)):
            while stack[-1][0] <= i:
                stack.pop()
            while following < len(self.spans) and self.spans[following][0] == i:
                _, j, label = self.spans[following]
                node = Tree(label, [])
                stack[-1][1].append(node)
                stack.append((j, node))
                following += 1
            stack[-1][1].append(Tree(tag, [word]))
        return top[0]

    def to_svg(self) -> str:
        """Return a picture of the tree as the text of an SVG file, which follows the reader's light or dark theme."""
        from simplepcfg.drawing import standalone, tree_picture

        return standalone(tree_picture(self))

    _repr_svg_ = to_svg  # what notebooks show

    def to_brackets(self) -> str:
        """Return the tree as one line of brackets; round brackets inside words become -LRB- and -RRB-."""
        n = len(self.words)
        opened = [""] * n
        closing = [0] * (n + 1)
        for i, j, label in self.spans:
            opened[i] += f"({label} "
            closing[j] += 1
        parts = []
        for i, (word, tag) in enumerate(zip(self.words, self.tags, strict=True)):
            parts.append(f"{opened[i]}({tag} {escape_brackets(word)}){')' * closing[i + 1]}")
        return " ".join(parts)


def as_tree(item: object) -> SpanTree | None:
    """Return a tree of either type as spans; None for anything else."""
    if isinstance(item, SpanTree):
        return item
    return SpanTree.from_nltk(item) if hasattr(item, "label") else None


def check_nested(spans: Sequence[tuple[int, int]], n: int) -> None:
    """Raise InputError if spans (sorted parents first) cross each other or leave the sentence of n words."""
    open_ends = [n]
    previous = 0
    for i, j in spans:
        if not 0 <= i < j <= n:
            raise InputError(f"span ({i}, {j}) lies outside a sentence of {n} words")
        if i < previous:
            raise InputError(f"span ({i}, {j}) comes after one that starts at {previous}; sort parents first")
        previous = i
        while open_ends[-1] <= i:
            open_ends.pop()
        if j > open_ends[-1]:
            raise InputError(f"span ({i}, {j}) crosses one that ends at {open_ends[-1]}; a tree's spans must nest")
        open_ends.append(j)


def escape_brackets(word: str) -> str:
    """Return a word with its round brackets escaped, for bracketed text."""
    return word.replace("(", "-LRB-").replace(")", "-RRB-")


def remove_wrappers(spans: list[tuple[int, int, str]], n: int) -> int:
    """Remove unlabelled nodes around all of a tree of n words, which needs none of them; return how many they were."""
    before = len(spans)
    while spans and spans[0][2] == "" and (n == 1 or (len(spans) > 1 and spans[1][:2] == (0, n))):
        del spans[0]
    return before - len(spans)


@dataclass(slots=True)
class OpenNode:
    """A node that has not ended yet."""

    label: str
    index: int  # of its span
    leaves: list[str] = field(default_factory=list)  # words that are its own
    has_children: bool = False


class TreeBuilder:
    """Builds a tree from its nodes, parents first; with `counts`, nodes without words and traces are counted there."""

    def __init__(self, counts: Counter[str] | None = None) -> None:
        self.counts = counts
        self.words: list[str] = []
        self.tags: list[str] = []
        self.spans: list[tuple[int, int, str]] = []
        self.stack: list[OpenNode] = []  # parents first

    def open(self, label: str) -> None:
        """Begin a node, a phrase or a tagged word."""
        if self.stack:
            self.stack[-1].has_children = True
        self.stack.append(OpenNode(label, len(self.spans)))
        self.spans.append((len(self.words), -1, label))

    def add_word(self, tag: str, word: str) -> None:
        """Add a tagged word, unless it is a trace."""
        if self.stack:
            self.stack[-1].has_children = True
        if tag != TRACE_TAG:
            self.words.append(word)
            self.tags.append(tag)
        elif self.counts is not None:
            self.counts[TRACES] += 1

    def close(self) -> None:
        """End the last node; a phrase without words is left out. InputError for one that is no phrase and no word."""
        node = self.stack.pop()
        start = self.spans[node.index][0]
        is_empty = not node.leaves and start == len(self.words)
        if is_empty and self.counts is not None:
            self.counts[EMPTY_CONSTITUENTS] += 1
        elif len(node.leaves) > 1 or bool(node.leaves) == node.has_children:
            raise InputError(_describe_bad_node(node))
        if not node.leaves and not is_empty:
            self.spans[node.index] = (start, len(self.words), node.label)
            return
        del self.spans[node.index]
        if node.leaves:
            self.add_word(node.label, node.leaves[0])

    def finish(self) -> SpanTree:
        """Return the tree, without unlabelled nodes around all of it; InputError if it has no words."""
        if not self.words:
            raise InputError("tree without words; remove it, or give it a word")
        remove_wrappers(self.spans, len(self.words))
        return SpanTree(tuple(self.words), tuple(self.tags), tuple(self.spans))


def _describe_bad_node(node: OpenNode) -> str:
    """Return what is wrong with a node that is neither one tagged word nor a phrase of nodes."""
    label, leaves = node.label, node.leaves
    if not leaves:
        return f"({label}) has neither a word nor children; remove it, or give it a word"
    if node.has_children:
        return f"({label} ...) mixes the untagged word {leaves[0]!r} with nodes; write (TAG {leaves[0]})"
    listed = " ".join(leaves[:3])
    return f"({label} {listed}) holds {len(leaves)} words under one tag; write (TAG {leaves[0]}) for each"
