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
GUESS = 0.06
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
    # Of the recursion:
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
        bounds = self._outside(width, b[sides], sides, side_rules, outside, len(spans))
        tops = ((self.lengths == width) & self.thresholds.isfinite()).nonzero()[:, 0]
        if width > 1 and len(tops):
            b, i = torch.cat([b, tops]), torch.cat([i, torch.zeros_like(tops)])
            bounds = torch.cat([bounds, chart.arguments.root.double().log2().expand(chart.batch, -1)[tops]])
        self._check_room(len(b) * states)
        inside = chart.log2_words(b, i) if width == 1 else chart.log2_beta(width, b, i)
        nodes, symbols = (bounds + inside >= self.thresholds[b, None]).nonzero().unbind(1)
        none = nodes[:0]
        level = Level(width, b, i, sides, side_rules, self.sides, nodes, symbols, none, none, self.records)
        self.sides += len(sides)
        self.levels[width] = level
        if width > 1:
            self._add_splits(level, bounds[nodes, symbols])

    def _outside(self, width: int, b: Tensor, sides: Tensor, rules: Tensor, outside: Tensor, spans: int) -> Tensor:
        """Compute the greatest bound of the outside of every symbol of spans, given those of their sides."""
        arguments, states = self.arguments, self.chart.nonterminals
        columns = slice(states, None) if width == 1 else slice(0, states)
        self._check_room(len(rules) * arguments.left.shape[-1])
        rows = torch.empty(len(rules), arguments.left[..., columns].shape[-1], dtype=torch.float64)
        for first, table in ((0, arguments.left), (states, arguments.right)):
            side = ((rules >= first) & (rules < first + states)).nonzero()[:, 0]
            rows[side] = _of(table[..., columns], 2, b[side], rules[side] - first).double()
        rows = rows.log2_().mul_(POWER).add_(outside[:, None])
        greatest = rows.new_full((spans, rows.shape[-1]), -math.inf)
        return greatest.scatter_reduce_(0, sides[:, None].expand_as(rows), rows, "amax")

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
        arguments, states = self.arguments, self.chart.nonterminals
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
            # Every side with every node over its span: the nodes of a span are contiguous.
            counts = torch.bincount(level.nodes, minlength=len(level.b))
            each = counts[level.sides]
            sides = torch.repeat_interleave(torch.arange(len(each)), each)
            offset = torch.arange(len(sides)) - (each.cumsum(0) - each)[sides]
            nodes = (counts.cumsum(0) - counts)[level.sides][sides] + offset
            column = level.symbols[nodes] + (states if width == 1 else 0)
            rule = level.side_rules[sides]
            # Rows of L and of R, of which the others are read in vain.
            left, right = (
                _of(rules, 2, b[nodes], rule % states, column) for rules in (arguments.left, arguments.right)
            )
            values = torch.where(rule < states, left, right).double().log() + level.values[nodes]
            greatest, which = segment_best(values, sides, len(each))
            here = slice(level.first_side, level.first_side + len(each))
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


def _of(table: Tensor, dims: int, b: Tensor, *index: Tensor) -> Tensor:
    """Index a table of ``dims`` dimensions, which may have a batch dimension in front of them."""
    return table[(b, *index)] if table.dim() > dims else table[index]
