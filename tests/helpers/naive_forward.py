"""The forward algorithm as textbooks write it, in float64: the reference of `simplepcfg.ops.forward`."""

import torch
from torch import Tensor

from simplepcfg.ops.arguments import float64_of_sentence
from simplepcfg.ops.forward.arguments import ForwardArguments, Transitions, check_arguments


def naive_forward(
    log_emissions: Tensor, start: Tensor, transitions: Transitions, *, lengths: Tensor | None = None
) -> Tensor:
    """Compute log p in float64, one sentence and one word at a time; differentiated by autograd."""
    arguments = check_arguments(log_emissions, start, transitions, lengths)
    return torch.stack([_one_sentence(arguments, b) for b in range(arguments.log_emissions.shape[0])])


def _one_sentence(arguments: ForwardArguments, b: int) -> Tensor:
    n = arguments.log_emissions.shape[1] if arguments.lengths is None else int(arguments.lengths[b])
    log_emissions = arguments.log_emissions[b, :n].double()
    start = float64_of_sentence(arguments.start, b, 1)
    factors = [float64_of_sentence(factor, b, 2) for factor in arguments.factors]
    transitions = factors[0] if len(factors) == 1 else factors[0] @ factors[1]
    # The largest emission and the largest α are divided out, and their logs are added at the end, to avoid underflow.
    best = log_emissions.detach().amax(-1)
    best = torch.where(best.isfinite(), best, 0.0)
    emit = (log_emissions - best[:, None]).exp()
    scale = best.sum()
    alpha = start * emit[0]
    for t in range(1, n):
        largest = alpha.detach().amax()
        if largest > 0:
            alpha, scale = alpha / largest, scale + largest.log()
        alpha = (alpha @ transitions) * emit[t]
    z = alpha.sum()
    if z.item() == 0.0:
        # A sentence of probability 0 has log p = -inf and zero gradients instead of 0/0.
        return (z * 0.0 - torch.inf).to(arguments.log_emissions.dtype)
    return (z.log() + scale).to(arguments.log_emissions.dtype)
