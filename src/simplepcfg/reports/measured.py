"""All that a report needs to know of runs on gold trees, computed once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from simplepcfg.data.trees import SpanTree
from simplepcfg.evaluation.calibration import Calibration, calibration
from simplepcfg.evaluation.report import EvaluationReport
from simplepcfg.evaluation.symbol_labels import SymbolLabels
from simplepcfg.evaluation.treebank import BASELINES, Treebank
from simplepcfg.inference.evaluation import labels_of
from simplepcfg.inference.parsing import mbr_spans
from simplepcfg.inference.run import Run


@dataclass(frozen=True, slots=True)
class MeasuredRun:
    """One run on gold trees; all trees are over the words that the run looks at."""

    report: EvaluationReport
    gold: list[SpanTree]
    predicted: list[SpanTree]
    calibration: Calibration
    labels: SymbolLabels | None  # None where the run's trees have no symbols


@dataclass(frozen=True, slots=True)
class Measured:
    """All runs with trees, and the evaluation reports of all systems: runs first, then baselines."""

    trees: Sequence[SpanTree]
    runs: dict[str, MeasuredRun]
    reports: dict[str, EvaluationReport]


def measure(runs: Mapping[str, Run], trees: Sequence[SpanTree], source: str, remark: Callable[[str], None]) -> Measured:
    """Evaluate every run; one without trees (a hidden Markov model) has a perplexity alone."""
    found: dict[str, MeasuredRun] = {}
    reports: dict[str, EvaluationReport] = {}
    for name, run in runs.items():
        treebank = Treebank(trees, run.preprocessing, source)
        reports[name] = run.evaluate_treebank(treebank, name)
        if run.has_trees:
            found[name] = _measure_run(run, treebank, reports[name])
        else:
            remark(f"{name}: a model of kind {run.config.model.kind} has no trees; only its perplexity is shown")
    first = next(iter(runs.values()))
    common = Treebank(trees, first.preprocessing, source)
    reports |= {name: common.baseline(name) for name in BASELINES}
    return Measured(trees, found, reports)


def _measure_run(run: Run, treebank: Treebank, report: EvaluationReport) -> MeasuredRun:
    decoded = mbr_spans(run, [item.tokens for item in treebank.prepared])
    predicted = [
        SpanTree.from_spans(tree.words, item.word_spans(spans))
        for tree, item, spans in zip(treebank.gold, treebank.prepared, decoded, strict=True)
    ]
    marginals = run.span_marginals(treebank.original)
    found = labels_of(run, treebank)
    labels = None if found is None else found.phrases
    return MeasuredRun(report, treebank.gold, predicted, calibration(treebank.gold, marginals), labels)
