"""The inside algorithm of an ordinary PCFG, whose binary rules are a dense tensor [N, S, S].

The files of this folder answer further questions, of the ``DenseArguments`` that ``check_dense_arguments`` makes.
"""

from torch import Tensor

from simplepcfg.ops.dense.arguments import DenseArguments, check_dense_arguments
from simplepcfg.ops.dense.recursion import dense_log_partition
from simplepcfg.ops.modes import without_modes

__all__ = ["DenseArguments", "check_dense_arguments", "dense_inside"]


@without_modes
def dense_inside(
    log_emissions: Tensor,
    root: Tensor,
    rules: Tensor,
    *,
    lengths: Tensor | None = None,
    span_bonus: Tensor | None = None,
) -> Tensor:
    """Compute the log partition function of each sentence: log of the summed probability of its trees, in nats, [B].

    The arguments are those of ``inside``, but ``rules``, ``[N, S, S]`` or ``[B, N, S, S]`` with S = N + P, are
    probabilities of A → B C at [A, B, C]; nonterminals come first, then preterminals. Each A's sum to 1 over all pairs.

    A sentence of one word has no tree, hence -inf. Gradients reach every tensor argument; a sentence whose probability
    is 0 gives zero gradients. See README.md in this folder.

    >>> import torch
    >>> emissions = torch.zeros(1, 3, 1)                        # one preterminal, which emits its word with p = 1
    >>> rules = torch.full((1, 2, 2), 0.25)                     # A → A A, A T, T A, T T with p = 1/4 each
    >>> dense_inside(emissions, torch.ones(1), rules).exp()     # two trees of probability (1/4)²
    tensor([0.1250])
    """
    return dense_log_partition(check_dense_arguments(log_emissions, root, rules, lengths, span_bonus))
