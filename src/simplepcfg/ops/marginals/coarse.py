"""A coarse grammar whose nonterminals are clusters of those of a large one: a cheap guess of its marginals.

Clusters are of nonterminals with similar parents, by k-means over random projections of the columns of the rules. A
cluster has the mean rules of its members, weighted by how often they occur, and their summed probability as a child.
Preterminals stay as they are, so that words keep their probabilities.
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from simplepcfg.ops.arguments import InsideArguments, SimpleRules
from simplepcfg.ops.inside.scaled_backward import Backward
from simplepcfg.ops.inside.scaled_chart import ScaledChart
from simplepcfg.ops.transposed_rules import kept_layout, transposed_nonterminals

CLUSTERS = 96
ITERATIONS = 12
DIRECTIONS = 64  # of the random projection
FREQUENCY_STEPS = 30


@dataclass(frozen=True, slots=True)
class Guess:
    """What a coarse grammar says about the spans of sentences."""

    members: Tensor  # [N]: the cluster of each nonterminal
    membership: Tensor  # [N, K]: 1 at the cluster of each nonterminal
    mean_rules: Tensor  # [K, 2N]: the mean rule with a child of each cluster, on the left and on the right
    spans: Tensor  # [B, n + 1, n + 1]: marginals of spans of two words or more
    outside: Tensor  # [B, n + 1, n + 1, K]: outside values of the clusters; each span has a scale of its own

    def symbols(self, b: Tensor, i: Tensor, j: Tensor, beta: Tensor) -> Tensor:
        """Estimate the marginals of the symbols of spans, given their inside values in any scale: [spans, N] each."""
        estimates = self.outside[b, i, j].index_select(1, self.members).mul_(beta)
        totals = estimates.sum(-1, keepdim=True)
        return estimates.mul_(self.spans[b, i, j, None] / totals.masked_fill_(totals == 0, 1.0))


def coarse_rules(rules: SimpleRules) -> tuple[Tensor, SimpleRules]:
    """Return the cluster of each nonterminal, [N], and the rules of the clusters; ``rules`` have no batch dimension."""
    members = clusters_of(rules.left, rules.right)
    left, right = kept_layout("coarse", rules.left, rules.right, lambda one, other: _coarse(one, other, members))
    root = rules.root.new_zeros(CLUSTERS).index_add_(0, members, rules.root.detach())
    return members, SimpleRules(root, left, right)


def coarse_guess(arguments: InsideArguments) -> Guess:
    """Compute the marginals of spans, and outside values, under the coarse grammar."""
    members, coarse = coarse_rules(arguments.rules)
    chart = ScaledChart(replace(arguments, root=coarse.root, left=coarse.left, right=coarse.right))
    chart.fill()
    backward = Backward(chart, torch.ones(chart.batch, dtype=chart.dtype), check_range=True)
    posts = (chart.batch, chart.n + 1, chart.n + 1)
    outside, spans = torch.zeros(*posts, CLUSTERS, dtype=chart.dtype), torch.zeros(*posts, dtype=chart.dtype)
    for width in range(chart.n, 1, -1):
        alpha = backward.outside(width, None)
        if width > 2:
            backward.add_to_children(width, alpha)
        torch.diagonal(spans, width, 1, 2).copy_(torch.linalg.vecdot(alpha, chart.beta[width]))
        # Scaled, since values of another grammar are multiplied with these.
        scaled = alpha / alpha.amax(-1, keepdim=True).clamp(min=torch.finfo(chart.dtype).tiny)
        torch.diagonal(outside, width, 1, 2).copy_(scaled.transpose(1, 2))
    membership = kept_layout("membership", arguments.left, arguments.right, lambda left, _: _membership(left, members))
    means = kept_layout(
        "mean rules", arguments.left, arguments.right, lambda left, right: _mean_rules(left, right, membership)
    )
    return Guess(members, membership, means, spans, outside)


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


def _coarse(left: Tensor, right: Tensor, members: Tensor) -> Tensor:
    """Return the rules of the clusters, [2, K, K + P]."""
    states = len(left)
    weights = _frequencies(left, right)
    sizes = weights.new_zeros(CLUSTERS).index_add_(0, members, weights)
    shares = weights / sizes.clamp(min=1e-30)[members]
    sides = []
    for rules in (left, right):
        rows = rules.new_zeros(CLUSTERS, rules.shape[1]).index_add_(0, members, rules * shares[:, None])
        children = rows.new_zeros(CLUSTERS, CLUSTERS).index_add_(1, members, rows[:, :states])
        sides.append(torch.cat([children, rows[:, states:]], 1))
    return torch.stack(sides)


def _membership(left: Tensor, members: Tensor) -> Tensor:
    return left.new_zeros(len(members), CLUSTERS).scatter_(1, members[:, None], 1.0)


def _mean_rules(left: Tensor, right: Tensor, membership: Tensor) -> Tensor:
    shares = membership / membership.sum(0).clamp(min=1.0)
    return shares.T @ transposed_nonterminals(left, right)
