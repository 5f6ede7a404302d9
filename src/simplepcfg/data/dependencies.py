"""Dependency trees as constituency trees: one span for the subtree of each word."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from simplepcfg.data.trees import SpanTree
from simplepcfg.errors import InputError

PUNCTUATION = "PUNCT"  # the universal part of speech


@dataclass(frozen=True, slots=True)
class DependencyTree:
    """The subtrees of a dependency tree that are in one piece, as a tree of spans, and the number of the others.

    Tags are universal parts of speech, a span's label is the relation of its head, without its subtype.
    """

    tree: SpanTree
    discontinuous: int  # words whose subtree is not in one piece


def dependency_tree(
    words: Sequence[str], tags: Sequence[str], heads: Sequence[int], relations: Sequence[str]
) -> DependencyTree:
    """Return the spans of the subtrees of a sentence; heads count words from 1, and the root has 0.

    The subtree of a word is the word with all that depend on it, directly or not. Punctuation (`PUNCT`) belongs to no
    subtree: one that it interrupts is still in one piece, and it has no subtree of its own. A span reaches from the
    first to the last word of a subtree of two words or more. Subtrees are nested or disjoint, hence so are spans.
    Raises InputError for heads that go round in a circle.

        dependency_tree(["a", "dog", "barks"], ["DET", "NOUN", "VERB"], [2, 3, 0], ["det", "nsubj", "root"])
        # the spans (0, 3, "root") and (0, 2, "nsubj")
    """
    n = len(words)
    is_word = [tag != PUNCTUATION for tag in tags]
    first = [at if word else n for at, word in enumerate(is_word)]
    last = [at if word else -1 for at, word in enumerate(is_word)]
    size = [int(word) for word in is_word]
    for at in reversed(_parents_first(heads)):
        if parent := heads[at]:
            first[parent - 1] = min(first[parent - 1], first[at])
            last[parent - 1] = max(last[parent - 1], last[at])
            size[parent - 1] += size[at]
    before = [0, *accumulate(map(int, is_word))]  # words before each place
    single_root = sum(head == 0 for head in heads) == 1
    spans: list[tuple[int, int, str]] = []
    discontinuous = 0
    for at in range(n):
        if not is_word[at] or (heads[at] == 0 and single_root):  # A single root's subtree is the sentence.
            continue
        start, end = first[at], last[at] + 1
        if before[end] - before[start] != size[at]:
            discontinuous += 1
        elif size[at] > 1:
            spans.append((start, end, relations[at].split(":", 1)[0]))
    nested = sorted(spans, key=lambda span: (span[0], -span[1]))
    return DependencyTree(SpanTree(tuple(words), tuple(tags), ((0, n, "root"), *nested)), discontinuous)


def _parents_first(heads: Sequence[int]) -> list[int]:
    """Return the places of all words, each after that of its head."""
    children: list[list[int]] = [[] for _ in range(len(heads) + 1)]
    for at, head in enumerate(heads):
        children[head].append(at)
    ordered = list(children[0])
    for at in ordered:  # The list grows while it is read.
        ordered += children[at + 1]
    if len(ordered) < len(heads):
        raise InputError("heads go round in a circle; repair the sentence")
    return ordered
