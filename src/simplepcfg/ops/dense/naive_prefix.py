"""Prefix probabilities of an ordinary PCFG by their definition, from right to left: the reference for tests."""

import torch
from torch import Tensor


def naive_dense_prefix(log_emissions: Tensor, root: Tensor, rules: Tensor) -> Tensor:
    """Compute log P(a sentence begins with w_0 … w_{m−1}) of one sentence [n, P], m = 0 … n: [n + 1] float64.

    p(i)[A], that A generates a string that starts with w_i … w_{m−1}, is C · (what its left child and the rest give).
    """
    n, states = log_emissions.shape[0], root.shape[0]
    emit, root, rules = log_emissions.double().exp(), root.double(), rules.double()
    marginal = rules.sum(-1)
    corners = torch.linalg.inv(torch.eye(states, dtype=torch.float64) - marginal[:, :states])
    beta = {(i, i + 1): torch.cat([torch.zeros(states), emit[i]]).double() for i in range(n)}  # over all symbols
    for width in range(2, n + 1):
        for i in range(n - width + 1):
            parts = [torch.einsum("abc,b,c->a", rules, beta[i, k], beta[k, i + width]) for k in range(i + 1, i + width)]
            beta[i, i + width] = torch.cat([torch.stack(parts).sum(0), torch.zeros(emit.shape[1])]).double()
    found = [torch.zeros((), dtype=torch.float64)]
    for m in range(1, n + 1):
        begins = {m - 1: beta[m - 1, m].clone()}  # of a right child that starts at j: all symbols
        for i in range(m - 1, -1, -1):
            first = marginal[:, states:] @ emit[i] if i == m - 1 else torch.zeros(states, dtype=torch.float64)
            for j in range(i + 1, m):
                first = first + torch.einsum("abc,b,c->a", rules, beta[i, j], begins[j])
            begins.setdefault(i, torch.zeros_like(beta[0, 1]))
            begins[i][:states] = corners @ first
        found.append((root @ begins[0][:states]).log())
    return torch.stack(found)
