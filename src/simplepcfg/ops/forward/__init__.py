"""The forward algorithm of hidden Markov models, with whole or factored transitions; see the README here."""

import torch
from torch import Tensor

from simplepcfg.errors import InputError
from simplepcfg.ops.forward.arguments import Transitions, check_arguments
from simplepcfg.ops.forward.autograd import scaled_forward
from simplepcfg.ops.forward.entropy import state_entropy
from simplepcfg.ops.forward.k_best import k_best_states
from simplepcfg.ops.forward.naive import naive_forward
from simplepcfg.ops.forward.prefixes import (
    ForwardPrefixes,
    GrowingForward,
    forward_prefixes,
    prefix_log_probabilities,
)
from simplepcfg.ops.forward.viterbi import best_states

__all__ = [
    "ForwardPrefixes",
    "GrowingForward",
    "Transitions",
    "best_states",
    "forward",
    "forward_prefixes",
    "k_best_states",
    "prefix_log_probabilities",
    "state_entropy",
    "state_marginals",
]

BACKENDS = ("auto", "naive", "torch")


def forward(
    log_emissions: Tensor,
    start: Tensor,
    transitions: Transitions,
    *,
    lengths: Tensor | None = None,
    precision: str | None = None,
    backend: str = "auto",
) -> Tensor:
    """log p of each sentence in nats, summed over all sequences of states: ``[B]``; −inf where there is none.

    Args:
        log_emissions: ``[B, n, S]``, log-probability of each word under each state.
        start: ``[S]`` or ``[B, S]``, probabilities of the first word's state.
        transitions: ``[S, S]`` from a state (row) to the next, or factors ``(U [S, r], V [r, S])`` whose product that
            is; each may have a leading batch dimension.
        lengths: ``[B]`` where sentences differ; what lies beyond is not read.
        precision: "bf16" and "tf32" are how products are made on a GPU; the default is as exact as the inputs.

    >>> forward(torch.tensor([[[0.5], [0.25]]]).log(), torch.ones(1), torch.ones(1, 1)).exp()
    tensor([0.1250])
    """
    if backend not in BACKENDS:
        raise InputError(f"backend {backend!r} is unknown; take one of {', '.join(BACKENDS)}")
    arguments = check_arguments(log_emissions, start, transitions, lengths, precision)
    return naive_forward(arguments) if backend == "naive" else scaled_forward(arguments)


def state_marginals(
    log_emissions: Tensor,
    start: Tensor,
    transitions: Transitions,
    *,
    lengths: Tensor | None = None,
    precision: str | None = None,
    backend: str = "auto",
    create_graph: bool = False,
) -> tuple[Tensor, Tensor]:
    """log p ``[B]`` and each word's posterior over states ``[B, n, S]``: the derivative of log p by log-emissions."""
    with torch.enable_grad():
        leaf = log_emissions if create_graph and log_emissions.requires_grad else log_emissions.detach()
        if not leaf.requires_grad:
            leaf.requires_grad_()
        log_z = forward(leaf, start, transitions, lengths=lengths, precision=precision, backend=backend)
        (found,) = torch.autograd.grad(log_z.sum(), leaf, create_graph=create_graph)
    return (log_z, found) if create_graph else (log_z.detach(), found)
