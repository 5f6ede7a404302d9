"""The inside algorithm as the paper writes it, in float64: the reference that other backends are tested against."""

from typing import NamedTuple

import torch
from torch import Tensor

from simplepcfg.ops.arguments import InsideArguments, float64_of_sentence

Spans = dict[tuple[int, int], Tensor]


class NaiveChart(NamedTuple):
    """β, η and ζ of every span of one sentence, and its rules, in float64."""

    n: int
    root: Tensor  # [N]
    left: Tensor  # [N, N + P]
    right: Tensor
    scale: Tensor  # [n, 1]: log of the largest emission of each word, by which β of words is divided
    beta: Spans  # [P] of words, [N] of wider spans
    eta: Spans
    zeta: Spans


def naive_inside(arguments: InsideArguments) -> Tensor:
    """Compute log Z in float64 probabilities, one sentence, span and split at a time; differentiated by autograd."""
    return torch.stack([_log_z(arguments, b) for b in range(arguments.sizes[0])])


def naive_chart(arguments: InsideArguments, b: int) -> NaiveChart:
    """Compute the chart of sentence ``b``."""
    _, n, nonterminals, _ = arguments.sizes
    if arguments.lengths is not None:
        n = int(arguments.lengths[b])
    root = float64_of_sentence(arguments.root, b, 1)
    left, right = float64_of_sentence(arguments.left, b, 2), float64_of_sentence(arguments.right, b, 2)
    log_emissions = arguments.log_emissions[b, :n].double()
    # Emissions are divided by each word's largest, and its log is added at the end, to avoid underflow.
    scale = log_emissions.detach().amax(1, keepdim=True)
    scale = torch.where(scale.isfinite(), scale, torch.zeros_like(scale))
    emit = (log_emissions - scale).exp()  # [n, P]

    beta: Spans = {(i, i + 1): emit[i] for i in range(n)}
    eta: Spans = {(i, i + 1): left[:, nonterminals:] @ emit[i] for i in range(n)}
    zeta: Spans = {(i, i + 1): right[:, nonterminals:] @ emit[i] for i in range(n)}
    for width in range(2, n + 1):
        for i in range(n - width + 1):
            j = i + width
            beta[i, j] = sum((eta[i, k] * zeta[k, j] for k in range(i + 1, j)), torch.zeros_like(root))
            if arguments.span_bonus is not None:
                beta[i, j] = beta[i, j] * arguments.span_bonus[b, i, j].double().exp()
            eta[i, j] = left[:, :nonterminals] @ beta[i, j]
            zeta[i, j] = right[:, :nonterminals] @ beta[i, j]
    return NaiveChart(n, root, left, right, scale, beta, eta, zeta)


def _log_z(arguments: InsideArguments, b: int) -> Tensor:
    chart = naive_chart(arguments, b)
    z = chart.root @ chart.beta[0, chart.n] if chart.n > 1 else (0.0 * chart.root).sum()
    if z.item() == 0.0:
        # A sentence without a tree has log Z = -inf and zero gradients instead of 0/0.
        return z * 0.0 - torch.inf
    return (z.log() + chart.scale.sum()).to(arguments.log_emissions.dtype)
