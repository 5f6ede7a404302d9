"""Prefix probabilities by the cubic recursion of README.md: the reference for tests."""

import torch
from torch import Tensor

from simplepcfg.ops.arguments import InsideArguments, SimpleRules
from simplepcfg.ops.prefix.closure import left_corner_closure


def naive_prefix(arguments: InsideArguments) -> Tensor:
    """Compute log P(a sentence begins with w_0 … w_{m−1}), [B, n + 1] in float64, one sentence at a time."""
    batch, n, _, _ = arguments.sizes
    log_prefixes = torch.full((batch, n + 1), -torch.inf, dtype=torch.float64, device=arguments.log_emissions.device)
    for b in range(batch):
        row = _one_sentence(arguments, b)
        log_prefixes[b, : len(row)] = torch.stack(row)
    return log_prefixes


def _one_sentence(arguments: InsideArguments, b: int) -> list[Tensor]:
    _, n, nonterminals, _ = arguments.sizes
    if arguments.lengths is not None:
        n = int(arguments.lengths[b])
    root = (arguments.root[b] if arguments.root.dim() == 2 else arguments.root).double()
    left, right = ((rules[b] if rules.dim() == 3 else rules).double() for rules in (arguments.left, arguments.right))
    left_n, left_p = left[:, :nonterminals], left[:, nonterminals:]
    right_n, right_p = right[:, :nonterminals], right[:, nonterminals:]
    left_corner_closure(SimpleRules(root, left, right))  # raises if there is no closure
    corners = _series(left_n)  # C
    log_emissions = arguments.log_emissions[b, :n].double()
    # Emissions are divided by each word's largest, and its log is added at the end, to avoid underflow.
    best = log_emissions.detach().amax(1)
    best = torch.where(best.isfinite(), best, torch.zeros_like(best))
    emit = (log_emissions - best[:, None]).exp()  # [n, P]

    eta: dict[tuple[int, int], Tensor] = {}
    zeta: dict[tuple[int, int], Tensor] = {}
    rho: dict[tuple[int, int], Tensor] = {}
    y: dict[tuple[int, int], Tensor] = {}
    for i in range(n):
        eta[i, i + 1], zeta[i, i + 1] = left_p @ emit[i], right_p @ emit[i]
        y[i, i + 1] = left_p @ emit[i]
        rho[i, i + 1] = right_n @ (corners @ y[i, i + 1]) + right_p @ emit[i]
    for width in range(2, n + 1):
        for i in range(n - width + 1):
            m = i + width
            beta = sum((eta[i, k] * zeta[k, m] for k in range(i + 1, m)), torch.zeros_like(root))
            eta[i, m], zeta[i, m] = left_n @ beta, right_n @ beta
            y[i, m] = sum((eta[i, j] * rho[j, m] for j in range(i + 1, m)), torch.zeros_like(root))
            rho[i, m] = right_n @ (corners @ y[i, m])
    logs = [torch.zeros((), dtype=torch.float64, device=root.device)]
    for m in range(1, n + 1):
        logs.append((root @ corners @ y[0, m]).log() + best[:m].sum())
    return logs


def _series(left_n: Tensor) -> Tensor:
    """Compute I + L + L² + … as the product of I + L^(2^k), without subtractions, so that zeros stay exact."""
    identity = torch.eye(left_n.shape[0], dtype=torch.float64, device=left_n.device)
    total, power = identity, left_n
    while float(power.detach().amax()) > 1e-20:
        total, power = total @ (identity + power), power @ power
    return total


def naive_pruned_prefix(arguments: InsideArguments, threshold: float, end_factor: float) -> Tensor:
    """Compute ``naive_prefix`` of the derivations whose nodes are probable, and log P(sentence): [B, n + 2].

    A node (i, j, A) is left out if g(i)[A] β(i, j)[A] is less than ``threshold`` times the probability of the words
    before j, all without nodes that were left out; at the end of a sentence ``threshold / end_factor``. All sentences
    have n words.
    """
    return torch.stack([_pruned_sentence(arguments, b, threshold, end_factor) for b in range(arguments.sizes[0])])


def _pruned_sentence(arguments: InsideArguments, b: int, threshold: float, end_factor: float) -> Tensor:
    _, n, split, _ = arguments.sizes
    root, left, right = (rules.double() for rules in (arguments.root, arguments.left, arguments.right))
    emit = arguments.log_emissions[b].double().exp()
    corners = _series(left[:, :split])
    expected, waiting = [root @ corners], [torch.zeros_like(root)]  # g and r
    prefixes = [torch.ones((), dtype=torch.float64)]
    eta: dict[tuple[int, int], Tensor] = {}
    zeta: dict[tuple[int, int], Tensor] = {}
    beta = torch.zeros_like(root)
    for j in range(1, n + 1):
        eta[j - 1, j], zeta[j - 1, j] = left[:, split:] @ emit[j - 1], right[:, split:] @ emit[j - 1]
        prefixes.append(expected[-1] @ eta[j - 1, j] + waiting[-1] @ zeta[j - 1, j])
        least = threshold * prefixes[-1] / (end_factor if j == n else 1.0)
        for i in range(j - 2, -1, -1):
            beta = torch.stack([eta[i, k] * zeta[k, j] for k in range(i + 1, j)]).sum(0)
            beta = beta if arguments.span_bonus is None else beta * arguments.span_bonus[b, i, j].exp()
            nodes = torch.where(expected[i] * beta >= least, beta, 0.0)
            eta[i, j], zeta[i, j] = left[:, :split] @ nodes, right[:, :split] @ nodes
        waiting.append(torch.stack([expected[i] * eta[i, j] for i in range(j)]).sum(0))
        expected.append(waiting[-1] @ right[:, :split] @ corners)
    return torch.stack([*prefixes, root @ beta]).log()
