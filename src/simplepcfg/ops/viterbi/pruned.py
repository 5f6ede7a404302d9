"""The exact Viterbi algorithm over the few nodes whose upper bounds reach a threshold. README.md derives it.

Top-down, the outside of a node is maximised over its ancestors, while a ``BoundChart`` bounds the siblings of these.
Nodes, splits and sides below the threshold are dropped. Bottom-up, the Viterbi recursion runs in float64 over what is
left. A tree that reaches the threshold is the best one, as no better one has lost a node. What is left is so little
that calls of PyTorch would take longer than the arithmetic: it is computed by NumPy.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import torch

from simplepcfg.ops.arguments import InsideArguments, by_length
from simplepcfg.ops.trees import LabelledTree
from simplepcfg.ops.viterbi.bounds import POWER, BoundChart, Floats, Integers, raised

LOG_2 = math.log(2)
# The first threshold is below the bound of the sentence by so many nats for each word; further ones by twice as many.
GUESS = 0.1
ROUNDS = 6
# So many numbers of one width may be held at a time; grammars that need more are left to the chart of all nodes.
MOST_NUMBERS = 1 << 25
# Sides are multiplied with all of their children for so many at a time, which stay in cache.
SIDES_AT_ONCE = 32
# A product with a power that leaves the range of float32, 2^-126, is below this: bounds are at most 2^64 times n.
LEAST_FLOAT32 = 2.0**-48


@dataclass(slots=True)
class Level:
    """What is left of the spans of one width: sides, children of sides, nodes, and splits of nodes.

    A side (b, i, r) is a span as the child of a parent symbol, where r is a row of [L; R; root].
    """

    width: int
    sides: tuple[Integers, Integers, Integers]  # sentence, start, r: [sides] each
    first_side: int  # number of the first side among those of all levels
    child_sides: Integers  # [children]: number of the side, in increasing order
    child_nodes: Integers  # [children]: number of the node, increasing within a side
    child_rules: Floats  # [children]: log-probability of the rule
    nodes: tuple[Integers, Integers, Integers]  # sentence, start, symbol: [nodes] each
    splits: Integers = field(default_factory=lambda: np.zeros(0, np.int64))  # number of the node, in increasing order
    places: Integers = field(default_factory=lambda: np.zeros(0, np.int64))  # width of the left child, increasing
    first_record: int = 0  # number of the left child of the first split; right children follow all left ones
    # Results of the recursion:
    values: Floats | None = None  # [nodes]
    best_splits: Integers | None = None  # [nodes]: number of a split


class Forest:
    """The nodes of some sentences that may belong to a derivation of at least a given probability."""

    def __init__(self, chart: BoundChart, thresholds: Floats) -> None:
        """Find the nodes; ``thresholds`` [B] are log-probabilities, +inf for sentences to leave out.

        Raises TooManyNodesError where they do not fit into memory.
        """
        self.chart = chart
        self.thresholds = (POWER * (thresholds - chart.log_best.numpy()) - chart.rounding()) / LOG_2
        self.levels: dict[int, Level] = {}
        # Sides that wait for their width. Each is a child of a split, and the first ones are whole sentences.
        every = np.arange(chart.batch)
        widths = np.where(np.isfinite(thresholds), chart.every_length, 0)
        self.waiting = np.stack([widths, every * (chart.n + 1), np.full_like(every, 2 * chart.nonterminals), every])
        self.outside = np.zeros(chart.batch)  # the greatest outside bound of each
        self.records = chart.batch
        self.side_of_record: list[tuple[Integers, Integers]] = []  # numbers of records, numbers of their sides
        self.sides = 0
        while (width := int(self.waiting[0].max(initial=0))) > 0:
            self._add_level(width)
        self.side_of = np.zeros(self.records, np.int64)
        for records, sides in self.side_of_record:
            self.side_of[records] = sides

    def _add_level(self, width: int) -> None:
        chart, rows = self.chart, 2 * self.chart.nonterminals + 1
        here = self.waiting[0] == width
        (_, spans, rules, numbers), arrived = self.waiting[:, here], self.outside[here]
        self.waiting, self.outside = self.waiting[:, ~here], self.outside[~here]
        keys, inverse = np.unique(spans * rows + rules, return_inverse=True)
        outside, _ = segment_best(arrived, inverse, len(keys))
        self.side_of_record.append((numbers, self.sides + inverse))
        spans, rules = np.divmod(keys, rows)
        b, i = np.divmod(spans, chart.n + 1)
        sides, symbols, probabilities = self._children(width, b, i, rules, outside)
        logs = np.log(probabilities, dtype=np.float64)
        columns = chart.words.shape[-1] if width == 1 else chart.nonterminals
        nodes, which = np.unique(spans[sides] * columns + symbols, return_inverse=True)
        bounds, _ = segment_best(outside[sides] + logs * (POWER / LOG_2), which, len(nodes))
        spans, symbols = np.divmod(nodes, columns)
        level = Level(width, (b, i, rules), self.sides, sides, which, logs, (*np.divmod(spans, chart.n + 1), symbols))
        self.sides += len(keys)
        self.levels[width] = level
        if width > 1:
            self._add_splits(level, bounds)

    def _children(
        self, width: int, b: Integers, i: Integers, rules: Integers, outside: Floats
    ) -> tuple[Integers, Integers, Floats]:
        """Find the children of sides that reach the threshold: numbers of sides, symbols, probabilities of rules."""
        self._check_room(len(b) * self.chart.nonterminals)
        parts = []
        for start in range(0, len(b), SIDES_AT_ONCE):
            some = slice(start, start + SIDES_AT_ONCE)
            probabilities = self.chart.rule_rows(width, b[some], rules[some])
            inside, exponents = self.chart.inside(width, b[some], i[some])
            # Differences beyond the range of float64 are clear without their size.
            least = np.exp2((self.thresholds[b[some]] - outside[some] - exponents).clip(-1000, 1000)) * (1 - 1e-6)
            if least.min() < LEAST_FLOAT32:
                probabilities = probabilities.astype(np.float64)
            reaching = np.flatnonzero(raised(probabilities) * inside >= least[:, None])
            side, symbol = np.divmod(reaching, probabilities.shape[1])
            parts.append((start + side, symbol, probabilities.ravel()[reaching]))
        sides, symbols, chosen = zip(*parts, strict=True) if parts else ([b], [b], [outside])
        return np.concatenate(sides), np.concatenate(symbols), np.concatenate(chosen)

    def _add_splits(self, level: Level, bounds: Floats) -> None:
        chart, width = self.chart, level.width
        b, i, symbols = level.nodes
        self._check_room(len(b) * width)
        if chart.given.span_bonus is not None:
            bounds = bounds + chart.bonus_of(b, i, i + width) * (POWER / LOG_2)
        start, end = i[:, None], i[:, None] + width
        left, right = chart.log2_sides(b[:, None], start, start + np.arange(1, width), end, symbols[:, None])
        nodes, places = (bounds[:, None] + left + right >= self.thresholds[b, None]).nonzero()
        left, right, bounds = left[nodes, places], right[nodes, places], bounds[nodes]
        spans, symbols, places = b[nodes] * (chart.n + 1) + i[nodes], symbols[nodes], places + 1
        level.splits, level.places, level.first_record = nodes, places, self.records
        numbers = self.records + np.arange(2 * len(nodes))
        children = np.stack(
            [
                np.concatenate([places, width - places]),
                np.concatenate([spans, spans + places]),
                np.concatenate([symbols, chart.nonterminals + symbols]),
                numbers,
            ]
        )
        self.waiting = np.concatenate([self.waiting, children], 1)
        self.outside = np.concatenate([self.outside, bounds + right, bounds + left])
        self.records += len(numbers)

    def _check_room(self, numbers: int) -> None:
        if numbers > MOST_NUMBERS:
            raise TooManyNodesError

    def maximise(self) -> Floats:
        """Run the Viterbi recursion over the forest; return the best log-probability of each sentence, [B]."""
        chart = self.chart
        self.side_values = np.full(self.sides + 1, -math.inf)
        self.side_nodes = np.zeros(self.sides + 1, np.int64)
        for width, level in sorted(self.levels.items()):
            b, i, symbols = level.nodes
            if width == 1:
                level.values = values = chart.emissions[b, i, symbols].astype(np.float64)
            else:
                left, right = self._sides_of_splits(level)
                sums = self.side_values[left] + self.side_values[right]
                values, level.best_splits = segment_best(sums, level.splits, len(b))
                if chart.given.span_bonus is not None:
                    values += chart.bonus_of(b, i, i + width)
                level.values = values
            here = slice(level.first_side, level.first_side + len(level.sides[0]))
            values = level.child_rules + values[level.child_nodes]
            self.side_values[here], which = segment_best(values, level.child_sides, here.stop - here.start)
            self.side_nodes[here] = np.append(level.child_nodes, 0)[which]
        tops = self.side_values[self.side_of[: chart.batch]]
        return np.where(np.isfinite(self.thresholds), tops, -math.inf)

    def _sides_of_splits(self, level: Level) -> tuple[Integers, Integers]:
        count = len(level.splits)
        sides = self.side_of[level.first_record : level.first_record + 2 * count]
        return sides[:count], sides[count:]

    def trees(self, sentences: list[int], best: Floats) -> list[LabelledTree]:
        """Return the best trees of some sentences that have one."""
        lists: dict[int, tuple[list[int], ...]] = {}
        for width, level in self.levels.items():
            symbols = level.nodes[2].tolist()
            if level.best_splits is None:
                lists[width] = (symbols,)
                continue
            # A node without a split, which no tree has, is given a child that does not exist.
            children = (
                np.append(self.side_nodes[sides], 0)[level.best_splits] for sides in self._sides_of_splits(level)
            )
            places = np.append(level.places, 0)[level.best_splits]
            lists[width] = (symbols, places.tolist(), *(nodes.tolist() for nodes in children))
        tops = self.side_nodes[self.side_of[: self.chart.batch]].tolist()
        return [_tree(lists, int(self.chart.every_length[b]), tops[b], float(best[b])) for b in sentences]


def _tree(lists: dict[int, tuple[list[int], ...]], length: int, top: int, value: float) -> LabelledTree:
    """Return the tree below the node ``top`` over all words, given symbols, places and children of nodes by width."""
    tree = LabelledTree([], [], [-1] * length, value)
    waiting = [(0, length, top)]
    while waiting:
        i, width, node = waiting.pop()
        symbols, *rest = lists[width]
        if width == 1:
            tree.tags[i] = symbols[node]
            continue
        tree.spans.append((i, i + width))
        tree.labels.append(symbols[node])
        places, left, right = rest
        waiting.append((i + places[node], width - places[node], right[node]))
        waiting.append((i, places[node], left[node]))
    return tree


class TooManyNodesError(Exception):
    """Too many nodes reach the threshold for a search over them to pay."""


class PrunedSearch:
    """Forests of lower and lower thresholds, until each sentence has what its search asks for."""

    def __init__(self, arguments: InsideArguments) -> None:
        self.chart = chart = BoundChart(arguments)
        self.bounds = chart.fill().double().numpy() / POWER + chart.log_best.numpy()  # [B], above every derivation
        self.open = (chart.every_length > 1) & np.isfinite(self.bounds)  # [B]: sentences that are searched for
        self.slack = GUESS * chart.every_length
        self.thresholds = self.bounds - self.slack

    def forests(self) -> Iterator[Forest]:
        """Yield the forest of the present thresholds, until ``close`` has closed all sentences or it is too large."""
        for _ in range(ROUNDS):
            if not self.open.any():
                return
            try:
                yield Forest(self.chart, np.where(self.open, self.thresholds, math.inf))
            except TooManyNodesError:
                return

    def close(self, values: Floats) -> list[int]:
        """Close the sentences whose derivation of this log-probability [B] reaches the threshold; return which.

        For the others such a derivation is a bound from below, with which the next search is the last one.
        """
        done = self.open & (values >= self.thresholds)
        self.open = self.open & ~done
        self.slack = 2 * self.slack
        self.thresholds = np.where(values > -math.inf, values, self.bounds - self.slack)
        return [int(b) for b in np.flatnonzero(done)]


def pruned_best_trees(arguments: InsideArguments) -> list[LabelledTree | None]:
    """Find the most probable tree of each sentence; None where there is none, or too many nodes may belong to it."""
    trees: list[LabelledTree | None] = [None] * arguments.sizes[0]
    with torch.inference_mode():
        for indices, some in by_length(arguments):
            search = PrunedSearch(some)
            for forest in search.forests():
                best = forest.maximise()
                chosen = search.close(best)
                for b, tree in zip(chosen, forest.trees(chosen, best), strict=True):
                    trees[indices[b]] = tree
    return trees


def segment_best(values: Floats, segments: Integers, count: int) -> tuple[Floats, Integers]:
    """Return the maximum of each segment, −inf for an empty one, and the first index at which it stands: [count]."""
    best = np.full(count, -math.inf)
    np.maximum.at(best, segments, values)
    first = np.full(count, len(values))
    where = np.flatnonzero(values == best[segments])[::-1]  # of several assignments to one place the last one stays
    first[segments[where]] = where
    return best, first
