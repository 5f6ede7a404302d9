"""A tree as words, tags and an array of labelled spans: no recursion, so depth is no limit."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from simplepcfg.errors import InputError

if TYPE_CHECKING:
    from nltk.tree import Tree

TRACE_TAG = "-NONE-"
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
    def from_spans(
        cls,
        words: Sequence[str],
        spans: Iterable[tuple[int, int]],
        label: str = PHRASE_LABEL,
        tag: str = WORD_LABEL,
    ) -> SpanTree:
        """Return a tree of unlabelled spans in any order, such as a parser's; the span over all words is added."""
        n = len(words)
        nested = sorted({*spans, (0, n)}, key=lambda span: (span[0], -span[1])) if n else []
        check_nested(nested, n)
        return cls(tuple(words), (tag,) * n, tuple((i, j, label) for i, j in nested))

    @classmethod
    def from_nltk(cls, tree: Tree) -> SpanTree:
        """Read an `nltk.Tree` whose leaves are tagged words; traces go, with the parents they leave empty."""
        words: list[str] = []
        tags: list[str] = []
        spans: list[tuple[int, int, str]] = []
        # A node waits on the stack once as itself and once, under its children, as the place where it closes.
        stack: list[tuple[Tree | None, int]] = [(tree, 0)]
        while stack:
            node, index = stack.pop()
            if node is None:
                close_span(spans, index, len(words))
                continue
            label = str(node.label())
            leaves = [child for child in node if isinstance(child, str)]
            if len(leaves) == 1 and len(node) == 1:
                if label != TRACE_TAG:
                    words.append(leaves[0])
                    tags.append(label)
                continue
            if leaves or not len(node):
                raise InputError(describe_bad_node(label, leaves, bool(len(node) - len(leaves))))
            stack.append((None, len(spans)))
            spans.append((len(words), -1, label))
            for child in reversed(node):
                if not hasattr(child, "label"):
                    raise InputError(f"({label} ...) holds the leaf {child!r}; leaves must be strings")
                stack.append((child, 0))
        return finish_tree(words, tags, spans)

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

    def _repr_svg_(self) -> str:
        """Draw the tree in notebooks."""
        return self.to_svg()

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


def close_span(spans: list[tuple[int, int, str]], index: int, end: int) -> None:
    """End the span at `index` before word `end`; remove it if it has no words: it is then the last of the list."""
    start, _, label = spans[index]
    if start == end:
        del spans[index]
    else:
        spans[index] = (start, end, label)


def finish_tree(words: list[str], tags: list[str], spans: list[tuple[int, int, str]]) -> SpanTree:
    """Build the tree, without unlabelled nodes around all of it; InputError if it has no words."""
    if not words:
        raise InputError("tree without words; remove it, or give it a word")
    remove_wrappers(spans, len(words))
    return SpanTree(tuple(words), tuple(tags), tuple(spans))


def remove_wrappers(spans: list[tuple[int, int, str]], n: int) -> int:
    """Remove unlabelled nodes around all of a tree of n words, which needs none of them; return how many they were."""
    before = len(spans)
    while spans and spans[0][2] == "" and (n == 1 or (len(spans) > 1 and spans[1][:2] == (0, n))):
        del spans[0]
    return before - len(spans)


def describe_bad_node(label: str, leaves: Sequence[str], has_children: bool) -> str:
    """Return what is wrong with a node that is neither one tagged word nor a phrase of nodes."""
    if not leaves:
        return f"({label}) has neither a word nor children; remove it, or give it a word"
    if has_children:
        return f"({label} ...) mixes the untagged word {leaves[0]!r} with nodes; write (TAG {leaves[0]})"
    listed = " ".join(leaves[:3])
    return f"({label} {listed}) holds {len(leaves)} words under one tag; write (TAG {leaves[0]}) for each"
