"""Every question in float64 by the shortest program there is, over logarithms, with autograd for expectations.

A grammar of any family is written out as an ordinary PCFG (rules [N, S, S]); a hidden Markov model is a chain.
"""

import math

import torch
from torch import Tensor


def exact_sum(values: Tensor, dim: int) -> Tensor:
    """Log-sum-exp whose gradient is 0, not NaN, where everything is impossible."""
    top = values.detach().amax(dim, keepdim=True)
    top = torch.where(top == -math.inf, 0.0, top)
    total = (values - top).exp().sum(dim)
    return torch.where(total > 0, total, 1.0).log() + top.squeeze(dim) + torch.where(total > 0, 0.0, -math.inf)


def exact_max(values: Tensor, dim: int) -> Tensor:
    return values.amax(dim)


def tree_total(emissions: Tensor, root: Tensor, rules: Tensor, bonus: Tensor, reduce=exact_sum) -> Tensor:
    """Sum or maximum over all trees of one sentence; emissions [n, P], root [N] and rules [N, S, S] are logarithms."""
    n, states = len(emissions), len(root)
    chart: dict[tuple[int, int], Tensor] = {(i, i + 1): emissions[i] for i in range(n)}

    def block(i: int, j: int) -> slice:
        return slice(states, None) if j - i == 1 else slice(0, states)

    for width in range(2, n + 1):
        for i in range(n - width + 1):
            j = i + width
            splits = [
                reduce((rules[:, block(i, k), block(k, j)] + chart[i, k][:, None] + chart[k, j]).flatten(1), 1)
                for k in range(i + 1, j)
            ]
            chart[i, j] = reduce(torch.stack(splits), 0) + bonus[i, j]
    return reduce(root + chart[0, n], 0) if n > 1 else torch.tensor(-math.inf, dtype=torch.float64)


def chain_total(emissions: Tensor, start: Tensor, transitions: Tensor, reduce=exact_sum) -> Tensor:
    """Sum or maximum over all sequences of states of one sentence; all are logarithms."""
    here = start + emissions[0]
    for row in emissions[1:]:
        here = reduce(here[:, None] + transitions, 0) + row
    return reduce(here, 0)


def best_bracketing(marginals: Tensor) -> float:
    """The largest total of span marginals that a binary tree has."""
    n = len(marginals) - 1
    best = {(i, i + 1): 0.0 for i in range(n)}
    for width in range(2, n + 1):
        for i in range(n - width + 1):
            j = i + width
            best[i, j] = float(marginals[i, j]) + max(best[i, k] + best[k, j] for k in range(i + 1, j))
    return best[0, n]


def entropy_of(log_z: Tensor, parts: list[Tensor]) -> float:
    """log Z − E[log weight], expectations being derivatives of log Z by logarithms."""
    counts = torch.autograd.grad(log_z, parts, retain_graph=True)
    used = sum(
        float((count[count != 0] * part.detach()[count != 0]).sum()) for count, part in zip(counts, parts, strict=True)
    )
    return float(log_z.detach()) - used
