"""The k best labelled trees of each sentence: a lazy search over the Viterbi chart, see README.md.

Three kinds of sorted lists, each made longer only when its next item is asked for:

    Node(i, j, A)   trees over the span with A on top: over all splits, pairs of an item of Left and one of Right
    Side(i, j, r)   what stands below one side of a parent: r is a row of [L | R], an item a child symbol with its tree
    words           the same for a span of one word: preterminals sorted by rule and emission
"""

import math
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from heapq import heapify, heappop, heappush

import torch
from torch import Tensor

from simplepcfg.errors import InputError
from simplepcfg.ops.backends import default_backend
from simplepcfg.ops.inside.arguments import check_arguments
from simplepcfg.ops.trees import LabelledTree
from simplepcfg.ops.viterbi import viterbi_chart
from simplepcfg.ops.viterbi.chart import ViterbiChart


def k_best(
    log_emissions: Tensor,
    root: Tensor,
    left: Tensor,
    right: Tensor,
    k: int,
    *,
    lengths: Tensor | None = None,
    span_bonus: Tensor | None = None,
    backend: str = "auto",
) -> list[list[LabelledTree]]:
    """For each sentence its k most probable trees with symbols, best first; all of them where there are fewer.

    Arguments as for ``viterbi``; always computed in float64, in which no two sums are confused for want of digits.
    Ties go to the smaller split, then to smaller symbols. No list is padded: a sentence without a tree has none.
    """
    if k < 1:
        raise InputError(f"k = {k}; ask for at least one tree")
    log_emissions = log_emissions.detach().double()
    arguments = check_arguments(log_emissions, root.detach(), left.detach(), right.detach(), lengths, span_bonus, None)
    batch, n, _, _ = arguments.sizes
    if n == 1:
        return [[] for _ in range(batch)]
    with torch.no_grad(), deep_recursion(8 * n):
        chart = viterbi_chart(arguments, default_backend(log_emissions) if backend == "auto" else backend)
        best = chart.fill().tolist()
        found: list[list[LabelledTree]] = [[] for _ in range(batch)]
        for place, sentence in enumerate(chart.plan.sentences):
            if best[place] > -math.inf:
                trees = _Search(chart, place).trees(k)
                found[sentence] = sorted(trees, key=lambda tree: -tree.log_probability)  # mends the last digit
    return found


class Side:
    """The children on one side of a parent over one span, best first: (score, symbol, rank of its tree)."""

    def __init__(self, search: "_Search", i: int, j: int, rule: int) -> None:
        self.search, self.i, self.j = search, i, j
        self.scores, self.symbols = search.sorted_children(i, j, rule)
        self.following = 0  # in the sorted symbols, of which only the best tree has been looked at so far
        self.waiting: list[tuple[float, int, int]] = []  # (-score, symbol, rank): later trees of symbols used before
        self.base: dict[int, float] = {}
        self.items: list[tuple[float, int, int]] = []

    def item(self, rank: int) -> tuple[float, int, int] | None:
        """The rank-th child, or None where there are fewer."""
        while len(self.items) <= rank:
            if not self._next():
                return None
        return self.items[rank]

    def _next(self) -> bool:
        if self.items and self.j - self.i > 1:
            # The item given last has a successor: the same symbol with its next best tree.
            _, symbol, rank = self.items[-1]
            tree = self.search.node(self.i, self.j, symbol)
            later = tree.item(rank + 1)
            if later is not None:
                heappush(self.waiting, (-(self.base[symbol] + later[0]), symbol, rank + 1))
        fresh = self.following < len(self.symbols)
        if fresh and (not self.waiting or self._first() <= self.waiting[0]):
            score, symbol = self.scores[self.following], self.symbols[self.following]
            self.following += 1
            if self.j - self.i > 1:
                self.base[symbol] = score - self.search.best(self.i, self.j, symbol)
            self.items.append((score, symbol, 0))
            return True
        if not self.waiting:
            return False
        score, symbol, rank = heappop(self.waiting)
        self.items.append((-score, symbol, rank))
        return True

    def _first(self) -> tuple[float, int, int]:
        return -self.scores[self.following], self.symbols[self.following], 0


class Node:
    """Trees over a span with one symbol on top, best first: (score, split, rank on the left, rank on the right)."""

    def __init__(self, search: "_Search", i: int, j: int, symbol: int) -> None:
        self.search, self.i, self.j, self.symbol = search, i, j, symbol
        scores, self.bonus = search.split_scores(i, j, symbol)
        self.waiting = [(-score, i + 1 + index, 0, 0) for index, score in enumerate(scores) if score > -math.inf]
        heapify(self.waiting)
        self.seen: set[tuple[int, int, int]] = set()
        self.items: list[tuple[float, int, int, int]] = []

    def item(self, rank: int) -> tuple[float, int, int, int] | None:
        """The rank-th tree, or None where there are fewer."""
        while len(self.items) <= rank:
            if self.items:
                self._expand(*self.items[-1][1:])
            if not self.waiting:
                return None
            score, split, left, right = heappop(self.waiting)
            self.items.append((-score, split, left, right))
        return self.items[rank]

    def sides(self, split: int) -> tuple[Side, Side]:
        """Of a split."""
        search = self.search
        left = search.side(self.i, split, self.symbol)
        return left, search.side(split, self.j, search.states + self.symbol)

    def _expand(self, split: int, left: int, right: int) -> None:
        """The two neighbours of a pair, each the next best on one side, unless known already."""
        before, after = self.sides(split)
        for a, b in ((left + 1, right), (left, right + 1)):
            if (split, a, b) in self.seen:
                continue
            self.seen.add((split, a, b))
            first, second = before.item(a), after.item(b)
            if first is not None and second is not None:
                heappush(self.waiting, (-(first[0] + second[0] + self.bonus), split, a, b))


class _Search:
    """The lists of one sentence, made on demand; vectors come from the chart, wherever it lies."""

    def __init__(self, chart: ViterbiChart, place: int) -> None:
        self.chart, self.place, self.states = chart, place, chart.states
        self.before = sum(chart.plan.lengths[:place])
        self.length = chart.plan.lengths[place]
        self.nodes: dict[tuple[int, int, int], Node] = {}
        self.lists: dict[tuple[int, int, int], Side] = {}
        self.known: dict[tuple[int, int], Tensor] = {}  # log β* of spans on the host

    def row(self, i: int, j: int) -> int:
        """Of a span in the chart."""
        return self.chart.plan.first[j - i] + self.before - self.place * (j - i - 1) + i

    def best(self, i: int, j: int, symbol: int) -> float:
        """log β* of a span and symbol."""
        if (i, j) not in self.known:
            self.known[i, j] = self.chart.best[self.row(i, j)].cpu()
        return float(self.known[i, j][symbol])

    def node(self, i: int, j: int, symbol: int) -> Node:
        """The list of trees over a span with this symbol."""
        key = (i, j, symbol)
        if key not in self.nodes:
            self.nodes[key] = Node(self, *key)
        return self.nodes[key]

    def side(self, i: int, j: int, rule: int) -> Side:
        """The list of children over a span on one side of a parent."""
        key = (i, j, rule)
        if key not in self.lists:
            self.lists[key] = Side(self, *key)
        return self.lists[key]

    def sorted_children(self, i: int, j: int, rule: int) -> tuple[list[float], list[int]]:
        """Scores and symbols of all possible children, best first."""
        values = self.chart.best[self.row(i, j)] if j - i > 1 else self.chart.emit[self.row(i, j)]
        return _falling(values + self.chart.rule_row(self.place, rule, j - i > 1))

    def split_scores(self, i: int, j: int, symbol: int) -> tuple[list[float], float]:
        """The best tree of each split, and the span's bonus, which they contain."""
        chart = self.chart
        before = [self.row(i, k) for k in range(i + 1, j)]
        after = [self.row(k, j) for k in range(i + 1, j)]
        bonus = 0.0 if chart.bonus is None else float(chart.bonus[self.row(i, j) - chart.plan.words])
        scores = chart.children[before, symbol] + chart.children[after, self.states + symbol] + bonus
        return scores.tolist(), bonus

    def trees(self, k: int) -> Iterator[LabelledTree]:
        """The best k, from lists of the roots' trees that are merged as those of children are."""
        scores, symbols = _falling(self.chart.top[self.place])
        waiting = [(-score, symbol, 0) for score, symbol in zip(scores, symbols, strict=True)][:k]
        heapify(waiting)
        for _ in range(k):
            if not waiting:
                return
            score, symbol, rank = heappop(waiting)
            yield self._tree(-score, symbol, rank)
            node = self.node(0, self.length, symbol)
            later, first = node.item(rank + 1), node.item(0)
            if later is not None and first is not None:
                share = float(self.chart.top[self.place, symbol]) - first[0]
                heappush(waiting, (-(share + later[0]), symbol, rank + 1))

    def _tree(self, score: float, symbol: int, rank: int) -> LabelledTree:
        tree = LabelledTree([], [], [-1] * self.length, score)
        waiting = [(0, self.length, symbol, rank)]
        while waiting:
            i, j, symbol, rank = waiting.pop()
            if j - i == 1:
                tree.tags[i] = symbol
                continue
            tree.spans.append((i, j))
            tree.labels.append(symbol)
            node = self.node(i, j, symbol)
            item = node.item(rank)
            assert item is not None
            _, split, *ranks = item
            sides = zip(node.sides(split), ranks, ((i, split), (split, j)), strict=True)
            children = [(span, side.item(place)) for side, place, span in sides]
            for span, child in reversed(children):
                assert child is not None
                waiting.append((*span, child[1], child[2]))
        return tree


def _falling(scores: Tensor) -> tuple[list[float], list[int]]:
    """Sorted from the top, equal ones by index, without what is impossible."""
    values, order = scores.sort(descending=True, stable=True)
    count = int((values > -math.inf).sum())
    return values[:count].tolist(), order[:count].tolist()


@contextmanager
def deep_recursion(frames: int) -> Iterator[None]:
    """A list's next item may ask for one of each list below it, down the whole tree."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(before + frames)
    try:
        yield
    finally:
        sys.setrecursionlimit(before)
