"""Sampling of one tree of one sentence under an ordinary PCFG: the reference for tests."""

import torch
from torch import Tensor

from simplepcfg.ops.dense.arguments import DenseArguments
from simplepcfg.ops.sample.naive import draw, sample_top_down
from simplepcfg.ops.trees import LabelledTree


def naive_dense_sample(arguments: DenseArguments, b: int, uniforms: Tensor) -> LabelledTree:
    """Draw a tree of sentence ``b`` by the uniform numbers [2 + 3 (n − 1)] of one row of ``draw_uniforms``."""
    _, n, nonterminals, _ = arguments.sizes
    if arguments.lengths is not None:
        n = int(arguments.lengths[b])
    root = (arguments.root[b] if arguments.root.dim() == 2 else arguments.root).detach().double()
    rules = (arguments.rules[b] if arguments.batched_rules else arguments.rules).detach().double()
    log_emissions = arguments.log_emissions[b, :n].detach().double()
    scale = log_emissions.amax(1, keepdim=True)
    emit = (log_emissions - torch.where(scale.isfinite(), scale, 0.0)).exp()
    beta = {(i, i + 1): emit[i] for i in range(n)}

    def pairs(i: int, k: int, j: int) -> Tensor:
        """Compute rules[A, B, C] β(i,k)[B] β(k,j)[C]."""
        sides = [slice(nonterminals, None) if b - a == 1 else slice(nonterminals) for a, b in ((i, k), (k, j))]
        return rules[:, sides[0], sides[1]] * beta[i, k][:, None] * beta[k, j]

    for width in range(2, n + 1):
        for i in range(n - width + 1):
            j = i + width
            beta[i, j] = torch.stack([pairs(i, k, j).sum((1, 2)) for k in range(i + 1, j)]).sum(0)
            if arguments.span_bonus is not None:
                beta[i, j] = beta[i, j] * arguments.span_bonus[b, i, j].detach().double().exp()

    def choose(i: int, j: int, symbol: int, three: Tensor) -> tuple[int, int, int]:
        weights = [pairs(i, k, j)[symbol] for k in range(i + 1, j)]  # by split: [B, C]
        chosen = draw(torch.stack([weight.sum() for weight in weights]), three[0])
        left = draw(weights[chosen].sum(1), three[1])
        return i + 1 + chosen, left, draw(weights[chosen][left], three[2])

    return sample_top_down(n, root * beta[0, n] if n > 1 else root[:0], uniforms, choose)
