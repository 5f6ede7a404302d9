"""The exact Viterbi algorithm over the few nodes whose upper bounds reach a threshold. README.md derives it.

Top-down, the outside of a node is maximised over its ancestors, while a ``BoundChart`` bounds the siblings of these.
Nodes, splits and sides below the threshold are dropped. Bottom-up, the Viterbi recursion runs in float64 over what is
left. A tree that reaches the threshold is the best one, as no better one has lost a node.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from simplepcfg.ops.arguments import InsideArguments
from simplepcfg.ops.trees import LabelledTree
from simplepcfg.ops.viterbi.bounds import POWER, BoundChart

LOG_2 = math.log(2)
# The first threshold is below the bound of the sentence by so many nats for each word; further ones by twice as many.
GUESS = 0.1
ROUNDS = 6
# So many numbers of one width may be held at a time; grammars that need more are left to the chart of all nodes.
MOST_NUMBERS = 1 << 25


@dataclass(slots=True)
class Level:
    """What is left of the spans of one width: spans, nodes over them, splits of nodes, and sides of parents.

    A side (span, r) is a span as the child of a parent symbol, where r is a row of [L | R]: r < N on the left.
    """

    width: int
    b: Tensor  # [spans]
    i: Tensor
    sides: Tensor  # [sides]: number of the span, in increasing order
    side_rules: Tensor  # [sides]: r
    first_side: int  # number of the first side among those of all levels
    nodes: Tensor  # [nodes]: number of the span, in increasing order
    symbols: Tensor  # [nodes], increasing within a span
    splits: Tensor  # [splits]: number of the node, in increasing order
    places: Tensor  # [splits]: the width of the left child, increasing within a node
    first_record: int  # number of the left child of the first split; right children follow all left ones
    # Results of the recursion:
    values: Tensor | None = None  # [nodes]
    best_splits: Tensor | None = None  # [nodes]: number of a split


@dataclass(slots=True)
class Records:
    """Children of splits that wait for their width, and the greatest outside bound of each as a side."""

    width: Tensor
    b: Tensor
    i: Tensor
    rule: Tensor
    outside: Tensor
    number: Tensor

    def chosen(self, which: Tensor) -> Records:
        return Records(*(getattr(self, name)[which] for name in self.__slots__))

    def joined(self, other: Records) -> Records:
        return Records(*(torch.cat([getattr(self, name), getattr(other, name)]) for name in self.__slots__))


class Forest:
    """The nodes of some sentences that may belong to a derivation of at least a given probability."""

    def __init__(self, arguments: InsideArguments, chart: BoundChart, thresholds: Tensor) -> None:
        """Find the nodes; ``thresholds`` [B] are log-probabilities, +inf for sentences to leave out.

        Raises TooManyNodesError where they do not fit into memory.
        """
        self.arguments, self.chart = arguments, chart
        self.thresholds = (POWER * (thresholds - chart.log_best) - chart.rounding()) / LOG_2
        lengths = arguments.lengths
        self.lengths = torch.full((chart.batch,), chart.n) if lengths is None else lengths
        self.levels: dict[int, Level] = {}
        none = torch.zeros(0, dtype=torch.int64)
        self.waiting = Records(none, none, none, none, none.double(), none)
        self.records = 0
        self.side_of_record: list[tuple[Tensor, Tensor]] = []  # numbers of records, numbers of their sides
        self.sides = 0
        for width in range(chart.n, 0, -1):
            self._add_level(width)
        self.side_of = torch.zeros(self.records, dtype=torch.int64)
        for records, sides in self.side_of_record:
            self.side_of[records] = sides

    def _add_level(self, width: int) -> None:
        chart, states = self.chart, self.chart.nonterminals
        here = self.waiting.width == width
        arrived, self.waiting = self.waiting.chosen(here), self.waiting.chosen(~here)
        keys, inverse = ((arrived.b * (chart.n + 1) + arrived.i) * 2 * states + arrived.rule).unique(
            return_inverse=True
        )
        outside, _ = segment_best(arrived.outside, inverse, len(keys))
        side_spans, side_rules = keys.div(2 * states, rounding_mode="floor"), keys % (2 * states)
        spans, sides = side_spans.unique_consecutive(return_inverse=True)
        b, i = spans.div(chart.n + 1, rounding_mode="floor"), spans % (chart.n + 1)
        self.side_of_record.append((arrived.number, self.sides + inverse))
        tops = ((self.lengths == width) & self.thresholds.isfinite()).nonzero()[:, 0]
        if width > 1 and len(tops):
            b, i = torch.cat([b, tops]), torch.cat([i, torch.zeros_like(tops)])
        greatest, _ = segment_best(outside, sides, len(b))
        greatest[len(spans) :] = 0.0
        self._check_room(len(b) * states)
        nodes, symbols, inside = chart.log2_nodes(width, b, i, self.thresholds[b] - greatest)
        bounds = self._outside(width, b, sides, side_rules, outside, nodes, symbols)
        top = nodes >= len(spans)
        bounds[top] = _of(chart.arguments.root, 1, b[nodes[top]], symbols[top]).double().log2()
        reaches = bounds + inside >= self.thresholds[b[nodes]]
        nodes, symbols, bounds = nodes[reaches], symbols[reaches], bounds[reaches]
        none = nodes[:0]
        level = Level(width, b, i, sides, side_rules, self.sides, nodes, symbols, none, none, self.records)
        self.sides += len(sides)
        self.levels[width] = level
        if width > 1:
            self._add_splits(level, bounds)

    def _outside(
        self, width: int, b: Tensor, sides: Tensor, rules: Tensor, outside: Tensor, nodes: Tensor, symbols: Tensor
    ) -> Tensor:
        """Compute the greatest bound of the outside of some nodes, given those of the sides of their spans: [nodes]."""
        node, side = pairs(nodes, sides, len(b))
        self._check_room(len(node))
        bounds = self._rules(width, b[nodes[node]], rules[side], symbols[node]).log2_().mul_(POWER).add_(outside[side])
        return segment_best(bounds, node, len(nodes))[0]

    def _rules(self, width: int, b: Tensor, rules: Tensor, symbols: Tensor) -> Tensor:
        """Return the probabilities of rules, given rows of [L | R] and children over spans of this width: float64."""
        arguments, states = self.arguments, self.chart.nonterminals
        column = symbols + (states if width == 1 else 0)
        # Of L and of R, of which the others are read in vain.
        left, right = (_of(table, 2, b, rules % states, column) for table in (arguments.left, arguments.right))
        return torch.where(rules < states, left, right).double()

    def _add_splits(self, level: Level, bounds: Tensor) -> None:
        chart, width = self.chart, level.width
        self._check_room(len(level.nodes) * width)
        b, i = level.b[level.nodes], level.i[level.nodes]
        if self.arguments.span_bonus is not None:
            bounds = bounds + self.arguments.span_bonus[b, i, i + width].double() * (POWER / LOG_2)
        k = torch.arange(1, width)
        left, right = chart.log2_sides(
            b[:, None], i[:, None], i[:, None] + k, i[:, None] + width, level.symbols[:, None]
        )
        nodes, places = (bounds[:, None] + left + right >= self.thresholds[b, None]).nonzero().unbind(1)
        left, right, bounds = left[nodes, places], right[nodes, places], bounds[nodes]
        b, i, symbols, places = b[nodes], i[nodes], level.symbols[nodes], places + 1
        level.splits, level.places = nodes, places
        count = len(nodes)
        self.waiting = self.waiting.joined(
            Records(
                torch.cat([places, width - places]),
                torch.cat([b, b]),
                torch.cat([i, i + places]),
                torch.cat([symbols, chart.nonterminals + symbols]),
                torch.cat([bounds + right, bounds + left]),
                self.records + torch.arange(2 * count),
            )
        )
        self.records += 2 * count

    def _check_room(self, numbers: int) -> None:
        if numbers > MOST_NUMBERS:
            raise TooManyNodesError

    def maximise(self) -> Tensor:
        """Run the Viterbi recursion over the forest; return the best log-probability of each sentence, [B] float64."""
        arguments = self.arguments
        self.side_values = torch.full((self.sides,), -math.inf, dtype=torch.float64)
        self.side_nodes = torch.zeros(self.sides, dtype=torch.int64)
        best = torch.full((self.chart.batch,), -math.inf, dtype=torch.float64)
        self.tops = torch.zeros(self.chart.batch, dtype=torch.int64)
        for width, level in sorted(self.levels.items()):
            b, i = level.b[level.nodes], level.i[level.nodes]
            if width == 1:
                level.values = arguments.log_emissions[b, i, level.symbols].double()
            else:
                left = self.side_of[level.first_record + torch.arange(len(level.splits))]
                right = self.side_of[level.first_record + len(level.splits) + torch.arange(len(level.splits))]
                values = self.side_values[left] + self.side_values[right]
                level.values, level.best_splits = segment_best(values, level.splits, len(level.nodes))
                if arguments.span_bonus is not None:
                    level.values = level.values + arguments.span_bonus[b, i, i + width].double()
                whole = (self.lengths[b] == width).nonzero()[:, 0]
                if len(whole):
                    root = _of(arguments.root, 1, b[whole], level.symbols[whole]).double().log()
                    values, which = segment_best(level.values[whole] + root, b[whole], len(best))
                    hit = values > -math.inf
                    best[hit], self.tops[hit] = values[hit], whole[which[hit]]
            side, nodes = pairs(level.sides, level.nodes, len(level.b))
            values = self._rules(width, b[nodes], level.side_rules[side], level.symbols[nodes]).log_()
            values += level.values[nodes]
            greatest, which = segment_best(values, side, len(level.sides))
            here = slice(level.first_side, level.first_side + len(level.sides))
            self.side_values[here] = greatest
            if len(nodes):
                self.side_nodes[here] = nodes[which.clamp(max=len(nodes) - 1)]
        return best

    def trees(self, sentences: list[int], best: Tensor) -> list[LabelledTree]:
        """Return the best trees of some sentences that have one."""
        self.lists: dict[int, tuple[list[int], ...]] = {}
        for width, level in self.levels.items():
            if width > 1:
                assert level.best_splits is not None
                which = level.best_splits.clamp(max=max(len(level.splits) - 1, 0))
                places = level.places[which] if len(level.splits) else which
                sides = [
                    self.side_nodes[self.side_of[level.first_record + first + which]].tolist()
                    if len(level.splits)
                    else []
                    for first in (0, len(level.splits))
                ]
                self.lists[width] = (level.symbols.tolist(), places.tolist(), *sides)
            else:
                self.lists[width] = (level.symbols.tolist(),)
        return [self._tree(int(self.lengths[b]), int(self.tops[b]), float(best[b])) for b in sentences]

    def _tree(self, length: int, top: int, value: float) -> LabelledTree:
        tree = LabelledTree([], [], [-1] * length, value)
        waiting = [(0, length, top)]
        while waiting:
            i, width, node = waiting.pop()
            symbols, *rest = self.lists[width]
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
        batch, n, _, _ = arguments.sizes
        lengths = torch.full((batch,), n) if arguments.lengths is None else arguments.lengths
        self.arguments = arguments
        self.chart = BoundChart(arguments)
        self.bounds = self.chart.fill().double() / POWER + self.chart.log_best  # [B], above every derivation
        self.open = (lengths > 1) & self.bounds.isfinite()  # [B]: sentences that are searched for
        self.slack = GUESS * lengths.double()
        self.thresholds = self.bounds - self.slack

    def forests(self) -> Iterator[Forest]:
        """Yield the forest of the present thresholds, until ``close`` has closed all sentences or it is too large."""
        for _ in range(ROUNDS):
            if not bool(self.open.any()):
                return
            try:
                yield Forest(self.arguments, self.chart, self.thresholds.masked_fill(~self.open, math.inf))
            except TooManyNodesError:
                return

    def close(self, values: Tensor) -> list[int]:
        """Close the sentences whose derivation of this log-probability [B] reaches the threshold; return which.

        For the others such a derivation is a bound from below, with which the next search is the last one.
        """
        done = self.open & (values >= self.thresholds)
        self.open = self.open & ~done
        self.slack = 2 * self.slack
        self.thresholds = torch.where(values > -math.inf, values, self.bounds - self.slack)
        return done.nonzero()[:, 0].tolist()


def pruned_best_trees(arguments: InsideArguments) -> list[LabelledTree | None]:
    """Find the most probable tree of each sentence; None where there is none, or too many nodes may belong to it."""
    with torch.inference_mode():
        search = PrunedSearch(arguments)
        trees: list[LabelledTree | None] = [None] * search.chart.batch
        for forest in search.forests():
            best = forest.maximise()
            chosen = search.close(best)
            for b, tree in zip(chosen, forest.trees(chosen, best), strict=True):
                trees[b] = tree
    return trees


def segment_best(values: Tensor, segments: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return the maximum of each segment, −inf for an empty one, and the first index at which it stands: [count]."""
    best = values.new_full((count,), -math.inf).scatter_reduce_(0, segments, values, "amax")
    where = (values == best[segments]).nonzero()[:, 0]
    first = torch.full((count,), len(values), dtype=torch.int64)
    return best, first.scatter_reduce_(0, segments[where], where, "amin")


def pairs(ones: Tensor, others: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return the numbers of each of ``ones`` with each of ``others`` of the same span, in order: [pairs] each.

    Both are the numbers of their spans, below ``count``, in increasing order.
    """
    counts = torch.bincount(others, minlength=count)
    each = counts[ones]
    one = torch.repeat_interleave(torch.arange(len(ones)), each)
    first = (counts.cumsum(0) - counts)[ones] - (each.cumsum(0) - each)
    return one, first[one] + torch.arange(len(one))


def _of(table: Tensor, dims: int, b: Tensor, *index: Tensor) -> Tensor:
    """Index a table of ``dims`` dimensions, which may have a batch dimension in front of them."""
    return table[(b, *index)] if table.dim() > dims else table[index]
