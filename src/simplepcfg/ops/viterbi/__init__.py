"""The Viterbi algorithm of a simple PCFG: the most probable labelled tree of each sentence. README.md derives it."""

from collections.abc import Callable

import torch
from torch import Tensor

from simplepcfg.ops.arguments import InsideArguments, check_arguments, needs_gradient
from simplepcfg.ops.autocast import without_autocast
from simplepcfg.ops.backends import resolve_backend
from simplepcfg.ops.replay import usable_graphs
from simplepcfg.ops.trees import Trees, TreeTensors, empty_trees, stack_trees, tree_log_probabilities
from simplepcfg.ops.viterbi.chart import ViterbiChart
from simplepcfg.ops.viterbi.naive import naive_best_tree

__all__ = ["BACKENDS", "viterbi", "viterbi_chart"]


def _naive(arguments: InsideArguments) -> TreeTensors:
    batch, n, _, _ = arguments.sizes
    with torch.no_grad():
        found = [naive_best_tree(arguments, b) for b in range(batch)]
    return stack_trees(found, n, arguments.log_emissions.device)


def _by_chart(arguments: InsideArguments, backend: str) -> TreeTensors:
    with torch.no_grad():
        chart = viterbi_chart(arguments, backend)
        return chart.trees(chart.fill())


BACKENDS: dict[str, Callable[[InsideArguments], TreeTensors]] = {
    "naive": _naive,
    "torch": lambda arguments: _by_chart(arguments, "torch"),
    "triton": lambda arguments: _by_chart(arguments, "triton"),
}


@without_autocast
def viterbi(
    log_emissions: Tensor,
    root: Tensor,
    left: Tensor,
    right: Tensor,
    *,
    lengths: Tensor | None = None,
    span_bonus: Tensor | None = None,
    backend: str = "auto",
) -> Trees:
    """Find the most probable labelled tree of each sentence.

    The arguments are those of ``simplepcfg.ops.inside.inside``.

    Returns:
        ``Trees`` with leading dimension [B]. The log-probability is differentiable with respect to rules, emissions and
        bonus. Of equally probable trees the one with the leftmost split, then with the first symbol, is returned. A
        sentence of one word, or of probability 0, has no tree: its entries are -1 and its log-probability is -inf.

    Raises:
        InputError: as ``inside`` does.

    >>> rules = torch.tensor([[0.2, 0.8]])                          # one nonterminal, one preterminal
    >>> trees = viterbi(torch.zeros(1, 2, 1), torch.ones(1), rules, rules)
    >>> trees.spans.tolist(), trees.labels.tolist(), trees.tags.tolist(), trees.log_probability.exp()
    ([[[0, 2]]], [[0]], [[0, 0]], tensor([0.6400]))
    """
    arguments = check_arguments(log_emissions, root, left, right, lengths, span_bonus, None)
    backend = resolve_backend(backend, log_emissions, BACKENDS)
    batch, n, _, _ = arguments.sizes
    sentence = torch.arange(batch, device=log_emissions.device)
    if n == 1:
        return empty_trees(batch, log_emissions)
    if backend == "triton" and (graphs := usable_graphs(arguments.log_emissions.device)) is not None:
        from simplepcfg.ops.viterbi.replayed import replayed_trees, uses_graph

        if uses_graph(arguments):
            spans, splits, labels, tags, scores = replayed_trees(graphs, arguments)
            if needs_gradient(arguments):
                scores = tree_log_probabilities(arguments, sentence, spans, splits, labels, tags)
            return Trees(spans, splits, labels, tags, scores)
    found = BACKENDS[backend](arguments)
    return Trees(*found, tree_log_probabilities(arguments, sentence, *found))


def viterbi_chart(arguments: InsideArguments, backend: str) -> ViterbiChart:
    """Create an empty chart for a backend. Triton is imported on first use only."""
    if backend != "triton":
        return ViterbiChart(arguments)
    from simplepcfg.ops.viterbi.fused import FusedViterbiChart

    return FusedViterbiChart(arguments)
