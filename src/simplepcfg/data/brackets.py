"""Bracketed text to trees: a streaming reader with its own stack, for treebanks of any size and depth."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator

from simplepcfg.data.trees import SpanTree, TreeBuilder
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

EMPTY_TREES = "trees without words"  # the name under which a tolerant reader counts them


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

    With `counts`, trees and phrases without words are counted there, as traces are, and raise no error.
    """
    builder = TreeBuilder(counts)
    began = 0
    number = 0
    for number, line in enumerate(lines, start=1):
        try:
            for token in _TOKEN.finditer(line):
                if not builder.stack:
                    began = number
                _add(token, builder)
                if not builder.stack:
                    if builder.words or counts is None:
                        yield builder.finish()
                    else:
                        counts[EMPTY_TREES] += 1
                    builder = TreeBuilder(counts)
        except InputError as error:
            place = f" (tree begun at line {began})" if began != number else ""
            raise InputError(f"{source}:{number}: {error}{place}") from None
    if builder.stack:
        missing = len(builder.stack)
        raise InputError(f"{source}:{began}: the tree that begins here is not closed; {missing} ')' missing")


def _add(token: re.Match[str], builder: TreeBuilder) -> None:
    """Add one token to the tree in the making."""
    kind = token.lastgroup
    if kind == "word":
        builder.add_word(*token.group(1, 2))
    elif kind == "label":
        builder.open(token.group("label"))
    elif not builder.stack:
        what = token.group()
        fix = "remove it" if what == ")" else "a tree must begin with '('"
        raise InputError(f"{what!r} outside any tree; {fix}")
    elif kind == "close":
        builder.close()
    else:
        node = builder.stack[-1]
        if node.label or node.leaves or node.has_children:
            node.leaves.append(token.group())
        else:  # "(" was at the end of a line: what opens the next one is the label
            node.label = token.group()
