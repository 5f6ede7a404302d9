"""The k best trees of a sentence by a lazy search over the chart of best scores (Huang and Chiang, 2005).

The trees of a span and symbol form a sorted list that is made longer only when its next item is asked for. Each is a
rule A → B C at a split with one tree of either child; of a rule the best trees of the children come first, and after
trees a and b its next candidates are (a + 1, b) and (a, b + 1). No list needs more rules than the k best ones.
"""

import math
import sys
from collections.abc import Iterator
from heapq import heappop, heappush
from itertools import islice

from torch import Tensor

from simplepcfg.ops.trees import LabelledTree

# A rule at a split: split, left and right child; preterminals are numbered from N.
Edge = tuple[int, int, int]
# A tree over a span: minus its score, its edge, and the ranks of its children's trees.
Item = tuple[float, Edge, int, int]
# The symbol S. Its edges S → A have the whole sentence as left child and an empty span, whose score is 0, as right one.
TOP = -1


class _LazyList:
    """Items of an iterator, computed when they are first asked for."""

    def __init__(self, items: Iterator[Item]) -> None:
        self.known: list[Item] = []
        self.rest = items

    def item(self, rank: int) -> Item | None:
        """Return the rank-th item, or None if there are fewer."""
        self.known += islice(self.rest, rank + 1 - len(self.known)) if rank >= len(self.known) else ()
        return self.known[rank] if rank < len(self.known) else None


class LazySearch:
    """The search of one sentence; a family of grammars says what its chart and its rules are."""

    def __init__(self, states: int, length: int, k: int) -> None:
        self.states, self.length, self.k = states, length, k
        self._lists: dict[tuple[int, int, int], _LazyList] = {}  # by span and symbol
        self._best: dict[tuple[int, int], list[float]] = {}  # by span: the best score of each symbol

    def best_scores(self, i: int, j: int) -> Tensor:
        """Return the score of the best tree of each symbol over a span: [N], or [P] over a word."""
        raise NotImplementedError

    def top_scores(self) -> Tensor:
        """Return the score of the best tree of the sentence with each nonterminal at the top: [N]."""
        raise NotImplementedError

    def edges_at(self, i: int, splits: range, j: int, symbol: int) -> list[tuple[float, Edge]]:
        """Return the k best rules of a parent at splits that all have words, or all have no words, on either side."""
        raise NotImplementedError

    def trees(self) -> list[LabelledTree]:
        """Return the k best trees of the sentence, best first; none for a single word."""
        trees: list[LabelledTree] = []
        before = sys.getrecursionlimit()
        sys.setrecursionlimit(before + 6 * self.length)  # the next item of a list may need one of each list below it
        try:
            while self.length > 1 and len(trees) < self.k:
                item = self._item(0, self.length, TOP, len(trees))
                if item is None:
                    break
                trees.append(self._tree(item))
        finally:
            sys.setrecursionlimit(before)
        # Scores of the search may differ in the last digit.
        return sorted(trees, key=lambda tree: -tree.log_probability)

    def _item(self, i: int, j: int, symbol: int, rank: int) -> Item | None:
        """Return the rank-th tree over a span with this root symbol, or None if there are fewer."""
        key = (i, j, symbol)
        if key not in self._lists:
            self._lists[key] = _LazyList(self._items(*key))
        return self._lists[key].item(rank)

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
            if (i, j) not in self._best:
                self._best[i, j] = self.best_scores(i, j).tolist()
            return self._best[i, j][symbol - (self.states if j - i == 1 else 0)]
        item = self._item(i, j, symbol, rank) if j - i > 1 else None  # a word has one tree
        return -math.inf if item is None else -item[0]

    def _best_edges(self, i: int, j: int, symbol: int) -> list[tuple[float, Edge]]:
        """Return the k best rules of a parent over a span, each with a split and the best trees of its children."""
        if symbol == TOP:
            edges = [(score, (j, place[0], 0)) for score, place in largest(self.top_scores(), self.k)]
        else:
            edges = []
            for first, last in {(i + 1, i + 2), (i + 2, j - 1), (j - 1, j)}:  # one child or both are words, or none is
                if first < last:
                    edges += self.edges_at(i, range(first, last), j, symbol)
        return sorted(edges, key=lambda edge: (-edge[0], edge[1]))[: self.k]

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


def largest(scores: Tensor, k: int) -> list[tuple[float, list[int]]]:
    """Return the k largest entries above -inf with their indices; more than k if the last ones are equal."""
    least = scores.flatten().topk(min(k, scores.numel())).values[-1]
    places = ((scores >= least) & (scores > -math.inf)).nonzero()
    return list(zip(scores[tuple(places.unbind(1))].tolist(), places.tolist(), strict=True))
