"""Gold trees after a run's preprocessing, and F1 of baselines and of predicted trees from files."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches
from itertools import chain

import torch

from simplepcfg.data.preprocessing import Prepared, Preprocessing, spans_over, with_word_tags
from simplepcfg.data.trees import SpanTree
from simplepcfg.errors import InputError
from simplepcfg.evaluation.baselines import left_branching, oracle, random_tree, right_branching
from simplepcfg.evaluation.f1 import evaluate_spans
from simplepcfg.evaluation.label_report import LabelReport, OwnLabels, compare_labels, judge_labels
from simplepcfg.evaluation.report import EvaluationReport
from simplepcfg.runs.device import seeded

BASELINES = ("left-branching", "right-branching", "random", "oracle")

Spans = list[tuple[int, int]]


class Treebank:
    """Gold trees as in their file and after a run's preprocessing.

    Punctuation is what has the tag `punctuation`, if one is given; where the tags are not Penn's, it is recognised by
    its characters. Errors name `source`. Raises InputError if no tree has two words after preprocessing.
    """

    def __init__(
        self,
        trees: Iterable[SpanTree],
        preprocessing: Preprocessing,
        source: str | None = None,
        *,
        punctuation: str | None = None,
    ) -> None:
        given = list(trees)
        self.original = with_word_tags(given, punctuation)
        self.prepared: list[Prepared] = [preprocessing.apply(tree.words, tree.tags) for tree in self.original]
        self.gold = [preprocessing.prepare_tree(tree) for tree in self.original]
        self.file_tags = [tree.tags for tree in given]  # of all words, where those of `original` may be others
        tags = [[tree.tags[index] for index in item.kept] for tree, item in zip(given, self.prepared, strict=True)]
        # Those of the words that stay; None where all of them have the same one.
        self.gold_tags = tags if len(set(chain.from_iterable(tags))) > 1 else None
        if self.original and not any(len(tree) >= 2 for tree in self.gold):
            raise InputError(
                f"{source or 'treebank'}: none of the {len(self.original)} trees has two words or more after "
                "preprocessing; F1 needs one, give a file with longer sentences"
            )

    @property
    def tokens(self) -> int:
        """Number of words after preprocessing, without an added `<eos>`."""
        return sum(len(tree) for tree in self.gold)

    def baseline(self, name: str, seed: int = 0) -> EvaluationReport:
        """Return the F1 of a baseline's binary trees, one of `BASELINES`; only `oracle` uses gold spans."""
        if name not in BASELINES:
            raise InputError(f"baseline {name!r} is unknown; take one of {', '.join(BASELINES)}")
        generator = seeded(torch.device("cpu"), seed)
        branch: dict[str, Callable[[SpanTree], Spans]] = {
            "left-branching": lambda tree: left_branching(len(tree)),
            "right-branching": lambda tree: right_branching(len(tree)),
            "random": lambda tree: random_tree(len(tree), generator),
            "oracle": lambda tree: oracle([(i, j) for i, j, _ in tree.spans], len(tree)),
        }
        return self.report(name, [branch[name](tree) if len(tree) else [] for tree in self.gold])

    def predictions(self, name: str, trees: Sequence[SpanTree]) -> tuple[EvaluationReport, int]:
        """Return the F1 of predicted trees, and how many of them have other words than the gold tree.

        A predicted tree may span the sentence as in the gold file or as it is after preprocessing. Raises InputError,
        with `name`, if numbers of trees or words differ.
        """
        if len(trees) != len(self.gold):
            raise InputError(
                f"{name}: {len(trees)} trees for {len(self.gold)} gold trees; both need the same sentences"
            )
        spans, different = [], 0
        for number, tree in enumerate(trees):
            spans.append(self._project(name, number, tree))
            truth = self.original[number] if len(tree) == len(self.original[number]) else self.gold[number]
            different += [word.lower() for word in tree.words] != [word.lower() for word in truth.words]
        return self.report(name, spans), different

    def report(self, name: str, spans: Sequence[Iterable[tuple[int, int]]]) -> EvaluationReport:
        """Return the F1 of spans over the words after preprocessing."""
        return EvaluationReport(name, len(self.gold), self.tokens, evaluate_spans(self.gold, spans))

    def labels(self, trees: Sequence[SpanTree]) -> LabelReport | None:
        """Report how the symbols of trees over the same words match gold labels; None where they have no symbols."""
        return compare_labels(self.gold, self.gold_tags, [item.kept for item in self.prepared], trees)

    def own_labels(self, trees: Sequence[SpanTree]) -> OwnLabels:
        """Report how the labels of trees over the original words match gold's."""
        return judge_labels(self.gold, self.gold_tags, [item.kept for item in self.prepared], trees)

    def _project(self, name: str, number: int, tree: SpanTree) -> Spans:
        """Return the spans of a predicted tree over the words that preprocessing kept."""
        kept = self.prepared[number].kept
        before, after = len(self.original[number]), len(kept)
        if len(tree) == before:
            return [(i, j) for i, j, _ in spans_over(kept, tree.spans)]
        if len(tree) == after:
            return [(i, j) for i, j, _ in tree.spans]
        expected = f"{before} or, without punctuation, {after}" if before != after else str(before)
        raise InputError(
            f"{name}: tree {number + 1} has {len(tree)} words, the gold tree {expected}; "
            "both files need the same sentences in the same order"
        )


def check_baseline_name(name: str) -> None:
    """Raise InputError if a name is no existing folder but close to the name of a baseline."""
    if os.path.exists(name):  # Path.exists would raise for a name that is too long.
        return
    started = [baseline for baseline in BASELINES if name and baseline.startswith(name)]
    close = started or get_close_matches(name, BASELINES, n=1, cutoff=0.75)
    if close:
        raise InputError(f"{name} is neither a run folder nor a baseline; did you mean {close[0]}?")
