"""The inside algorithm of a simple PCFG: log partition function and span marginals, with several backends."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from simplepcfg.ops.arguments import (
    InsideArguments,
    Sentences,
    SimpleRules,
    check_arguments,
    check_shapes,
    check_tensors,
    check_values,
)
from simplepcfg.ops.autograd_context import value_and_gradients
from simplepcfg.ops.backends import resolve_backend
from simplepcfg.ops.cuda_graphs.calls import clear_graphs, graph_memory, without_graphs
from simplepcfg.ops.inside.autograd import chart_inside, chart_span_marginals
from simplepcfg.ops.inside.log_space import log_einsum_exp_inside, log_sum_exp_inside
from simplepcfg.ops.inside.naive import naive_inside
from simplepcfg.ops.inside.operators import operator_inside, operator_span_marginals

__all__ = ["BACKENDS", "clear_graphs", "graph_memory", "inside", "span_marginals", "without_graphs"]


BACKENDS: dict[str, Callable[[InsideArguments], Tensor]] = {
    "naive": naive_inside,
    "log_sum_exp": log_sum_exp_inside,
    "log_einsum_exp": log_einsum_exp_inside,
    "torch": partial(chart_inside, "torch"),
    "triton": partial(chart_inside, "triton"),
}
# Backends that compute span marginals without autograd.
_DIRECT_MARGINALS: dict[str, Callable[[InsideArguments], tuple[Tensor, Tensor]]] = {
    "torch": partial(chart_span_marginals, "torch"),
    "triton": partial(chart_span_marginals, "triton"),
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
    """Compute the log partition function of each sentence: log of the summed probability of its trees, in nats.

    Args:
        log_emissions: ``[B, n, P]``, log emit[T, w_i] of every preterminal at every position; -inf is allowed.
        root: ``[N]`` or ``[B, N]``, probabilities of S → A.
        left: ``[N, N + P]`` or ``[B, N, N + P]``, probabilities of the left child given the parent; nonterminal
            columns first, then preterminals. Each row sums to 1.
        right: the same for the right child.
        lengths: ``[B]``, the lengths of the sentences; n for all of them by default. Positions beyond a sentence's
            length are ignored.
        span_bonus: ``[B, n + 1, n + 1]``, a log-weight that is added for each span (i, j) of width 2 or more that a
            tree contains; -inf forbids the span. The gradient with respect to it is the span's marginal.
        precision: "bf16", "tf32" or "fp32" (the default) for the matrix products; some backends ignore it.
        backend: "auto", or a key of ``BACKENDS``.

    Returns:
        ``[B]``, differentiable with respect to every tensor argument. A sentence of probability 0, such as any sentence
        of one word, which has no tree, has -inf and zero gradients.

    Raises:
        InputError: if a shape, a dtype, a length or a name is wrong, if probabilities are given in place of
            log-emissions (on a CPU), or if the backend cannot run on these tensors.

    README.md in this folder derives the recursion and describes the layout of the chart.

    >>> emissions = torch.zeros(1, 3, 1)                        # one preterminal, which emits its word with p = 1
    >>> rules = torch.full((1, 2), 0.5)                         # A → A A, A T, T A, T T with p = 1/4 each
    >>> inside(emissions, torch.ones(1), rules, rules).exp()    # two trees of probability (1/4)²
    tensor([0.1250])
    """
    check_tensors(log_emissions, root, left, right)
    rules, sentences = SimpleRules(root, left, right, precision), Sentences(log_emissions, lengths, span_bonus)
    return log_partition(rules, sentences, backend=backend)


def log_partition(rules: SimpleRules, sentences: Sentences, *, backend: str = "auto") -> Tensor:
    """Compute ``inside`` of rules and sentences."""
    return inside_of(check_shapes(rules, sentences), backend)


def inside_of(given: InsideArguments, backend: str) -> Tensor:
    """Compute ``inside`` of arguments whose shapes have been checked, and whose values have not."""
    if torch.compiler.is_compiling() and backend in ("auto", "torch", "triton"):
        return operator_inside(backend, given)
    arguments = check_values(given)
    return BACKENDS[resolve_backend(backend, given.log_emissions, BACKENDS)](arguments)


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
    """Compute the marginal probability of each span, given the sentence.

    Args:
        create_graph: whether the marginals can be differentiated.

    The other arguments are those of ``inside``.

    Returns:
        ``(log_z, marginals)``: the log partition function ``[B]``, and ``[B, n + 1, n + 1]`` with the probability that
        the tree of the sentence contains the span (i, j), of width 2 or more; other entries are 0. The marginals of a
        sentence sum to n − 1, or to 0 if the sentence has probability 0.

    Raises:
        InputError: as ``inside`` does.

    >>> emissions, rules = torch.zeros(1, 3, 1), torch.full((1, 2), 0.5)
    >>> log_z, marginals = span_marginals(emissions, torch.ones(1), rules, rules)
    >>> marginals[0, 0, 3], marginals[0, 0, 2], marginals[0, 1, 3]    # the sentence, and two equally probable spans
    (tensor(1.), tensor(0.5000), tensor(0.5000))
    """
    check_tensors(log_emissions, root, left, right)
    rules, sentences = SimpleRules(root, left, right, precision), Sentences(log_emissions, lengths, span_bonus)
    return log_partition_and_spans(rules, sentences, backend=backend, create_graph=create_graph)


def log_partition_and_spans(
    rules: SimpleRules, sentences: Sentences, *, backend: str = "auto", create_graph: bool = False
) -> tuple[Tensor, Tensor]:
    """Compute ``span_marginals`` of rules and sentences."""
    if torch.compiler.is_compiling() and not create_graph and backend in ("auto", *_DIRECT_MARGINALS):
        return operator_span_marginals(backend, check_shapes(rules, sentences))
    backend = resolve_backend(backend, sentences.log_emissions, BACKENDS)
    if not create_graph and backend in _DIRECT_MARGINALS:
        with torch.no_grad():
            return _DIRECT_MARGINALS[backend](check_arguments(rules, sentences))
    given = check_shapes(rules, sentences)
    batch, n, _, _ = given.sizes
    if given.span_bonus is None:  # the marginals are the gradient with respect to it
        given = replace(given, span_bonus=given.log_emissions.new_zeros(batch, n + 1, n + 1))
    function = partial(inside_of, backend=backend)
    log_z, (marginals,) = value_and_gradients(function, given, ["span_bonus"], create_graph=create_graph)
    return log_z, marginals
