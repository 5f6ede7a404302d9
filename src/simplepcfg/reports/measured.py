"""All that a report needs to know of runs on gold trees, each part computed once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from simplepcfg.data.trees import SpanTree
from simplepcfg.errors import counted
from simplepcfg.evaluation.report import EvaluationReport
from simplepcfg.evaluation.symbol_labels import SymbolLabels
from simplepcfg.evaluation.treebank import BASELINES, Treebank
from simplepcfg.inference.run import Run
from simplepcfg.progress import stage


@dataclass(frozen=True, slots=True)
class MeasuredRun:
    """One run on gold trees; all trees are over the words that the run looks at."""

    report: EvaluationReport
    gold: list[SpanTree]
    predicted: list[SpanTree]
    labels: SymbolLabels | None  # None where the run's trees have no symbols


@dataclass(frozen=True, slots=True)
class Measured:
    """All runs with trees, and the evaluation reports of all systems: runs first, then baselines."""

    trees: Sequence[SpanTree]
    runs: dict[str, MeasuredRun]
    reports: dict[str, EvaluationReport]


def measure(runs: Mapping[str, Run], trees: Sequence[SpanTree], source: str, remark: Callable[[str], None]) -> Measured:
    """Evaluate every run; one without trees (a hidden Markov model) has a perplexity alone.

    `remark` is called with a line about such a run.
    """
    measured: dict[str, MeasuredRun] = {}
    reports: dict[str, EvaluationReport] = {}
    for name, run in runs.items():
        treebank = Treebank(trees, run.preprocessing, source)
        if run.has_trees:
            with stage(f"measuring {name} on {counted(len(trees), 'tree')}"):
                report = reports[name] = run.evaluate(treebank, name, labels=True)
            assert report.f1 is not None
            pairs = zip(treebank.gold, report.f1.predicted, strict=True)
            predicted = [SpanTree.from_spans(tree.words, spans) for tree, spans in pairs]
            labels = None if report.labels is None else report.labels.phrases
            measured[name] = MeasuredRun(report, treebank.gold, predicted, labels)
        else:
            reports[name] = run.evaluate(treebank, name)
            remark(f"{name}: a model of kind {run.config.model.kind} has no trees; only its perplexity is shown")
    common = Treebank(trees, next(iter(runs.values())).preprocessing, source)
    reports |= {name: common.baseline(name) for name in BASELINES}
    return Measured(trees, measured, reports)
