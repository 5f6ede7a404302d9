"""The inside algorithm as the paper writes it, in float64: the reference that other backends are tested against."""

import torch
from torch import Tensor

from simplepcfg.ops.arguments import InsideArguments, float64_of_sentence


def naive_inside(arguments: InsideArguments) -> Tensor:
    """Compute log Z in float64 probabilities, one sentence, span and split at a time; differentiated by autograd."""
    batch = arguments.log_emissions.shape[0]
    return torch.stack([_one_sentence(arguments, b) for b in range(batch)])


def _one_sentence(arguments: InsideArguments, b: int) -> Tensor:
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

    beta: dict[tuple[int, int], Tensor] = {}
    eta: dict[tuple[int, int], Tensor] = {}
    zeta: dict[tuple[int, int], Tensor] = {}
    for i in range(n):
        eta[i, i + 1] = left[:, nonterminals:] @ emit[i]
        zeta[i, i + 1] = right[:, nonterminals:] @ emit[i]
    for width in range(2, n + 1):
        for i in range(n - width + 1):
            j = i + width
            beta[i, j] = sum((eta[i, k] * zeta[k, j] for k in range(i + 1, j)), torch.zeros_like(root))
            if arguments.span_bonus is not None:
                beta[i, j] = beta[i, j] * arguments.span_bonus[b, i, j].double().exp()
            eta[i, j] = left[:, :nonterminals] @ beta[i, j]
            zeta[i, j] = right[:, :nonterminals] @ beta[i, j]
    z = root @ beta[0, n] if n > 1 else torch.zeros((), dtype=torch.float64, device=root.device)
    if z.item() == 0.0:
        # A sentence without a tree has log Z = -inf and zero gradients instead of 0/0.
        return z * 0.0 - torch.inf
    return (z.log() + scale.sum()).to(arguments.log_emissions.dtype)
