"""What a run's trees are like: symbols against gold labels, the best and worst parses, and where two runs disagree."""

from __future__ import annotations

from itertools import combinations

from simplepcfg.drawing import tree_picture
from simplepcfg.evaluation.f1 import SentenceSpans, Spans, evaluation_spans
from simplepcfg.reports.measured import Measured, MeasuredRun
from simplepcfg.reports.page import figure, heading, note, pair, table

SYMBOLS, LABELS = 20, 8
SHOWN = 4  # best parses, and as many worst
DIFFERENCES = 3  # sentences of each pair of runs
LENGTHS = range(5, 16)  # long enough to say something, short enough to be read


def confusion_parts(run: MeasuredRun) -> list[str]:
    """Return a table of symbols by gold labels."""
    if run.labels is None or not run.labels.counts:
        return [note("This model's trees have no symbols to compare.")]
    rows, columns, shares = run.labels.table(SYMBOLS, LABELS)
    told = (
        f"Of the {len(rows)} most used symbols in the most probable trees, how often (%) their spans have each gold "
        f"label; “none” are spans that gold does not have. Taking each symbol for its most frequent label, "
        f"{100 * run.labels.accuracy:.1f} % of the spans that are gold constituents get theirs."
    )
    cells = [[row, *(f"{100 * share:.0f}" for share in values)] for row, values in zip(rows, shares, strict=True)]
    return [note(told), table(["symbol", *columns], cells)]


def gallery_parts(run: MeasuredRun) -> list[str]:
    """Draw parses of high and of low F1, each beside its gold tree; wrong spans are marked."""
    assert run.report.f1 is not None
    counted = [item for item in run.report.f1.by_sentence if item.gold]
    fitting = [item for item in counted if len(run.gold[item.place]) in LENGTHS] or counted
    ranked = sorted(fitting, key=lambda item: (-item.f1, -item.gold, item.place))
    chosen = [("best", item) for item in ranked[:SHOWN]]
    chosen += [("worst", item) for item in ranked[SHOWN:][-SHOWN:][::-1]]
    return [_pair(kind, item, run) for kind, item in chosen]


def _pair(kind: str, item: SentenceSpans, run: MeasuredRun) -> str:
    gold, guess = run.gold[item.place], run.predicted[item.place]
    truth = evaluation_spans(gold)
    wrong = {(i, j) for i, j, _ in guess.spans if 1 < j - i < len(guess)} - truth
    return pair(
        f"{kind}: F1 {100 * item.f1:.0f}, “{' '.join(gold.words)}”",
        figure(tree_picture(guess, wrong=wrong), "induced; nodes that gold does not have are red"),
        figure(tree_picture(gold), "gold"),
    )


def disagreement_parts(measured: Measured) -> list[str]:
    """Return, for each two runs, how many constituents they share, whose are right, and sentences that differ most."""
    parts: list[str] = []
    for (first, one), (second, other) in combinations(measured.runs.items(), 2):
        if [tree.words for tree in one.gold] != [tree.words for tree in other.gold]:
            parts.append(note(f"{first} and {second} look at different words and are not compared."))
            continue
        parts += _disagreement(first, one, second, other)
    return parts


def _disagreement(first: str, one: MeasuredRun, second: str, other: MeasuredRun) -> list[str]:
    counts = [[0, 0], [0, 0], [0, 0]]  # constituents of both, of the first alone and of the second alone; gold ones
    differences: list[tuple[float, int, Spans, Spans]] = []  # share, place, spans of both
    for place, (gold, a, b) in enumerate(zip(one.gold, one.predicted, other.predicted, strict=True)):
        truth, mine, theirs = (evaluation_spans(tree) for tree in (gold, a, b))
        for count, spans in zip(counts, (mine & theirs, mine - theirs, theirs - mine), strict=True):
            count[0] += len(spans)
            count[1] += len(spans & truth)
        if mine != theirs and len(gold) in LENGTHS:
            differences.append((len(mine - theirs) / len(mine), place, mine, theirs))
    names = ("both have", f"only {first} has", f"only {second} has")
    rows = [
        [name, f"{count:,}", f"{100 * right / count:.1f} %" if count else "–"]
        for name, (count, right) in zip(names, counts, strict=True)
    ]
    parts = [
        heading(f"{first} and {second}"),
        table(["constituents that", "number", "of them gold"], rows),
    ]
    differences.sort(key=lambda item: (-item[0], item[1]))
    for _, place, mine, theirs in differences[:DIFFERENCES]:
        a, b = one.predicted[place], other.predicted[place]
        told = "what {} has not is red"
        left = figure(tree_picture(a, wrong=mine - theirs), f"{first}; {told.format(second)}")
        right = figure(tree_picture(b, wrong=theirs - mine), f"{second}; {told.format(first)}")
        parts.append(pair(f"“{' '.join(a.words)}”", left, right))
    return parts
