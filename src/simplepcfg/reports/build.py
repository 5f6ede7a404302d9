"""A report of runs: how they learned, and with gold trees what they have learned."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from simplepcfg.data.trees import SpanTree
from simplepcfg.drawing import Series, line_plot
from simplepcfg.errors import InputError
from simplepcfg.evaluation.columns import Column
from simplepcfg.evaluation.layout import sections
from simplepcfg.evaluation.treebank import BASELINES, Treebank
from simplepcfg.inference.inspection import SymbolUse
from simplepcfg.inference.run import Run
from simplepcfg.inference.run_summary import perplexity_curve, run_facts
from simplepcfg.reports.measured import Measured, MeasuredRun, measure
from simplepcfg.reports.page import Report, Section, figure, heading, note, table
from simplepcfg.reports.parses import confusion_parts, disagreement_parts, gallery_parts
from simplepcfg.runs.history import read_history

AnyRun = TypeVar("AnyRun", Run, MeasuredRun)

TOP_SYMBOLS = 15
SYMBOL_SENTENCES = 50  # at most: enough for the uses of the most used symbols


def make_report(
    runs: Mapping[str, Run],
    trees: Sequence[SpanTree] | None = None,
    *,
    source: str = "the given trees",
    remark: Callable[[str], None] = lambda text: None,
) -> Report:
    """Compare runs, by their names, on gold trees if there are any; `source` is where these come from."""
    if not runs:
        raise InputError("a report of no runs; give at least one")
    measured = None if trees is None else measure(runs, trees, source, remark)
    shown = [_runs_section(runs), _learning_section(runs)]
    if measured is not None:
        shown += _evaluation_sections(measured, source)
    shown.append(_section_of_runs("Symbols in use", runs, lambda run: _symbol_parts(run, trees, source)))
    return Report(f"Report on {', '.join(runs)}", [section for section in shown if section.parts])


def _runs_section(runs: Mapping[str, Run]) -> Section:
    facts = {name: dict(run_facts(run, read_history(run.directory))) for name, run in runs.items()}
    names = list(dict.fromkeys(key for fact in facts.values() for key in fact))
    rows = [[key, *(fact.get(key, "–") for fact in facts.values())] for key in names]
    return Section("Runs", [table(["", *runs], rows)])


def _learning_section(runs: Mapping[str, Run]) -> Section:
    histories = [(name, read_history(run.directory)) for name, run in runs.items()]
    section = Section("Learning curves")
    curve = perplexity_curve(histories)
    if curve is None:
        section.parts.append(note("None of the runs has a record of its training."))
        return section
    section.parts.append(figure(curve, "Perplexity after each epoch, of training and validation text."))
    for key, title in (
        ("perplexity", "training perplexity since the last record"),
        ("gradient_norm", "mean norm of the gradient since the last record"),
    ):
        series = [Series(run, points) for run, history in histories if (points := history.by_step(key))]
        if series:
            svg = line_plot(series, x_label="epoch", y_label=f"{title} (logarithmic)", label=title, log=True)
            section.parts.append(figure(svg, f"{title[0].upper()}{title[1:]}."))
    return section


def _evaluation_sections(measured: Measured, source: str) -> list[Section]:
    scores = Section("Scores", [note(f"On {len(measured.trees):,} trees of {source}.")])
    scores.parts += [note(_summary(name, measured)) for name in measured.runs]
    for part in sections([Column(name, (report,)) for name, report in measured.reports.items()]):
        rows = [[name, *cells] for name, cells in part.rows]
        scores.parts += [heading(part.heading), table(["", *measured.reports], rows)]
    shown = [
        scores,
        _section_of_runs("Symbols and gold labels", measured.runs, confusion_parts),
        _section_of_runs("Best and worst parses", measured.runs, gallery_parts),
    ]
    if len(measured.runs) > 1:
        shown.append(Section("Disagreement", disagreement_parts(measured)))
    return shown


def _section_of_runs(title: str, runs: Mapping[str, AnyRun], parts_of: Callable[[AnyRun], list[str]]) -> Section:
    """Return a section with what `parts_of` returns of each run, under its name where there are several."""
    section = Section(title)
    for name, run in runs.items():
        section.parts += [heading(name)] if len(runs) > 1 else []
        section.parts += parts_of(run)
    return section


def _summary(name: str, measured: Measured) -> str:
    """Return what the trees of a run are worth beside those that need no grammar, in a sentence."""
    own = measured.runs[name].report.sentence_f1 or 0.0
    known = {each: measured.reports[each].sentence_f1 or 0.0 for each in BASELINES}
    oracle = known.pop("oracle")
    best = max(known, key=lambda each: known[each])
    where = f"{abs(own - known[best]):.1f} {'above' if own >= known[best] else 'below'} the best baseline"
    return (
        f"{name}: sentence F1 {own:.1f} on {len(measured.trees):,} trees, {where} ({best}, {known[best]:.1f}); no "
        f"binary tree can reach more than {oracle:.1f}."
    )


def _symbol_parts(run: Run, trees: Sequence[SpanTree] | None, source: str) -> list[str]:
    """Return tables of the most used symbols, counted on some of the trees or on the run's own text."""
    if not (run.shares_rules and run.has_trees):
        return [note(f"A model of kind {run.config.model.kind} has no symbols to show.")]
    # Only words are given: for trees, the most probable ones would be computed again, for labels not shown here.
    words = None
    if trees is not None:
        chosen = trees[:: 1 + len(trees) // SYMBOL_SENTENCES]
        words = [tree.words for tree in Treebank(chosen, run.preprocessing, source).gold]
    report = run.symbols(words, TOP_SYMBOLS)
    usage = report.nonterminal_usage
    where = report.source if words is None else f"{len(words):,} sentences of {source}"
    told = (
        f"{usage.used:,} of {usage.symbols:,} nonterminals have one expected use or more on {where}; "
        f"{usage.covering:,} have 99 % of all uses."
    )
    rows = [[*_use_cells(use), "; ".join(text for text, _ in use.examples[:3])] for use in report.nonterminals]
    return [
        note(told),
        table(["nonterminal", "share of uses", "words", "typical spans"], rows, numbers=False),
        table(
            ["preterminal", "share of uses", "likeliest words"], [*map(_use_cells, report.preterminals)], numbers=False
        ),
    ]


def _use_cells(use: SymbolUse) -> list[str]:
    return [use.symbol, f"{100 * use.share:.1f} %", ", ".join(word for word, _ in use.words)]
