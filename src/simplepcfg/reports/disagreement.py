"""Where two runs disagree: constituents that one has and the other has not."""

from __future__ import annotations

from itertools import combinations

from simplepcfg.drawing import tree_picture
from simplepcfg.evaluation.f1 import evaluation_spans
from simplepcfg.reports.measured import Measured, MeasuredRun
from simplepcfg.reports.page import Figure, Note, Pair, Part, Table

SHOWN = 3  # sentences of each pair of runs
LENGTHS = range(5, 16)  # words: long enough to say something, short enough to be read


def disagreement_parts(measured: Measured) -> list[Part]:
    """Return, for each two runs, how many constituents they share, whose are right, and sentences that differ most."""
    parts: list[Part] = []
    for number, ((first, one), (second, other)) in enumerate(combinations(measured.runs.items(), 2), start=1):
        if [tree.words for tree in one.gold] != [tree.words for tree in other.gold]:
            parts.append(Note(f"{first} and {second} look at different words and are not compared."))
            continue
        parts += _pair(first, one, second, other, f"disagreement-{number}")
    return parts


def _pair(first: str, one: MeasuredRun, second: str, other: MeasuredRun, file: str) -> list[Part]:
    counts = [[0, 0], [0, 0], [0, 0]]  # constituents of both, of the first alone and of the second alone; gold ones
    differences: list[tuple[float, int]] = []
    for place, (gold, a, b) in enumerate(zip(one.gold, one.predicted, other.predicted, strict=True)):
        truth, mine, theirs = (evaluation_spans(tree) for tree in (gold, a, b))
        for count, spans in zip(counts, (mine & theirs, mine - theirs, theirs - mine), strict=True):
            count[0] += len(spans)
            count[1] += len(spans & truth)
        if mine != theirs and len(gold) in LENGTHS:
            differences.append((len(mine - theirs) / len(mine), place))
    names = ("both have", f"only {first} has", f"only {second} has")
    rows = [
        [name, f"{count:,}", f"{100 * right / count:.1f} %" if count else "–"]
        for name, (count, right) in zip(names, counts, strict=True)
    ]
    parts: list[Part] = [
        Note(f"{first} and {second}", heading=True),
        Table(["constituents that", "number", "of them gold"], rows),
    ]
    differences.sort(key=lambda item: (-item[0], item[1]))
    for number, (_, place) in enumerate(differences[:SHOWN], start=1):
        a, b = one.predicted[place], other.predicted[place]
        mine, theirs = evaluation_spans(a), evaluation_spans(b)
        told = "what {} has not is red"
        left = Figure(f"{file}-{number}-a", tree_picture(a, wrong=mine - theirs), f"{first}; {told.format(second)}")
        right = Figure(f"{file}-{number}-b", tree_picture(b, wrong=theirs - mine), f"{second}; {told.format(first)}")
        parts.append(Pair(f"“{' '.join(a.words)}”", left, right))
    return parts
