"""Gold dependency trees after a run's preprocessing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from os import PathLike

from simplepcfg.data.dependencies import PUNCTUATION, DependencyTree
from simplepcfg.data.preprocessing import Preprocessing
from simplepcfg.data.readers import has_dependencies, read_dependencies, read_trees
from simplepcfg.data.trees import SpanTree
from simplepcfg.evaluation.f1 import Spans, evaluate_spans, evaluation_spans, proper_spans
from simplepcfg.evaluation.report import DependencyReport, EvaluationReport
from simplepcfg.evaluation.treebank import Treebank

GoldTree = SpanTree | DependencyTree


class DependencyTreebank(Treebank):
    """Dependency trees after a run's preprocessing; punctuation is what has the tag PUNCT.

    treebank = DependencyTreebank(read_dependencies("gold.conllu"), run.preprocessing)
    run.evaluate(treebank).dependencies.recall
    """

    def __init__(
        self, trees: Iterable[DependencyTree], preprocessing: Preprocessing, source: str | None = None
    ) -> None:
        given = list(trees)
        super().__init__([item.tree for item in given], preprocessing, source, punctuation=PUNCTUATION)
        self.discontinuous = sum(item.discontinuous for item in given)

    def report(self, name: str, spans: Sequence[Iterable[tuple[int, int]]]) -> EvaluationReport:
        """Return the recall of subtrees and the share of brackets that cross one."""
        listed = [list(item) for item in spans]
        f1 = evaluate_spans(self.gold, listed)
        counts = []
        for item in f1.by_sentence:
            gold = evaluation_spans(self.gold[item.place])
            crossing = _crossing(proper_spans(listed[item.place], item.words), gold)
            counts.append(item._replace(crossing=crossing))
        dependencies = DependencyReport(tuple(counts), self.discontinuous, f1.recall_by_label)
        return EvaluationReport(name, len(self.gold), self.tokens, dependencies=dependencies)


def _crossing(brackets: Spans, gold: Spans) -> int:
    """Return how many brackets overlap with a gold span of which neither contains the other."""
    return sum(any(i < a < j < b or a < i < b < j for a, b in gold) for i, j in brackets)


def read_gold(path: str | PathLike[str]) -> list[GoldTree]:
    """Return the trees of a file: of dependencies, if it is CoNLL-U with heads, else bracketed ones."""
    return list(read_dependencies(path) if has_dependencies(path) else read_trees(path))


def make_treebank(gold: Sequence[GoldTree], preprocessing: Preprocessing, source: str | None = None) -> Treebank:
    """Return the treebank of the trees that `read_gold` has read."""
    dependencies = [item for item in gold if isinstance(item, DependencyTree)]
    if dependencies:
        return DependencyTreebank(dependencies, preprocessing, source)
    return Treebank([item for item in gold if isinstance(item, SpanTree)], preprocessing, source)
