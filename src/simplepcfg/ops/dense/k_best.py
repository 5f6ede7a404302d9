"""The k best labelled trees of each sentence under an ordinary PCFG: a lazy search over the chart of best scores.

The trees of a span and symbol form a sorted list that is made longer only when its next item is asked for. Each is a
rule A → B C at a split with one tree of either child; of a rule the best trees of the children come first, and after
trees a and b its next candidates are (a + 1, b) and (a, b + 1). No list needs more rules than the k best ones.
"""

import math
from collections.abc import Iterator
from heapq import heapify, heappop, heappush

import torch
from torch import Tensor

from simplepcfg.errors import InputError
from simplepcfg.ops.dense.arguments import check_dense_arguments
from simplepcfg.ops.dense.viterbi import BestTrees
from simplepcfg.ops.trees import LabelledTree
from simplepcfg.ops.viterbi.k_best import raised_recursion_limit

# A rule at a split: split, left and right child; symbols of words are counted from N, as in the rules.
Edge = tuple[int, int, int]
# A tree over a span: minus its score, its edge, and the ranks of its children's trees.
Item = tuple[float, Edge, int, int]


def dense_k_best(
    log_emissions: Tensor,
    root: Tensor,
    rules: Tensor,
    k: int,
    *,
    lengths: Tensor | None = None,
    span_bonus: Tensor | None = None,
) -> list[list[LabelledTree]]:
    """Find the k most probable labelled trees of each sentence.

    The other arguments are those of ``dense_inside``. The computation is in float64.

    Returns:
        For each sentence a list of up to k trees, the most probable first. Equally probable trees are ordered by their
        splits, then by their symbols.

    Raises:
        InputError: if k is less than 1, or as ``dense_inside`` does.
    """
    if k < 1:
        raise InputError(f"k = {k}; ask for at least one tree")
    given = (log_emissions.detach().double(), root.detach(), rules.detach())
    arguments = check_dense_arguments(*given, lengths, span_bonus)
    batch, n, _, _ = arguments.sizes
    found: list[list[LabelledTree]] = [[] for _ in range(batch)]
    if n == 1:
        return found
    with torch.no_grad(), raised_recursion_limit(4 * n):
        chart = BestTrees(arguments)
        chart.fill()
        for b, length in enumerate(chart.lengths.tolist()):
            if length > 1:
                trees = _Search(chart, b, length, k).trees()
                found[b] = sorted(
                    trees, key=lambda tree: -tree.log_probability
                )  # scores of the search may differ in the last digit
    return found


class _Node:
    """The trees over a span with one root symbol, best first."""

    def __init__(self, search: "_Search", i: int, j: int, symbol: int) -> None:
        self.search, self.i, self.j = search, i, j
        edges = search.best_edges(i, j, symbol)
        self.waiting: list[Item] = [(-score, edge, 0, 0) for score, edge in edges]  # a sorted list is a heap
        self.base = {edge: score - search.children(i, j, edge, 0, 0) for score, edge in edges}
        self.seen: set[tuple[Edge, int, int]] = set()
        self.items: list[Item] = []

    def item(self, rank: int) -> Item | None:
        """Return the rank-th tree, or None if there are fewer."""
        while len(self.items) <= rank:
            if self.items:
                self._expand(*self.items[-1][1:])
            if not self.waiting:
                return None
            self.items.append(heappop(self.waiting))
        return self.items[rank]

    def _expand(self, edge: Edge, left: int, right: int) -> None:
        """Add the two successors of a pair of trees, the next best on either side, unless known already."""
        for a, b in ((left + 1, right), (left, right + 1)):
            if (edge, a, b) in self.seen:
                continue
            self.seen.add((edge, a, b))
            score = self.search.children(self.i, self.j, edge, a, b)
            if score > -math.inf:
                heappush(self.waiting, (-(self.base[edge] + score), edge, a, b))


class _Search:
    """The lists of one sentence, which are created on demand from the chart."""

    def __init__(self, chart: BestTrees, b: int, length: int, k: int) -> None:
        self.cells, self.states, self.length, self.k = chart.cells[b], chart.states, length, k
        arguments = chart.arguments
        self.rules = chart.rules[b] if arguments.batched_rules else chart.rules
        self.root = (arguments.root[b] if arguments.root.dim() == 2 else arguments.root).log()
        self.bonus = None if arguments.span_bonus is None else arguments.span_bonus[b]
        self.nodes: dict[tuple[int, int, int], _Node] = {}
        self.known: dict[tuple[int, int], list[float]] = {}

    def node(self, i: int, j: int, symbol: int) -> _Node:
        """Return the list of trees over a span with this root symbol."""
        key = (i, j, symbol)
        if key not in self.nodes:
            self.nodes[key] = _Node(self, *key)
        return self.nodes[key]

    def children(self, i: int, j: int, edge: Edge, a: int, b: int) -> float:
        """Return the sum of the scores of the a-th left and the b-th right subtree, or -inf if there are fewer."""
        split, left, right = edge
        return self._score(i, split, left, a) + self._score(split, j, right, b)

    def _score(self, i: int, j: int, symbol: int, rank: int) -> float:
        if rank == 0:
            if (i, j) not in self.known:
                self.known[i, j] = self.cells[i, j].tolist()
            return self.known[i, j][symbol]
        if j - i == 1:
            return -math.inf  # a word has one tree
        item = self.node(i, j, symbol).item(rank)
        return -math.inf if item is None else -item[0]

    def best_edges(self, i: int, j: int, symbol: int) -> list[tuple[float, Edge]]:
        """Return the k best rules of a parent over a span, each with a split and the best trees of its children."""
        n, rules = self.states, self.rules[symbol]
        nonterminals, words = slice(n), slice(n, None)
        if j - i == 2:
            blocks = [(i + 1, words, words)]
        else:
            blocks = [(i + 1, words, nonterminals), (i + 2, nonterminals, nonterminals), (j - 1, nonterminals, words)]
        found: list[tuple[float, Edge]] = []
        for first, before, after in blocks:
            last = j - 2 if (before, after) == (nonterminals, nonterminals) else first
            if last < first:
                continue
            left, right = self.cells[i, first : last + 1, before], self.cells[first : last + 1, j, after]
            scores = left[:, :, None] + right[:, None, :] + rules[before, after]  # [splits, X, Y]
            if self.bonus is not None:
                scores = scores + self.bonus[i, j]
            for score, (k, x, y) in _largest(scores, self.k):
                found.append((score, (first + k, x + (before.start or 0), y + (after.start or 0))))
        found.sort(key=lambda item: (-item[0], item[1]))
        return found[: self.k]

    def trees(self) -> Iterator[LabelledTree]:
        """Yield the k best trees of the sentence, by merging the lists of all root symbols."""
        tops = (self.root + self.cells[0, self.length, : self.states]).tolist()
        base = self.root.tolist()
        waiting = [(-score, symbol, 0) for symbol, score in enumerate(tops) if score > -math.inf]
        heapify(waiting)
        for _ in range(self.k):
            if not waiting:
                return
            score, symbol, rank = heappop(waiting)
            yield self._tree(-score, symbol, rank)
            later = self.node(0, self.length, symbol).item(rank + 1)
            if later is not None:
                heappush(waiting, (later[0] - base[symbol], symbol, rank + 1))

    def _tree(self, score: float, symbol: int, rank: int) -> LabelledTree:
        tree = LabelledTree([], [], [-1] * self.length, score)
        waiting = [(0, self.length, symbol, rank)]
        while waiting:
            i, j, symbol, rank = waiting.pop()
            if j - i == 1:
                tree.tags[i] = symbol - self.states
                continue
            tree.spans.append((i, j))
            tree.labels.append(symbol)
            item = self.node(i, j, symbol).item(rank)
            assert item is not None
            _, (split, left, right), a, b = item
            waiting += [(split, j, right, b), (i, split, left, a)]
        return tree


def _largest(scores: Tensor, k: int) -> list[tuple[float, tuple[int, int, int]]]:
    """Return the k largest entries above -inf with their indices; more than k if the last ones are equal."""
    least = scores.flatten().topk(min(k, scores.numel())).values[-1]
    places = ((scores >= least) & (scores > -math.inf)).nonzero()
    values = scores[tuple(places.unbind(1))].tolist()
    return [(value, (place[0], place[1], place[2])) for value, place in zip(values, places.tolist(), strict=True)]
