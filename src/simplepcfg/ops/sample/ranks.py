"""Symbols of trees whose ranks are known, under a PCFG whose rules are a sum over ranks; and what such trees weigh.

A symbol A that stands between the rank r of its parent and its own rank r' depends on nothing else:

    A ∝ to_left[r, A] up[A, r']  (or to_right),      at the top A ∝ root[A] up[A, r']

So a tree of ranks, drawn from the simple grammar over ranks, becomes a tree of symbols by one independent draw a node,
and ranks and symbols together are a draw from their joint distribution.
"""

import math

import torch
from torch import Tensor

from simplepcfg.ops.dense.trees import rule_symbols
from simplepcfg.ops.sample.draws import pick

# Weights of as many symbols or ranks as this are held at a time.
WEIGHTS_AT_ONCE = 1 << 24

Factors = tuple[Tensor, Tensor, Tensor, Tensor]  # root [N], up [N, R], to_left and to_right [R, N + P]


@torch.no_grad()
def symbols_of_ranks(factors: Factors, spans: Tensor, splits: Tensor, ranks: Tensor, uniforms: Tensor) -> Tensor:
    """A nonterminal for every node of trees in preorder, -1 where ``ranks`` [T, n - 1] has none; one uniform a node."""
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
    """For each node the row of [to_left; to_right; root] that its symbol was chosen from: [T, n - 1]."""
    trees, nodes = ranks.shape
    node = torch.arange(nodes, device=ranks.device)
    start, middle, rank = spans[..., 0].clamp(min=0), splits.clamp(min=0), ranks.clamp(min=0)
    # A parent writes its row to where its children stand; the last column takes what has no such child.
    found = torch.full((trees, nodes + 1), 2 * size, device=ranks.device)
    left, right = ranks >= 0, ranks >= 0
    left = left & (middle - start > 1)
    right = right & (spans[..., 1] - middle > 1)
    found.scatter_(1, torch.where(left, node + 1, nodes), rank)
    found.scatter_(1, torch.where(right, node + middle - start, nodes), size + rank)
    return found[:, :nodes]


def rank_rule_log_probabilities(
    factors: Factors, spans: Tensor, splits: Tensor, labels: Tensor, tags: Tensor
) -> Tensor:
    """log p of each tree's rules, ranks summed out, without its words: [T] float64, differentiable; -inf for none."""
    root, up, to_left, to_right = factors
    here = labels >= 0
    index = torch.stack([side[here] for side in rule_symbols(root.shape[-1], spans, splits, labels, tags)])  # [3, K]
    scores = [
        (up[a].double() * to_left[:, b].T.double() * to_right[:, c].T.double()).sum(-1)
        for a, b, c in index.split(max(1, WEIGHTS_AT_ONCE // up.shape[-1]), 1)
    ]
    rules = torch.zeros(here.shape, dtype=torch.float64, device=labels.device)
    rules = rules.masked_scatter(here, torch.cat(scores).log())
    first = torch.where(here[:, 0], root[labels[:, 0].clamp(min=0)].double(), 1.0).log()
    return first.masked_fill(~here[:, 0], -math.inf) + rules.sum(1)
