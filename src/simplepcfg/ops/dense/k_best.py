"""The k best labelled trees of each sentence under an ordinary PCFG: a lazy search over the chart of best scores.

The trees of a span and symbol form a sorted list that is made longer only when its next item is asked for. Each is a
rule A → B C at a split with one tree of either child; of a rule the best trees of the children come first, and after
trees a and b its next candidates are (a + 1, b) and (a, b + 1). No list needs more rules than the k best ones.
"""

import math
from collections.abc import Iterator
from heapq import heappop, heappush
from itertools import islice

import torch
from torch import Tensor

from simplepcfg.errors import InputError
from simplepcfg.ops.autocast import without_autocast
from simplepcfg.ops.dense.arguments import DenseArguments
from simplepcfg.ops.dense.recursion import Best, inside_cells
from simplepcfg.ops.tensor_fields import in_float64
from simplepcfg.ops.trees import LabelledTree
from simplepcfg.ops.viterbi.k_best import raised_recursion_limit

# A rule at a split: split, left and right child; preterminals are numbered from N, as in the rules.
Edge = tuple[int, int, int]
# A tree over a span: minus its score, its edge, and the ranks of its children's trees.
Item = tuple[float, Edge, int, int]
# The symbol S. Its edges S → A have the whole sentence as left child and an empty span, whose score is 0, as right one.
TOP = -1


@without_autocast
@torch.no_grad()
def dense_k_best(arguments: DenseArguments, k: int) -> list[list[LabelledTree]]:
    """Find up to k most probable labelled trees of each sentence, the most probable first, in float64.

    Equally probable trees are ordered by their splits, then by their symbols. Raises InputError if k is less than 1.
    """
    if k < 1:
        raise InputError(f"k = {k}; ask for at least one tree")
    given = in_float64(arguments)
    _, n, _, _ = given.sizes
    cells, root, rules = inside_cells(given, Best()), given.root.log(), given.rules.log()
    trees = []
    with raised_recursion_limit(6 * n):
        for b, length in enumerate(given.ends.tolist()):
            own = (root[b] if root.dim() == 2 else root, rules[b] if given.batched_rules else rules)
            bonus = None if given.span_bonus is None else given.span_bonus[b]
            search = _Search(cells[b], *own, bonus, length, k)
            # Scores of the search may differ in the last digit.
            trees.append(sorted(search.trees(), key=lambda tree: -tree.log_probability))
    return trees


class _LazyList:
    """Items of an iterator, computed when they are first asked for."""

    def __init__(self, items: Iterator[Item]) -> None:
        self.known: list[Item] = []
        self.rest = items

    def item(self, rank: int) -> Item | None:
        """Return the rank-th item, or None if there are fewer."""
        self.known += islice(self.rest, rank + 1 - len(self.known)) if rank >= len(self.known) else ()
        return self.known[rank] if rank < len(self.known) else None


class _Search:
    """The search of one sentence over its chart [n + 1, n + 1, S]."""

    def __init__(self, cells: Tensor, root: Tensor, rules: Tensor, bonus: Tensor | None, length: int, k: int) -> None:
        self.cells, self.root, self.rules, self.bonus = cells, root, rules, bonus
        self.states, self.length, self.k = len(root), length, k
        self.lists: dict[tuple[int, int, int], _LazyList] = {}  # by span and symbol
        self.best: dict[tuple[int, int], list[float]] = {}  # by span: the best score of each symbol

    def trees(self) -> list[LabelledTree]:
        """Return the k best trees of the sentence; none for a single word."""
        ranks = range(self.k if self.length > 1 else 0)
        items = (self._item(0, self.length, TOP, rank) for rank in ranks)
        return [self._tree(item) for item in items if item is not None]

    def _item(self, i: int, j: int, symbol: int, rank: int) -> Item | None:
        """Return the rank-th tree over a span with this root symbol, or None if there are fewer."""
        key = (i, j, symbol)
        if key not in self.lists:
            self.lists[key] = _LazyList(self._items(*key))
        return self.lists[key].item(rank)

    def _items(self, i: int, j: int, symbol: int) -> Iterator[Item]:
        """Yield the trees over a span with one root symbol, best first."""
        edges = self._best_edges(i, j, symbol)
        waiting: list[Item] = [(-score, edge, 0, 0) for score, edge in edges]  # a sorted list is a heap
        shares = {edge: score - self._children(i, j, edge, 0, 0) for score, edge in edges}  # of the rules themselves
        seen: set[tuple[Edge, int, int]] = set()
        while waiting:
            item = heappop(waiting)
            yield item
            _, edge, left, right = item
            for a, b in ((left + 1, right), (left, right + 1)):
                if (edge, a, b) in seen:
                    continue
                seen.add((edge, a, b))
                score = self._children(i, j, edge, a, b)
                if score > -math.inf:
                    heappush(waiting, (-(shares[edge] + score), edge, a, b))

    def _children(self, i: int, j: int, edge: Edge, a: int, b: int) -> float:
        """Return the sum of the scores of the a-th left and the b-th right subtree, or -inf if there are fewer."""
        split, left, right = edge
        return self._score(i, split, left, a) + self._score(split, j, right, b)

    def _score(self, i: int, j: int, symbol: int, rank: int) -> float:
        if rank == 0:
            if i == j:
                return 0.0
            if (i, j) not in self.best:
                self.best[i, j] = self.cells[i, j].tolist()
            return self.best[i, j][symbol]
        item = self._item(i, j, symbol, rank) if j - i > 1 else None  # a word has one tree
        return -math.inf if item is None else -item[0]

    def _best_edges(self, i: int, j: int, symbol: int) -> list[tuple[float, Edge]]:
        """Return the k best rules of a parent over a span, each with a split and the best trees of its children."""
        if symbol == TOP:
            tops = self.root + self.cells[i, j, : self.states]
            edges = [(score, (j, place[0], 0)) for score, place in _largest(tops, self.k)]
        else:
            edges = []
            for first, last in {(i + 1, i + 2), (i + 2, j - 1), (j - 1, j)}:  # one child or both are words, or none is
                if first < last:
                    edges += self._edges_at(i, range(first, last), j, symbol)
        return sorted(edges, key=lambda edge: (-edge[0], edge[1]))[: self.k]

    def _edges_at(self, i: int, splits: range, j: int, symbol: int) -> list[tuple[float, Edge]]:
        """Return the k best rules at splits that all have words, or all have no words, on either side."""
        before, after = (0 if width > 1 else self.states for width in (splits[0] - i, j - splits[0]))
        left, right = self.cells[i, splits.start : splits.stop], self.cells[splits.start : splits.stop, j]
        x, y = (slice(start, None if start else self.states) for start in (before, after))
        scores = left[:, x, None] + right[:, None, y] + self.rules[symbol, x, y]  # [splits, X, Y]
        if self.bonus is not None:
            scores = scores + self.bonus[i, j]
        return [(score, (splits[k], before + b, after + c)) for score, (k, b, c) in _largest(scores, self.k)]

    def _tree(self, top: Item) -> LabelledTree:
        score, (_, symbol, _), rank, _ = top
        tree = LabelledTree([], [], [-1] * self.length, -score)
        waiting = [(0, self.length, symbol, rank)]
        while waiting:
            i, j, symbol, rank = waiting.pop()
            if j - i == 1:
                tree.tags[i] = symbol - self.states
                continue
            tree.spans.append((i, j))
            tree.labels.append(symbol)
            item = self._item(i, j, symbol, rank)
            assert item is not None
            _, (split, left, right), a, b = item
            waiting += [(split, j, right, b), (i, split, left, a)]
        return tree


def _largest(scores: Tensor, k: int) -> list[tuple[float, list[int]]]:
    """Return the k largest entries above -inf with their indices; more than k if the last ones are equal."""
    least = scores.flatten().topk(min(k, scores.numel())).values[-1]
    places = ((scores >= least) & (scores > -math.inf)).nonzero()
    return list(zip(scores[tuple(places.unbind(1))].tolist(), places.tolist(), strict=True))
