"""Marginals and rule counts as the README of ``ops/inside`` writes them: the reference for tests."""

from dataclasses import dataclass

import torch
from torch import Tensor

Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class NaiveMarginals:
    """Marginals and expected rule counts of one sentence, in float64."""

    z: Tensor
    symbols: dict[Span, Tensor]  # width 2 or more: [N]
    tags: Tensor  # [n, P]
    root: Tensor
    left: Tensor
    right: Tensor


def naive_marginals(
    log_emissions: Tensor, root: Tensor, left: Tensor, right: Tensor, span_bonus: Tensor | None = None
) -> NaiveMarginals:
    """Compute marginals and rule counts of one sentence: log-emissions [n, P], rules without a batch dimension."""
    log_emissions, root, left, right = (t.detach().double() for t in (log_emissions, root, left, right))
    n, states = log_emissions.shape[0], root.shape[0]
    inside = {(i, i + 1): log_emissions[i].exp() for i in range(n)}  # width 1 over preterminals
    outside: dict[Span, Tensor] = {}

    def columns(rules: Tensor, span: Span) -> Tensor:
        return rules[:, states:] if span[1] - span[0] == 1 else rules[:, :states]

    def bonus(span: Span) -> Tensor:
        return torch.ones(()).double() if span_bonus is None else span_bonus[span].detach().double().exp()

    spans = [(i, i + width) for width in range(2, n + 1) for i in range(n - width + 1)]
    for i, j in spans:
        children = (((i, k), (k, j)) for k in range(i + 1, j))
        inside[i, j] = bonus((i, j)) * sum(
            (columns(left, a) @ inside[a]) * (columns(right, b) @ inside[b]) for a, b in children
        )
    z = root @ inside[0, n] if n > 1 else torch.zeros(()).double()
    left_counts, right_counts = torch.zeros_like(left), torch.zeros_like(right)
    outside = {span: torch.zeros_like(value) for span, value in inside.items()}
    outside[0, n] = root / z if z > 0 else torch.zeros_like(outside[0, n])
    for i, j in reversed(spans):
        for k in range(i + 1, j):
            a, b = (i, k), (k, j)
            above = outside[i, j] * bonus((i, j))
            by_left = above * (columns(right, b) @ inside[b])  # derivative with respect to η of the left child, [N]
            by_right = above * (columns(left, a) @ inside[a])
            outside[a] = outside[a] + by_left @ columns(left, a)
            outside[b] = outside[b] + by_right @ columns(right, b)
            columns(left_counts, a).add_(columns(left, a) * torch.outer(by_left, inside[a]))
            columns(right_counts, b).add_(columns(right, b) * torch.outer(by_right, inside[b]))
    marginals = {span: outside[span] * inside[span] for span in inside}
    return NaiveMarginals(
        z,
        {span: marginals[span] for span in spans},
        torch.stack([marginals[i, i + 1] for i in range(n)]) if n > 1 else torch.zeros_like(log_emissions),
        marginals[0, n] if n > 1 else torch.zeros_like(root),
        left_counts,
        right_counts,
    )
