"""The Viterbi algorithm of a simple PCFG: the most probable labelled tree of each sentence. README.md derives it."""

from collections.abc import Callable

import torch

from simplepcfg.ops.arguments import InsideArguments, Sentences, SimpleRules, check_arguments, some_sentences
from simplepcfg.ops.backends import resolve_backend
from simplepcfg.ops.modes import without_modes
from simplepcfg.ops.trees import (
    LabelledTree,
    Trees,
    TreeTensors,
    empty_trees,
    rule_log_probabilities,
    scored_trees,
    stack_trees,
)
from simplepcfg.ops.viterbi.chart import ViterbiChart
from simplepcfg.ops.viterbi.pruned import pruned_best_trees

__all__ = ["BACKENDS", "viterbi", "viterbi_chart"]

# With fewer nonterminals the chart of all nodes takes less time on a CPU than finding those that matter.
LEAST_PRUNED = 128
NO_TREE = LabelledTree([], [], [], -torch.inf)


def _by_chart(arguments: InsideArguments, backend: str) -> TreeTensors:
    with torch.no_grad():
        chart = viterbi_chart(arguments, backend)
        return chart.trees(chart.fill())


def _pruned(arguments: InsideArguments) -> TreeTensors:
    """Search over the nodes that matter; sentences for which these are too many take the chart of all nodes."""
    trees = pruned_best_trees(arguments)
    left_over = [b for b, tree in enumerate(trees) if tree is None]
    tensors = stack_trees([tree or NO_TREE for tree in trees], arguments.sizes[1], arguments.log_emissions.device)
    if left_over:
        rest = _by_chart(some_sentences(arguments, torch.tensor(left_over)), "torch")
        for every, some in zip(tensors, rest, strict=True):
            every[left_over] = some
    return tensors


BACKENDS: dict[str, Callable[[InsideArguments], TreeTensors]] = {
    "torch": lambda arguments: _by_chart(arguments, "torch"),
    "pruned": _pruned,
    "triton": lambda arguments: _by_chart(arguments, "triton"),
}


@without_modes
def viterbi(rules: SimpleRules, sentences: Sentences, *, backend: str = "auto") -> Trees:
    """Find the most probable labelled tree of each sentence; ``backend`` is "auto", or a key of ``BACKENDS``.

    Returns:
        ``Trees`` with leading dimension [B]. The log-probability is differentiable with respect to rules, emissions and
        bonus. Of equally probable trees the one with the leftmost split, then with the first symbol, is returned. A
        sentence of one word, or of probability 0, has no tree: its entries are -1 and its log-probability is -inf.

    Raises:
        InputError: as ``inside`` does.

    >>> sides = torch.tensor([[0.2, 0.8]])                          # one nonterminal, one preterminal
    >>> trees = viterbi(SimpleRules(torch.ones(1), sides, sides), Sentences(torch.zeros(1, 2, 1)))
    >>> trees.spans.tolist(), trees.labels.tolist(), trees.tags.tolist(), trees.log_probability.exp()
    ([[[0, 2]]], [[0]], [[0, 0]], tensor([0.6400]))
    """
    arguments = check_arguments(rules, sentences)
    log_emissions = arguments.log_emissions
    backend = tree_backend(backend, arguments)
    batch, n, _, _ = arguments.sizes
    sentence = torch.arange(batch, device=log_emissions.device)
    if n == 1:
        return empty_trees(batch, log_emissions)
    trees = BACKENDS[backend](arguments)
    log_rules = rule_log_probabilities(arguments.rules, sentence, trees)
    return scored_trees(trees, log_rules, log_emissions, arguments.span_bonus, sentence)


def tree_backend(backend: str, arguments: InsideArguments) -> str:
    """Return the backend to use: a CPU prunes the nodes of large grammars. Raises InputError as ``viterbi`` does."""
    log_emissions = arguments.log_emissions
    if backend == "auto" and log_emissions.device.type == "cpu" and arguments.sizes[2] >= LEAST_PRUNED:
        return "pruned"
    return resolve_backend(backend, log_emissions, BACKENDS)


def viterbi_chart(arguments: InsideArguments, backend: str) -> ViterbiChart:
    """Create an empty chart for a backend. Triton is imported on first use only."""
    if backend != "triton":
        return ViterbiChart(arguments)
    from simplepcfg.ops.viterbi.fused import FusedViterbiChart

    return FusedViterbiChart(arguments)
