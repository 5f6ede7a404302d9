"""The inside algorithm of an ordinary PCFG as textbooks write it, in float64: the reference for tests."""

import torch
from torch import Tensor

from simplepcfg.ops.dense.arguments import DenseArguments


def naive_dense_inside(arguments: DenseArguments) -> Tensor:
    """Compute log Z in float64 probabilities, one sentence, span and split at a time; differentiated by autograd."""
    return torch.stack([_one_sentence(arguments, b) for b in range(arguments.sizes[0])])


def _one_sentence(arguments: DenseArguments, b: int) -> Tensor:
    _, n, nonterminals, _ = arguments.sizes
    if arguments.lengths is not None:
        n = int(arguments.lengths[b])
    root = (arguments.root[b] if arguments.root.dim() == 2 else arguments.root).double()
    rules = (arguments.rules[b] if arguments.batched_rules else arguments.rules).double()
    log_emissions = arguments.log_emissions[b, :n].double()
    # Emissions are divided by each word's largest, and its log is added at the end, to avoid underflow.
    scale = log_emissions.detach().amax(1, keepdim=True)
    scale = torch.where(scale.isfinite(), scale, torch.zeros_like(scale))
    beta = {(i, i + 1): row for i, row in enumerate((log_emissions - scale).exp())}

    def symbols(i: int, j: int) -> slice:
        return slice(nonterminals, None) if j - i == 1 else slice(nonterminals)

    for width in range(2, n + 1):
        for i in range(n - width + 1):
            j = i + width
            beta[i, j] = torch.zeros_like(root)
            for k in range(i + 1, j):
                block = rules[:, symbols(i, k), symbols(k, j)]
                beta[i, j] = beta[i, j] + torch.einsum("abc,b,c->a", block, beta[i, k], beta[k, j])
            if arguments.span_bonus is not None:
                beta[i, j] = beta[i, j] * arguments.span_bonus[b, i, j].double().exp()
    z = root @ beta[0, n] if n > 1 else torch.zeros((), dtype=torch.float64, device=root.device)
    if z.item() == 0.0:
        # A sentence without a tree has log Z = -inf and zero gradients instead of 0/0.
        return (z * 0.0 - torch.inf).to(arguments.log_emissions.dtype)
    return (z.log() + scale.sum()).to(arguments.log_emissions.dtype)
