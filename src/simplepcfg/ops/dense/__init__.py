"""The inside algorithm of an ordinary PCFG, whose binary rules are a dense tensor [N, S, S]."""

from collections.abc import Callable

import torch
from torch import Tensor

from simplepcfg.errors import InputError
from simplepcfg.ops.autocast import without_autocast
from simplepcfg.ops.dense.arguments import DenseArguments, check_dense_arguments
from simplepcfg.ops.dense.backward import Wanted
from simplepcfg.ops.dense.log_space import log_einsum_exp_dense_inside, log_sum_exp_dense_inside
from simplepcfg.ops.dense.naive import naive_dense_inside
from simplepcfg.ops.dense.scaled import FilledChart, scaled_dense_inside
from simplepcfg.ops.recording import recordable, recording

__all__ = ["BACKENDS", "dense_inside", "dense_span_marginals", "dense_symbol_marginals"]

BACKENDS: dict[str, Callable[[DenseArguments], Tensor]] = {
    "naive": naive_dense_inside,
    "log_sum_exp": log_sum_exp_dense_inside,
    "log_einsum_exp": log_einsum_exp_dense_inside,
    "torch": scaled_dense_inside,
}


@without_autocast
def dense_inside(
    log_emissions: Tensor,
    root: Tensor,
    rules: Tensor,
    *,
    lengths: Tensor | None = None,
    span_bonus: Tensor | None = None,
    backend: str = "auto",
) -> Tensor:
    """Compute the log partition function of each sentence: log of the summed probability of its trees, in nats.

    Args:
        log_emissions: ``[B, n, P]``, log emit[T, w_i] of every preterminal at every position; -inf is allowed.
        root: ``[N]`` or ``[B, N]``, probabilities of S → A.
        rules: ``[N, S, S]`` or ``[B, N, S, S]`` with S = N + P, probabilities of A → B C at [A, B, C]; nonterminals
            come first, then preterminals. Each A's sum to 1 over all pairs.
        lengths: ``[B]``, the sentences' lengths where they differ; what lies beyond is never read.
        span_bonus: ``[B, n + 1, n + 1]``, a log-weight for every tree that has the span (i, j), of width 2 or
            more; -inf forbids the span. The gradient by it is the span's marginal.
        backend: ``auto``, or one of ``BACKENDS``.

    A sentence of one word has no tree, hence -inf. Gradients reach every tensor argument; a sentence whose
    probability is 0 gives zero gradients. See README.md in this folder.

    >>> emissions = torch.zeros(1, 3, 1)                        # one preterminal, which emits its word with p = 1
    >>> rules = torch.full((1, 2, 2), 0.25)                     # A → A A, A T, T A, T T with p = 1/4 each
    >>> dense_inside(emissions, torch.ones(1), rules).exp()     # two trees of probability (1/4)²
    tensor([0.1250])
    """
    arguments = check_dense_arguments(log_emissions, root, rules, lengths, span_bonus)
    backend = "torch" if backend == "auto" else backend
    if backend not in BACKENDS:
        raise InputError(f"backend {backend!r} is unknown; take one of auto, {', '.join(BACKENDS)}")
    return BACKENDS[backend](arguments)


@without_autocast
def dense_span_marginals(
    log_emissions: Tensor,
    root: Tensor,
    rules: Tensor,
    *,
    lengths: Tensor | None = None,
    span_bonus: Tensor | None = None,
    backend: str = "auto",
    create_graph: bool = False,
) -> tuple[Tensor, Tensor]:
    """Compute the marginal probability of each span, given the sentence.

    Args:
        create_graph: whether the marginals can be differentiated.

    The other arguments are those of ``dense_inside``.

    Returns:
        ``(log_z, marginals)``: ``[B]``, and ``[B, n + 1, n + 1]`` with the probability that the tree of the sentence
        contains the span (i, j), of width 2 or more; other entries are 0. The marginals of a sentence sum to n − 1, or
        to 0 if the sentence has probability 0.

    Raises:
        InputError: as ``dense_inside`` does.
    """
    arguments = check_dense_arguments(log_emissions, root, rules, lengths, span_bonus)
    batch, n, _, _ = arguments.sizes
    if not create_graph and backend in ("auto", "torch"):
        found = arguments.log_emissions.new_zeros(batch, n + 1, n + 1)
        return _direct(arguments, Wanted(marginals=found)), found
    with recording():
        bonus = recordable(arguments.span_bonus)
        if bonus is None:
            bonus = arguments.log_emissions.new_zeros(batch, n + 1, n + 1)
        # The marginals are the gradient with respect to the bonus. A bonus that is part of the caller's graph stays in
        # it.
        bonus = bonus if create_graph and bonus.requires_grad else bonus.detach().requires_grad_()
        log_z = dense_inside(
            recordable(arguments.log_emissions),
            recordable(arguments.root),
            recordable(arguments.rules),
            lengths=recordable(arguments.lengths),
            span_bonus=bonus,
            backend=backend,
        )
        if n == 1:  # a sentence of one word has no span that counts
            found = torch.zeros_like(bonus, requires_grad=False)
        else:
            (found,) = torch.autograd.grad(log_z.sum(), bonus, create_graph=create_graph, materialize_grads=True)
    return (log_z if create_graph else log_z.detach()), found


@without_autocast
def dense_symbol_marginals(
    log_emissions: Tensor,
    root: Tensor,
    rules: Tensor,
    *,
    lengths: Tensor | None = None,
    span_bonus: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Compute the marginal probability of each nonterminal over each span, given the sentence.

    The arguments are those of ``dense_inside``.

    Returns:
        ``(log_z, marginals)``: ``[B]`` and ``[B, n + 1, n + 1, N]``. Summed over nonterminals this is
        ``dense_span_marginals``. Not differentiable.

    Raises:
        InputError: as ``dense_inside`` does.
    """
    arguments = check_dense_arguments(log_emissions, root, rules, lengths, span_bonus)
    batch, n, nonterminals, _ = arguments.sizes
    found = arguments.log_emissions.new_zeros(batch, n + 1, n + 1, nonterminals)
    return _direct(arguments, Wanted(symbols=found)), found


def _direct(arguments: DenseArguments, wanted: Wanted) -> Tensor:
    """Compute what is wanted without autograd, also in ``torch.inference_mode``; return log Z."""
    with torch.no_grad():
        if arguments.sizes[1] == 1:
            return arguments.log_emissions.new_full((arguments.sizes[0],), -torch.inf)
        chart = FilledChart(arguments)
        chart.backward(torch.ones_like(chart.log_z), wanted)
    return chart.log_z
