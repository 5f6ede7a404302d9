"""Clusters of the nonterminals of a large grammar with similar parents, by k-means over random projections."""

import torch
from torch import Tensor

from simplepcfg.ops.transposed_rules import kept_layout

CLUSTERS = 96
ITERATIONS = 4
DIRECTIONS = 32  # of the random projection
FREQUENCY_STEPS = 8


def clusters_of(left: Tensor, right: Tensor) -> Tensor:
    """Return the cluster of each nonterminal of rules without a batch dimension, [N], which is computed once."""
    return kept_layout("clusters", left, right, _clusters)


def _frequencies(left: Tensor, right: Tensor) -> Tensor:
    """Return about how often each nonterminal is a child in derivations: [N], which sum to 1."""
    states = len(left)
    both = left[:, :states] + right[:, :states]
    shares = total = both.new_full((states,), 1 / states)
    for _ in range(FREQUENCY_STEPS):
        shares = shares @ both
        shares = shares / shares.sum().clamp(min=1e-30)
        total = total + shares
    return total / total.sum()


def _clusters(left: Tensor, right: Tensor) -> Tensor:
    """Return the cluster of each nonterminal: [N]."""
    states = len(left)
    weights = _frequencies(left, right)
    # torch.Generator() needs modules of torch that commands leave out when they start.
    generator = torch.default_generator.clone_state().manual_seed(0)
    points = left.new_zeros(states, DIRECTIONS)
    for rules in (left, right):
        parents = rules[:, :states] * weights[:, None]  # of each child: how often it has each of them
        parents = (parents / parents.sum(0).clamp(min=1e-30)).sqrt_()
        points += parents.T @ torch.randn(states, DIRECTIONS, generator=generator).to(left)
    # Centres are chosen one after the other, far from those before, as k-means++ does.
    distances = torch.ones_like(weights)
    centres = points.new_empty(CLUSTERS, DIRECTIONS)
    for number in range(CLUSTERS):
        centres[number] = points[torch.multinomial(distances * weights + 1e-30, 1, generator=generator)[0]]
        nearest = (points - centres[number]).square().sum(1)
        distances = nearest if number == 0 else torch.minimum(distances, nearest)
    for _ in range(ITERATIONS):
        members = torch.cdist(points, centres).argmin(1)
        sizes = weights.new_zeros(CLUSTERS).index_add_(0, members, weights)
        sums = torch.zeros_like(centres).index_add_(0, members, points * weights[:, None])
        centres = torch.where(sizes[:, None] > 0, sums / sizes[:, None].clamp(min=1e-30), centres)
    return torch.cdist(points, centres).argmin(1)
