"""Bracketed text to trees: a streaming reader with its own stack, for treebanks of any size and depth."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator

from simplepcfg.data.trees import TRACE_TAG, SpanTree, close_span, describe_bad_node, finish_tree
from simplepcfg.errors import InputError

# White space is ASCII only: a no-break space does not split a word. A whole tagged word is one token, which
# makes reading twice as fast; one that is spread over lines comes in pieces.
_TOKEN = re.compile(
    r"""\((?P<tag>[^()\ \t\r\n\f\v]+)[\ \t\r\n\f\v]+(?P<word>[^()\ \t\r\n\f\v]+)[\ \t\r\n\f\v]*\)
      | (?P<open>\()[\ \t\r\n\f\v]*(?P<label>[^()\ \t\r\n\f\v]*)
      | (?P<close>\))
      | (?P<text>[^()\ \t\r\n\f\v]+)""",
    re.VERBOSE,
)

# Names under which a tolerant reader counts what it leaves out.
TRACES, EMPTY_CONSTITUENTS, EMPTY_TREES = "traces", "constituents without words", "trees without words"


def parse_tree(text: str) -> SpanTree:
    """Return the one tree in `text`; InputError if there is none, more than one, or a mistake in it.

    parse_tree("(S (NP (DT a) (NN dog)) (VP (VBZ barks)))")
    """
    trees = list(parse_trees(text.split("\n"), "text"))
    if len(trees) != 1:
        raise InputError(f"expected one bracketed tree, found {len(trees)} in {text[:40]!r}")
    return trees[0]


def parse_trees(lines: Iterable[str], source: str, counts: Counter[str] | None = None) -> Iterator[SpanTree]:
    """Yield the trees of bracketed text, one a line or spread over several; InputError names `source` and the line.

    With `counts`, what has no words is no error: it is left out and counted there, as traces are.
    """
    builder = _TreeBuilder(counts)
    began = 0
    number = 0
    for number, line in enumerate(lines, start=1):
        try:
            for token in _TOKEN.finditer(line):
                if not builder.stack:
                    began = number
                if builder.add(token):
                    if builder.words or counts is None:
                        yield builder.finish()
                    else:
                        counts[EMPTY_TREES] += 1
                    builder = _TreeBuilder(counts)
        except InputError as error:
            place = f" (tree begun at line {began})" if began != number else ""
            raise InputError(f"{source}:{number}: {error}{place}") from None
    if builder.stack:
        missing = len(builder.stack)
        raise InputError(f"{source}:{began}: the tree that begins here is not closed; {missing} ')' missing")


class _TreeBuilder:
    """One tree in the making."""

    def __init__(self, counts: Counter[str] | None) -> None:
        self.counts = counts
        self.words: list[str] = []
        self.tags: list[str] = []
        self.spans: list[tuple[int, int, str]] = []
        self.stack: list[_OpenNode] = []

    def add(self, token: re.Match[str]) -> bool:
        """Take one token; true when it completes the tree."""
        kind = token.lastgroup
        stack = self.stack
        if kind == "word":
            if stack:
                stack[-1].has_children = True
            tag, word = token.group(1, 2)
            if tag != TRACE_TAG:
                self.words.append(word)
                self.tags.append(tag)
            elif self.counts is not None:
                self.counts[TRACES] += 1
        elif kind == "label":
            if stack:
                stack[-1].has_children = True
            label = token.group("label")
            stack.append(_OpenNode(label, len(self.spans)))
            self.spans.append((len(self.words), -1, label))
        elif not stack:
            what = token.group()
            fix = "remove it" if what == ")" else "a tree must begin with '('"
            raise InputError(f"{what!r} outside any tree; {fix}")
        elif kind == "close":
            self._close(stack.pop())
        else:
            self._add_text(stack[-1], token.group())
        return not stack

    def finish(self) -> SpanTree:
        """Return the completed tree."""
        return finish_tree(self.words, self.tags, self.spans)

    def _add_text(self, node: _OpenNode, text: str) -> None:
        # "(" at the end of a line: what opens the next one is the label.
        if not node.label and not node.leaves and not node.has_children:
            node.label = text
            self.spans[node.index] = (len(self.words), -1, text)
        else:
            node.leaves.append(text)

    def _close(self, node: _OpenNode) -> None:
        if self.counts is not None and not node.leaves and len(self.words) == self.spans[node.index][0]:
            self.counts[EMPTY_CONSTITUENTS] += 1
            del self.spans[node.index]
            return
        if len(node.leaves) > 1 or bool(node.leaves) == node.has_children:
            raise InputError(describe_bad_node(node.label, node.leaves, node.has_children))
        if not node.leaves:
            close_span(self.spans, node.index, len(self.words))
            return
        del self.spans[node.index]
        if node.label != TRACE_TAG:
            self.words.append(node.leaves[0])
            self.tags.append(node.label)
        elif self.counts is not None:
            self.counts[TRACES] += 1


class _OpenNode:
    """A node whose closing bracket has not come yet."""

    __slots__ = ("has_children", "index", "label", "leaves")

    def __init__(self, label: str, index: int) -> None:
        self.label = label
        self.index = index
        self.leaves: list[str] = []
        self.has_children = False
