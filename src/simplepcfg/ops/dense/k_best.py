"""The k best labelled trees of each sentence under an ordinary PCFG: a lazy search over the chart of best scores."""

import torch
from torch import Tensor

from simplepcfg.errors import InputError
from simplepcfg.ops.autocast import without_autocast
from simplepcfg.ops.dense.arguments import DenseArguments
from simplepcfg.ops.dense.recursion import Best, inside_cells
from simplepcfg.ops.tensor_fields import in_float64
from simplepcfg.ops.trees import LabelledTree
from simplepcfg.ops.viterbi.lazy_search import Edge, LazySearch, largest


@without_autocast
@torch.no_grad()
def dense_k_best(arguments: DenseArguments, k: int) -> list[list[LabelledTree]]:
    """Find up to k most probable labelled trees of each sentence, the most probable first, in float64.

    Equally probable trees are ordered by their splits, then by their symbols. Raises InputError if k is less than 1.
    """
    if k < 1:
        raise InputError(f"k = {k}; ask for at least one tree")
    given = in_float64(arguments)
    cells, root, rules = inside_cells(given, Best()), given.root.log(), given.rules.log()
    trees = []
    for b, length in enumerate(given.ends.tolist()):
        own = (root[b] if root.dim() == 2 else root, rules[b] if given.batched_rules else rules)
        bonus = None if given.span_bonus is None else given.span_bonus[b]
        trees.append(_Search(cells[b], *own, bonus, length, k).trees())
    return trees


class _Search(LazySearch):
    """The search of one sentence over its chart [n + 1, n + 1, S]."""

    def __init__(self, cells: Tensor, root: Tensor, rules: Tensor, bonus: Tensor | None, length: int, k: int) -> None:
        super().__init__(len(root), length, k)
        self.cells, self.root, self.rules, self.bonus = cells, root, rules, bonus

    def best_scores(self, i: int, j: int) -> Tensor:
        return self.cells[i, j, : self.states] if j - i > 1 else self.cells[i, j, self.states :]

    def top_scores(self) -> Tensor:
        return self.root + self.cells[0, self.length, : self.states]

    def edges_at(self, i: int, splits: range, j: int, symbol: int) -> list[tuple[float, Edge]]:
        before, after = (0 if width > 1 else self.states for width in (splits[0] - i, j - splits[0]))
        left, right = self.cells[i, splits.start : splits.stop], self.cells[splits.start : splits.stop, j]
        x, y = (slice(start, None if start else self.states) for start in (before, after))
        scores = left[:, x, None] + right[:, None, y] + self.rules[symbol, x, y]  # [splits, X, Y]
        if self.bonus is not None:
            scores = scores + self.bonus[i, j]
        return [(score, (splits[k], before + b, after + c)) for score, (k, b, c) in largest(scores, self.k)]
