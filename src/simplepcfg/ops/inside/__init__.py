"""The inside algorithm of a simple PCFG, several ways behind one function."""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from simplepcfg.ops.backends import chosen_backend
from simplepcfg.ops.inside.arguments import InsideArguments, check_arguments
from simplepcfg.ops.inside.log_space import log_einsum_exp_inside, log_sum_exp_inside
from simplepcfg.ops.inside.naive import naive_inside
from simplepcfg.ops.inside.scaled import scaled_inside, scaled_span_marginals

__all__ = ["BACKENDS", "inside", "span_marginals"]


def _fused_inside(arguments: InsideArguments) -> Tensor:
    """Triton is imported here, on first use: an install without it has every other backend."""
    from simplepcfg.ops.inside.fused import fused_inside

    return fused_inside(arguments)


def _fused_span_marginals(arguments: InsideArguments) -> tuple[Tensor, Tensor]:
    from simplepcfg.ops.inside.fused import fused_span_marginals

    return fused_span_marginals(arguments)


def _paper_inside(arguments: InsideArguments, recompute: bool) -> Tensor:
    from simplepcfg.ops.paper_inside.chart import paper_inside

    return paper_inside(arguments, recompute)


BACKENDS: dict[str, Callable[[InsideArguments], Tensor]] = {
    "naive": naive_inside,
    "log_sum_exp": log_sum_exp_inside,
    "log_einsum_exp": log_einsum_exp_inside,
    "torch": scaled_inside,
    "triton": _fused_inside,
    "paper": partial(_paper_inside, recompute=False),
    "paper_recompute": partial(_paper_inside, recompute=True),
}
# Backends that give span marginals without going through autograd.
_DIRECT_MARGINALS: dict[str, Callable[[InsideArguments], tuple[Tensor, Tensor]]] = {
    "torch": scaled_span_marginals,
    "triton": _fused_span_marginals,
}


def inside(
    log_emissions: Tensor,
    root: Tensor,
    left: Tensor,
    right: Tensor,
    *,
    lengths: Tensor | None = None,
    span_bonus: Tensor | None = None,
    precision: str | None = None,
    backend: str = "auto",
) -> Tensor:
    """Log-probability of each sentence, summed over all its trees, in nats: ``[B]``.

    Args:
        log_emissions: ``[B, n, P]``, log emit[T, w_i] of every preterminal at every position; -inf is allowed.
        root: ``[N]`` or ``[B, N]``, probabilities of S → A.
        left: ``[N, N + P]`` or ``[B, N, N + P]``, probabilities of the left child given the parent; nonterminal
            columns first, then preterminals. Each row sums to 1.
        right: the same for the right child.
        lengths: ``[B]``, the sentences' lengths where they differ; what lies beyond is never read.
        span_bonus: ``[B, n + 1, n + 1]``, a log-weight for every tree that has the span (i, j), of width 2 or
            more; -inf forbids the span. The gradient by it is the span's marginal.
        precision: of the matrix products, for backends that have a choice.
        backend: ``auto``, or one of ``BACKENDS``.

    A sentence of one word has no tree, hence -inf. Gradients reach every tensor argument; a sentence whose
    probability is 0 gives zero gradients. See README.md in this folder for the derivation and the layout.

    >>> emissions = torch.zeros(1, 3, 1)                        # one preterminal that emits its word surely
    >>> rules = torch.full((1, 2), 0.5)                         # A → A A, A T, T A, T T, a quarter each
    >>> inside(emissions, torch.ones(1), rules, rules).exp()    # two trees of probability (1/4)²
    tensor([0.1250])
    """
    arguments = check_arguments(log_emissions, root, left, right, lengths, span_bonus, precision)
    return BACKENDS[chosen_backend(backend, log_emissions, BACKENDS)](arguments)


def span_marginals(
    log_emissions: Tensor,
    root: Tensor,
    left: Tensor,
    right: Tensor,
    *,
    lengths: Tensor | None = None,
    span_bonus: Tensor | None = None,
    precision: str | None = None,
    backend: str = "auto",
    create_graph: bool = False,
) -> tuple[Tensor, Tensor]:
    """``(log Z [B], marginals [B, n + 1, n + 1])``: the probability that a tree of the sentence has span (i, j).

    Spans of width 2 or more; the others stay 0. For every possible sentence the marginals sum to n − 1.
    With ``create_graph`` the marginals can be differentiated in turn.
    """
    backend = chosen_backend(backend, log_emissions, BACKENDS)
    if not create_graph and backend in _DIRECT_MARGINALS:
        arguments = check_arguments(log_emissions, root, left, right, lengths, span_bonus, precision)
        with torch.no_grad():
            return _DIRECT_MARGINALS[backend](arguments)
    batch, n, _ = log_emissions.shape
    if span_bonus is None:
        span_bonus = log_emissions.new_zeros(batch, n + 1, n + 1)
    # A bonus that is itself part of a graph stays in it; any other is ours to differentiate by.
    span_bonus = span_bonus if create_graph and span_bonus.requires_grad else span_bonus.detach().requires_grad_()
    with torch.enable_grad():
        log_z = inside(
            log_emissions,
            root,
            left,
            right,
            lengths=lengths,
            span_bonus=span_bonus,
            precision=precision,
            backend=backend,
        )
        (marginals,) = torch.autograd.grad(log_z.sum(), span_bonus, create_graph=create_graph)
    return (log_z if create_graph else log_z.detach()), marginals
