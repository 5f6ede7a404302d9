"""All that a report needs to know of runs on gold trees, each part computed once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from simplepcfg.data.preprocessing import Prepared
from simplepcfg.data.trees import SpanTree
from simplepcfg.errors import InputError, counted
from simplepcfg.evaluation.calibration import Calibration, calibration
from simplepcfg.evaluation.report import EvaluationReport
from simplepcfg.evaluation.symbol_labels import SymbolLabels
from simplepcfg.evaluation.treebank import BASELINES, Spans, Treebank
from simplepcfg.inference.evaluation import report_of
from simplepcfg.inference.labelled_trees import viterbi_trees
from simplepcfg.inference.marginals import span_marginals
from simplepcfg.inference.run import Run
from simplepcfg.inference.scoring import log_probabilities
from simplepcfg.ops.mbr import best_trees
from simplepcfg.progress import stage

BLOCK = 16  # sentences, after which the time that is left is estimated anew


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


@dataclass(slots=True)
class _Answers:
    """What is computed of each sentence: MBR tree, marginals over tokens, log p and, with symbols, the best tree."""

    spans: list[Spans] = field(default_factory=list)
    marginals: list[Tensor] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)
    labelled: list[SpanTree] | None = field(default_factory=list)


def measure(runs: Mapping[str, Run], trees: Sequence[SpanTree], source: str, remark: Callable[[str], None]) -> Measured:
    """Evaluate every run; one without trees (a hidden Markov model) has a perplexity alone.

    `remark` is told of these.
    """
    measured: dict[str, MeasuredRun] = {}
    reports: dict[str, EvaluationReport] = {}
    for name, run in runs.items():
        treebank = Treebank(trees, run.preprocessing, source)
        if run.has_trees:
            measured[name] = _measure_run(run, treebank, name)
            reports[name] = measured[name].report
        else:
            reports[name] = run.evaluate_treebank(treebank, name)
            remark(f"{name}: a model of kind {run.config.model.kind} has no trees; only its perplexity is shown")
    first = next(iter(runs.values()))
    common = Treebank(trees, first.preprocessing, source)
    reports |= {name: common.baseline(name) for name in BASELINES}
    return Measured(trees, measured, reports)


def _measure_run(run: Run, treebank: Treebank, name: str) -> MeasuredRun:
    answers = _Answers()
    work = [len(item.tokens) ** 2 for item in treebank.prepared]
    with stage(f"measuring {name} on {counted(len(work), 'tree')}", sum(work)) as advance:
        for start in range(0, len(work), BLOCK):
            block = slice(start, start + BLOCK)
            _compute(run, treebank, block, answers)
            advance(sum(work[block]))
    predicted = [
        SpanTree.from_spans(tree.words, item.word_spans(spans))
        for tree, item, spans in zip(treebank.gold, treebank.prepared, answers.spans, strict=True)
    ]
    labels = None if answers.labelled is None else treebank.labels(answers.labelled)
    return MeasuredRun(
        report_of(run, treebank, name, answers.spans, answers.scores),
        treebank.gold,
        predicted,
        calibration(treebank.gold, _aligned_marginals(run, treebank, answers.marginals)),
        None if labels is None else labels.phrases,
    )


def _compute(run: Run, treebank: Treebank, block: slice, answers: _Answers) -> None:
    pairs = zip(treebank.original[block], treebank.prepared[block], strict=True)
    prepared: list[tuple[Sequence[str], Prepared]] = [(tree.words, item) for tree, item in pairs]
    marginals = span_marginals(run, prepared, None)
    answers.marginals += marginals
    answers.spans += [
        best_trees(table[None], final_bonus=run.config.data.branching_bonus)[0] if len(table) > 1 else []
        for table in marginals
    ]
    answers.scores += log_probabilities(run, [item.tokens for _, item in prepared])
    if answers.labelled is not None:
        try:
            answers.labelled += viterbi_trees(run, prepared, lambda batch: None)
        except InputError:  # a large rank grammar has no symbols to show
            answers.labelled = None


def _aligned_marginals(run: Run, treebank: Treebank, marginals: list[Tensor]) -> list[Tensor]:
    """Return marginals over the words of the gold trees, which have no punctuation if the run drops it.

    The tokens are these words, except where the run adds `<eos>`, which a span that ends with the last word may have.
    """
    if not run.preprocessing.eos:
        return marginals
    tables = run.span_marginals(treebank.original)
    aligned = []
    for table, item in zip(tables, treebank.prepared, strict=True):
        starts = torch.tensor([*item.kept, len(table) - 1])
        ends = torch.tensor([0, *(place + 1 for place in item.kept)])
        aligned.append(table[starts][:, ends])
    return aligned
