"""Figures of a run's trees: symbols against gold labels, and the best and worst parses beside gold."""

from __future__ import annotations

import re

from simplepcfg.drawing import heat_map, tree_picture
from simplepcfg.evaluation.f1 import SentenceSpans, evaluation_spans
from simplepcfg.reports.measured import MeasuredRun
from simplepcfg.reports.page import Figure, Note, Pair, Part

SYMBOLS, LABELS = 20, 8
SHOWN = 4  # best parses, and as many worst
LENGTHS = range(5, 16)  # long enough to say something, short enough to be read


def confusion_parts(name: str, run: MeasuredRun, several: bool) -> list[Part]:
    """Draw a heat map of symbols by gold labels."""
    parts: list[Part] = [Note(name, heading=True)] if several else []
    if run.labels is None or not run.labels.counts:
        return [*parts, Note("This model's trees have no symbols to compare.")]
    rows, columns, shares = run.labels.table(SYMBOLS, LABELS)
    svg = heat_map(
        rows,
        columns,
        shares,
        label=f"symbols of {name} by gold label",
        row_label="symbol",
        column_label="gold label (%)",
    )
    caption = (
        f"Of the {len(rows)} most used symbols in the most probable trees, how often their spans have each gold label; "
        f"“none” are spans that gold does not have. Taking each symbol for its most frequent label, "
        f"{100 * run.labels.accuracy:.1f} % of the spans that are gold constituents get theirs."
    )
    return [*parts, Figure(f"symbols-{_file_name(name)}", svg, caption)]


def gallery_parts(name: str, run: MeasuredRun, several: bool) -> list[Part]:
    """Draw parses of high and of low F1, each beside its gold tree; wrong spans are marked."""
    assert run.report.f1 is not None
    parts: list[Part] = [Note(name, heading=True)] if several else []
    counted = [item for item in run.report.f1.by_sentence if item.gold]
    fitting = [item for item in counted if len(run.gold[item.place]) in LENGTHS] or counted
    ranked = sorted(fitting, key=lambda item: (-item.f1, -item.gold, item.place))
    chosen = [("best", item) for item in ranked[:SHOWN]]
    chosen += [("worst", item) for item in ranked[SHOWN:][-SHOWN:][::-1]]
    parts += [_pair(name, kind, number, item, run) for number, (kind, item) in enumerate(chosen, start=1)]
    return parts


def _pair(name: str, kind: str, number: int, item: SentenceSpans, run: MeasuredRun) -> Pair:
    gold, guess = run.gold[item.place], run.predicted[item.place]
    truth = evaluation_spans(gold)
    wrong = {(i, j) for i, j, _ in guess.spans if 1 < j - i < len(guess)} - truth
    base = f"parse-{_file_name(name)}-{number}"
    return Pair(
        f"{kind}: F1 {100 * item.f1:.0f}, “{' '.join(gold.words)}”",
        Figure(base, tree_picture(guess, wrong=wrong), "induced; nodes that gold does not have are red"),
        Figure(f"{base}-gold", tree_picture(gold), "gold"),
    )


def _file_name(name: str) -> str:
    return re.sub(r"[^\w.-]+", "-", name).strip("-.") or "run"
