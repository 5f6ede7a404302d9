"""The forward algorithm of hidden Markov models, with dense or low-rank transitions. README.md derives it.

The other questions take the arguments of ``forward`` as one value, which ``check_arguments`` makes.
"""

from torch import Tensor

from simplepcfg.ops.autograd_context import value_and_gradients
from simplepcfg.ops.forward.arguments import ForwardArguments, Transitions, check_arguments
from simplepcfg.ops.forward.prefixes import GrowingForward, forward_prefixes
from simplepcfg.ops.forward.scaled import scaled_forward
from simplepcfg.ops.forward.viterbi import best_states
from simplepcfg.ops.modes import without_modes

__all__ = [
    "ForwardArguments",
    "GrowingForward",
    "Transitions",
    "best_states",
    "check_arguments",
    "forward",
    "forward_prefixes",
    "state_marginals",
]


@without_modes
def forward(
    log_emissions: Tensor,
    start: Tensor,
    transitions: Transitions,
    *,
    lengths: Tensor | None = None,
    precision: str | None = None,
) -> Tensor:
    """Compute the log-probability of each sentence, summed over all sequences of states.

    Args:
        log_emissions: ``[B, n, S]``, the log-probability of each word under each state.
        start: ``[S]`` or ``[B, S]``, probabilities of the state of the first word.
        transitions: ``[S, S]``, probabilities from a state (row) to the next (column), or a tuple of factors ``[S, r]``
            and ``[r, S]`` whose product they are. Each may have a leading batch dimension.
        lengths: ``[B]``, the lengths of the sentences; n for all of them by default. Positions beyond are ignored.
        precision: "bf16" or "tf32" for the matrix products on a GPU; the default is the precision of the inputs.

    Returns:
        ``[B]`` in nats, differentiable with respect to every tensor argument; −inf for a sentence of probability 0.

    Raises:
        InputError: if a shape, a length or the precision is wrong.

    >>> import torch
    >>> forward(torch.tensor([[[0.5], [0.25]]]).log(), torch.ones(1), torch.ones(1, 1)).exp()
    tensor([0.1250])
    """
    return scaled_forward(check_arguments(log_emissions, start, transitions, lengths, precision))


@without_modes
def state_marginals(given: ForwardArguments, *, create_graph: bool = False) -> tuple[Tensor, Tensor]:
    """Compute log p of each sentence, ``[B]``, and the marginal probability of each state at each word, ``[B, n, S]``.

    The latter is the gradient of log p with respect to the log-emissions. ``create_graph`` says whether the marginals
    can be differentiated.
    """
    log_z, (marginals,) = value_and_gradients(scaled_forward, given, ["log_emissions"], create_graph=create_graph)
    return log_z, marginals
