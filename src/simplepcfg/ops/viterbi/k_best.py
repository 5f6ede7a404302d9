"""The k most probable labelled trees of each sentence, by a lazy search over the Viterbi chart. See README.md.

There are two kinds of sorted lists, which are extended only when their next item is needed:

    Node(i, j, A)   trees over the span (i, j) with root A. An item is a split with one item of each Side.
    Side(i, j, r)   subtrees over (i, j) on one side of a parent, where r is a row of [L | R]. An item is a child symbol
                    with one of its trees; over a single word it is a preterminal.
"""

import math
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from heapq import heapify, heappop, heappush

import numpy as np
import torch
from torch import Tensor

from simplepcfg.errors import InputError
from simplepcfg.ops.arguments import InsideArguments, Sentences, SimpleRules, check_arguments, some_sentences
from simplepcfg.ops.trees import LabelledTree
from simplepcfg.ops.viterbi import tree_backend, viterbi_chart
from simplepcfg.ops.viterbi.chart import ViterbiChart
from simplepcfg.ops.viterbi.forest_chart import ForestChart
from simplepcfg.ops.viterbi.pruned import PrunedSearch


def k_best(rules: SimpleRules, sentences: Sentences, k: int, *, backend: str = "auto") -> list[list[LabelledTree]]:
    """Find the k most probable labelled trees of each sentence.

    Args:
        k: the number of trees, at least 1.

    The other arguments are those of ``viterbi``. The computation is in float64.

    Returns:
        For each sentence a list of up to k trees, the most probable first. It is shorter if the sentence has fewer
        trees. Equally probable trees are ordered by their splits, then by their symbols.

    Raises:
        InputError: if k is less than 1, or as ``inside`` does.
    """
    if k < 1:
        raise InputError(f"k = {k}; ask for at least one tree")
    log_emissions = sentences.log_emissions.detach().double()
    arguments = check_arguments(rules.detach(), replace(sentences, log_emissions=log_emissions))
    batch, n, _, _ = arguments.sizes
    if n == 1:
        return [[] for _ in range(batch)]
    backend = tree_backend(backend, arguments)
    trees: list[list[LabelledTree] | None] = [None] * batch
    with torch.no_grad(), raised_recursion_limit(8 * n):
        if backend == "pruned":
            trees = _pruned_k_best(arguments, k)
            backend = "torch"
        left_over = [b for b, some in enumerate(trees) if some is None]
        if left_over:
            part = arguments if len(left_over) == batch else some_sentences(arguments, torch.tensor(left_over))
            for b, rest in zip(left_over, _k_best_of_chart(viterbi_chart(part, backend), k), strict=True):
                trees[b] = rest
    return [some or [] for some in trees]


def _k_best_of_chart(chart: ViterbiChart, k: int, chosen: Sequence[bool] | None = None) -> list[list[LabelledTree]]:
    """Fill a chart; return up to k trees of each sentence, or of the chosen ones."""
    best = chart.fill().tolist()
    lists: list[list[LabelledTree]] = [[] for _ in range(chart.batch)]
    for place, sentence in enumerate(chart.layout.sentences):
        if best[place] > -math.inf and (chosen is None or chosen[sentence]):
            trees = _Search(chart, place).trees(k)
            # Scores of the search may differ in the last digit.
            lists[sentence] = sorted(trees, key=lambda tree: -tree.log_probability)
    return lists


def _pruned_k_best(arguments: InsideArguments, k: int) -> list[list[LabelledTree] | None]:
    """Find the k best trees among the nodes that matter; None where these are too many, or there may be fewer trees."""
    search = PrunedSearch(arguments)
    trees: list[list[LabelledTree] | None] = [None] * search.chart.batch
    for forest in search.forests():
        lists = _k_best_of_chart(ForestChart(arguments, forest), k, search.open.tolist())
        enough = [some[k - 1].log_probability if len(some) >= k else -math.inf for some in lists]
        for b in search.close(np.array(enough)):
            trees[b] = lists[b]
    return trees


class Side:
    """The subtrees on one side of a parent over one span, best first: (score, symbol, rank of its tree)."""

    def __init__(self, search: "_Search", i: int, j: int, rule: int) -> None:
        self.search, self.i, self.j = search, i, j
        self.scores, self.symbols = search.sorted_children(i, j, rule)
        self.following = 0  # index of the next symbol that has not been used yet
        self.waiting: list[
            tuple[float, int, int]
        ] = []  # (-score, symbol, rank): further trees of symbols that were used
        self.base: dict[int, float] = {}
        self.items: list[tuple[float, int, int]] = []

    def item(self, rank: int) -> tuple[float, int, int] | None:
        """Return the rank-th subtree, or None if there are fewer."""
        while len(self.items) <= rank:
            if not self._next():
                return None
        return self.items[rank]

    def _next(self) -> bool:
        if self.items and self.j - self.i > 1:
            # The successor of the last item is the same symbol with its next best tree.
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
    """The trees over a span with one root symbol, best first: (score, split, rank on the left, rank on the right)."""

    def __init__(self, search: "_Search", i: int, j: int, symbol: int) -> None:
        self.search, self.i, self.j, self.symbol = search, i, j, symbol
        scores, self.bonus = search.split_scores(i, j, symbol)
        self.waiting = [(-score, i + 1 + index, 0, 0) for index, score in enumerate(scores) if score > -math.inf]
        heapify(self.waiting)
        self.seen: set[tuple[int, int, int]] = set()
        self.items: list[tuple[float, int, int, int]] = []

    def item(self, rank: int) -> tuple[float, int, int, int] | None:
        """Return the rank-th tree, or None if there are fewer."""
        while len(self.items) <= rank:
            if self.items:
                self._expand(*self.items[-1][1:])
            if not self.waiting:
                return None
            score, split, left, right = heappop(self.waiting)
            self.items.append((-score, split, left, right))
        return self.items[rank]

    def sides(self, split: int) -> tuple[Side, Side]:
        """Return the lists of left and right subtrees of a split."""
        search = self.search
        left = search.side(self.i, split, self.symbol)
        return left, search.side(split, self.j, search.states + self.symbol)

    def _expand(self, split: int, left: int, right: int) -> None:
        """Add the two successors of a pair, the next best on the left and on the right, unless known already."""
        before, after = self.sides(split)
        for a, b in ((left + 1, right), (left, right + 1)):
            if (split, a, b) in self.seen:
                continue
            self.seen.add((split, a, b))
            first, second = before.item(a), after.item(b)
            if first is not None and second is not None:
                heappush(self.waiting, (-(first[0] + second[0] + self.bonus), split, a, b))


class _Search:
    """The lists of one sentence, which are created on demand from the chart."""

    def __init__(self, chart: ViterbiChart, place: int) -> None:
        self.chart, self.place, self.states = chart, place, chart.states
        self.before = sum(chart.layout.lengths[:place])
        self.length = chart.layout.lengths[place]
        self.nodes: dict[tuple[int, int, int], Node] = {}
        self.lists: dict[tuple[int, int, int], Side] = {}
        self.known: dict[tuple[int, int], Tensor] = {}  # log β* of spans on the host

    def row(self, i: int, j: int) -> int:
        """Return the row of a span in the chart."""
        return self.chart.layout.first[j - i] + self.before - self.place * (j - i - 1) + i

    def best(self, i: int, j: int, symbol: int) -> float:
        """Return β* of a span and a symbol."""
        if (i, j) not in self.known:
            self.known[i, j] = self.chart.best[self.row(i, j)].cpu()
        return float(self.known[i, j][symbol])

    def node(self, i: int, j: int, symbol: int) -> Node:
        """Return the list of trees over a span with this root symbol."""
        key = (i, j, symbol)
        if key not in self.nodes:
            self.nodes[key] = Node(self, *key)
        return self.nodes[key]

    def side(self, i: int, j: int, rule: int) -> Side:
        """Return the list of subtrees over a span on one side of a parent."""
        key = (i, j, rule)
        if key not in self.lists:
            self.lists[key] = Side(self, *key)
        return self.lists[key]

    def sorted_children(self, i: int, j: int, rule: int) -> tuple[list[float], list[int]]:
        """Return scores and symbols of all children of positive probability, best first."""
        values = self.chart.best[self.row(i, j)] if j - i > 1 else self.chart.emit[self.row(i, j)]
        return _sort_descending(values + self.chart.rule_row(self.place, rule, j - i > 1))

    def split_scores(self, i: int, j: int, symbol: int) -> tuple[list[float], float]:
        """Return the score of the best tree of each split, and the span's bonus, which the scores include."""
        chart = self.chart
        before = [self.row(i, k) for k in range(i + 1, j)]
        after = [self.row(k, j) for k in range(i + 1, j)]
        bonus = 0.0 if chart.bonus is None else float(chart.bonus[self.row(i, j) - chart.layout.words])
        scores = chart.children[before, symbol] + chart.children[after, self.states + symbol] + bonus
        return scores.tolist(), bonus

    def trees(self, k: int) -> Iterator[LabelledTree]:
        """Yield the k best trees of the sentence, by merging the lists of all root symbols."""
        scores, symbols = _sort_descending(self.chart.top[self.place])
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


def _sort_descending(scores: Tensor) -> tuple[list[float], list[int]]:
    """Return scores above −inf in decreasing order, equal ones by index, and their indices."""
    values, order = scores.sort(descending=True, stable=True)
    count = int((values > -math.inf).sum())
    return values[:count].tolist(), order[:count].tolist()


@contextmanager
def raised_recursion_limit(frames: int) -> Iterator[None]:
    """Raise Python's recursion limit by ``frames``: the next item of a list may need one of each list below it."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(before + frames)
    try:
        yield
    finally:
        sys.setrecursionlimit(before)
