"""Trees under an ordinary PCFG: their log-probabilities, the most probable one of each sentence, and the k best."""

import math

import torch
from torch import Tensor

from simplepcfg.errors import InputError
from simplepcfg.ops.dense.arguments import DenseArguments
from simplepcfg.ops.dense.recursion import Best, inside_cells
from simplepcfg.ops.descent import Nodes, descend
from simplepcfg.ops.modes import without_modes
from simplepcfg.ops.tensor_fields import in_float64
from simplepcfg.ops.trees import LabelledTree, Trees, TreeTensors, empty_trees, rule_symbols, scored_trees
from simplepcfg.ops.viterbi.lazy_search import Edge, LazySearch, largest


@without_modes
def dense_viterbi(arguments: DenseArguments) -> Trees:
    """Find the most probable labelled tree of each sentence.

    Returns:
        ``Trees`` with leading dimension [B]. The log-probability is differentiable with respect to rules, emissions and
        bonus. Of equally probable trees the one with the leftmost split, then with the first symbols, is returned. A
        sentence of one word, or of probability 0, has no tree: its entries are -1 and its log-probability is -inf.
    """
    batch, n, nonterminals, _ = arguments.sizes
    if n == 1:
        return empty_trees(batch, arguments.log_emissions)
    sentence, ends = torch.arange(batch, device=arguments.log_emissions.device), arguments.ends
    with torch.no_grad():
        cells = inside_cells(arguments, Best())
        best, roots = (cells[sentence, 0, ends, :nonterminals] + arguments.root.log()).max(-1)
        nodes = Nodes.begin(roots.masked_fill((best == -math.inf) | (ends < 2), -1), ends, n)
        rules = arguments.rules.log()

        def choose(
            step: int, start: Tensor, end: Tensor, label: Tensor, active: Tensor
        ) -> tuple[Tensor, Tensor, Tensor]:
            own = rules[sentence, label] if arguments.batched_rules else rules[label]  # [B, S, S]
            return as_children(nonterminals, start, end, *_best_rule(cells, own, sentence, start, end))

        descend(nodes, choose)
    return with_log_probabilities(arguments, sentence, nodes.to_tensors())


def _best_rule(
    cells: Tensor, rules: Tensor, sentence: Tensor, start: Tensor, end: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Find the best split, left and right child of one node of each tree, by repeating the maximisation: [B] each."""
    best = torch.full_like(rules[:, 0, 0], -math.inf)
    split, pair = start + 1, torch.zeros_like(start)
    for k in range(1, int((end - start).max())):
        middle = torch.minimum(start + k, end - 1)
        scores = cells[sentence, start, middle, :, None] + cells[sentence, middle, end, None, :]
        value, index = (rules + scores).flatten(1).max(-1)
        better = (value > best) & (start + k < end)
        best, pair = torch.where(better, value, best), torch.where(better, index, pair)
        split = torch.where(better, middle, split)
    symbols = rules.shape[-1]
    return split, pair.div(symbols, rounding_mode="floor"), pair % symbols


def as_children(
    nonterminals: int, start: Tensor, end: Tensor, split: Tensor, left: Tensor, right: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Return a split and its children's symbols as ``descend`` takes them: preterminals are numbered from 0."""
    left, right = (
        torch.where(width == 1, (symbol - nonterminals).clamp(min=0), symbol.clamp(max=nonterminals - 1))
        for symbol, width in ((left, split - start), (right, end - split))
    )
    return split, left, right


def with_log_probabilities(arguments: DenseArguments, sentence: Tensor, trees: TreeTensors) -> Trees:
    """Add log p(words, tree) to trees, as ``scored_trees`` does."""
    log_rules = dense_rule_log_probabilities(arguments.root, arguments.rules, sentence, trees)
    return scored_trees(trees, log_rules, arguments.log_emissions, arguments.span_bonus, sentence)


def dense_rule_log_probabilities(root: Tensor, rules: Tensor, sentence: Tensor, trees: TreeTensors) -> Tensor:
    """Compute the log-probability of the rules of each tree, without emissions and bonuses: [T] float64."""
    here = trees[2] >= 0
    parent, left, right = rule_symbols(root.shape[-1], *trees)
    first = root[sentence, parent[:, 0]] if root.dim() == 2 else root[parent[:, 0]]
    total = torch.where(here[:, 0], first.double(), 1.0).log().masked_fill(~here[:, 0], -math.inf)
    index = (parent, left, right)
    scores = rules[(sentence[:, None], *index) if rules.dim() == 4 else index].double()
    return total + torch.where(here, scores, 1.0).log().sum(1)


@without_modes
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
