"""Symbols of trees of ranks under a PCFG whose rules are a sum over ranks, and log-probabilities of such trees.

Given the rank r of its parent and its own rank r', the symbol A of a node is independent of everything else:

    A ∝ to_left[r, A] up[A, r']  (or to_right),      at the top A ∝ root[A] up[A, r']

A tree of ranks that was drawn from the simple grammar over ranks therefore becomes a tree of symbols by one independent
draw for each node, and ranks and symbols together are a sample of their joint distribution.
"""

import math

import torch
from torch import Tensor

from simplepcfg.ops.sample.draws import WEIGHTS_AT_ONCE, pick
from simplepcfg.ops.trees import TreeTensors, rule_symbols

Factors = tuple[Tensor, Tensor, Tensor, Tensor]  # root [N], up [N, R], to_left and to_right [R, N + P]


def with_symbols(factors: Factors, trees: TreeTensors, generator: torch.Generator) -> TreeTensors:
    """Draw a symbol for each node of trees of ranks; the generator is the one that drew the ranks."""
    spans, splits, ranks, tags = trees
    numbers = torch.rand(ranks.shape, generator=generator, device=generator.device, dtype=torch.float64)
    return spans, splits, symbols_of_ranks(factors, spans, splits, ranks, numbers.to(ranks.device)), tags


@torch.no_grad()
def symbols_of_ranks(factors: Factors, spans: Tensor, splits: Tensor, ranks: Tensor, uniforms: Tensor) -> Tensor:
    """Draw a nonterminal for each node of trees of ranks [T, n - 1], with one uniform number each; -1 if missing."""
    root, up, to_left, to_right = (factor.detach() for factor in factors)
    states = root.shape[-1]
    up = up.T.contiguous()  # [R, N]
    table = torch.cat([to_left[:, :states], to_right[:, :states], root[None].to(to_left.dtype)])  # [2R + 1, N]
    parents = _rows_of_parents(up.shape[0], spans, splits, ranks)
    labels = torch.full_like(ranks, -1)
    nodes = (ranks >= 0).nonzero()
    for some in nodes.split(max(1, WEIGHTS_AT_ONCE // states)):
        where = tuple(some.unbind(1))
        weights = table[parents[where]].double() * up[ranks[where]].double()
        labels[where] = pick(weights, uniforms[where])
    return labels


def _rows_of_parents(size: int, spans: Tensor, splits: Tensor, ranks: Tensor) -> Tensor:
    """Return for each node the row of [to_left; to_right; root] from which its symbol is drawn: [T, n - 1]."""
    trees, nodes = ranks.shape
    node = torch.arange(nodes, device=ranks.device)
    start, middle, rank = spans[..., 0].clamp(min=0), splits.clamp(min=0), ranks.clamp(min=0)
    # Each parent writes its row to the columns of its children, or to a spare last column if a child is a word.
    rows = torch.full((trees, nodes + 1), 2 * size, device=ranks.device)
    here = ranks >= 0
    rows.scatter_(1, torch.where(here & (middle - start > 1), node + 1, nodes), rank)
    rows.scatter_(1, torch.where(here & (spans[..., 1] - middle > 1), node + middle - start, nodes), size + rank)
    return rows[:, :nodes]


def rank_rule_log_probabilities(factors: Factors, trees: TreeTensors) -> Tensor:
    """Compute the log-probability of each tree's rules, summed over ranks: [T] float64; -inf for a missing tree.

    Emissions are not included. The result is differentiable.
    """
    (root, up, to_left, to_right), labels = factors, trees[2]
    here = labels >= 0
    index = torch.stack([side[here] for side in rule_symbols(root.shape[-1], *trees)])  # [3, K]
    scores = [
        (up[a].double() * to_left[:, b].T.double() * to_right[:, c].T.double()).sum(-1)
        for a, b, c in index.split(max(1, WEIGHTS_AT_ONCE // up.shape[-1]), 1)
    ]
    rules = torch.zeros(here.shape, dtype=torch.float64, device=labels.device)
    rules = rules.masked_scatter(here, torch.cat(scores).log())
    first = torch.where(here[:, 0], root[labels[:, 0].clamp(min=0)].double(), 1.0).log()
    return first.masked_fill(~here[:, 0], -math.inf) + rules.sum(1)
