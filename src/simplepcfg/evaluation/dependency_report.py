"""Constituency trees against a dependency treebank: which subtrees are brackets, and which brackets cross one.

Counted are the spans of dependency subtrees of two words or more but not of the whole sentence, without punctuation; a
word whose subtree is not in one piece has no span and is reported. A dependency tree says nothing of the brackets
inside a word and its dependents, so that a bracket that is no subtree is wrong only if it crosses one: precision and F1
would count it as wrong.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from simplepcfg.evaluation.f1 import LabelRecall


class SubtreeCounts(NamedTuple):
    """Counts of one sentence; `place` is its index in the file, from 0."""

    place: int
    recalled: int  # subtrees that are brackets
    subtrees: int
    crossing: int  # brackets that cross a subtree
    brackets: int


@dataclass(frozen=True, slots=True)
class DependencyReport:
    """Recall of dependency subtrees and the share of brackets that cross one, 0 to 100, over all sentences."""

    by_sentence: tuple[SubtreeCounts, ...] = field(repr=False)
    discontinuous: int  # words whose subtree is not in one piece
    recall_by_relation: tuple[LabelRecall, ...]

    @property
    def subtrees(self) -> int:
        """Number of gold spans."""
        return sum(item.subtrees for item in self.by_sentence)

    @property
    def recall(self) -> float | None:
        """Share of the subtrees that are brackets; None if there are none."""
        return _percentage(sum(item.recalled for item in self.by_sentence), self.subtrees)

    @property
    def crossing(self) -> float | None:
        """Share of the brackets, without words and whole sentences, that cross a subtree; None if there are none."""
        brackets = sum(item.brackets for item in self.by_sentence)
        return _percentage(sum(item.crossing for item in self.by_sentence), brackets)


def _percentage(count: int, total: int) -> float | None:
    return 100 * count / total if total else None
