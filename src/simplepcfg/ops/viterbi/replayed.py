"""Viterbi trees by a CUDA graph that is replayed if the shape of a batch recurs. This module imports Triton."""

from dataclasses import replace

import torch
from torch import Tensor

from simplepcfg.ops.arguments import InsideArguments
from simplepcfg.ops.graphs import DeviceGraphs
from simplepcfg.ops.inside.layout import ChartLayout
from simplepcfg.ops.inside.padded_chart import chart_inputs
from simplepcfg.ops.replay import Results, replayed
from simplepcfg.ops.trees import tree_log_probabilities
from simplepcfg.ops.viterbi.fused import FusedViterbiChart

# Additions of a max-plus product that take about as long as launching the kernels one by one: an H200 does 1.4e13 a
# second, and launches take some milliseconds.
MOST_ADDITIONS = 1e11
# Padding sentences to n words may cost this many.
MOST_WASTED_ADDITIONS = 3e10


def uses_graph(arguments: InsideArguments) -> bool:
    """Return whether launching the kernels of a call one by one takes longer than running them, about."""
    batch, n, _, _ = arguments.sizes
    padded = _additions(arguments, [n] * batch)
    if arguments.lengths is None:
        return padded <= MOST_ADDITIONS
    needed = _additions(arguments, arguments.lengths.tolist())
    return padded <= MOST_ADDITIONS and padded - needed <= MOST_WASTED_ADDITIONS


def replayed_trees(graphs: DeviceGraphs, arguments: InsideArguments) -> Results:
    """Compute spans, splits, labels and tags of the best trees and their log-probabilities, which have no gradient.

    In a batch of mixed lengths every sentence has the rows of n words. What lies beyond its end has no influence on its
    tree: no span within the sentence contains it, and maxima do not depend on their order.
    """
    return replayed(graphs, ("viterbi",), _best_trees, chart_inputs(arguments), _room(arguments))


def _best_trees(
    log_emissions: Tensor, root: Tensor, rules: tuple[Tensor, Tensor], span_bonus: Tensor | None, tables: Tensor | None
) -> tuple[Results, ChartLayout]:
    arguments = InsideArguments(log_emissions, root, *rules, None, span_bonus, None)
    chart = FusedViterbiChart(arguments)
    if tables is not None:
        lengths, tops = tables
        chart.layout = replace(chart.layout, length_of_sentence=lengths, top_rows=tops)
    trees = chart.trees(chart.fill())
    sentence = torch.arange(chart.batch, device=chart.device)
    return (*trees, tree_log_probabilities(arguments, sentence, *trees)), chart.layout


def _additions(arguments: InsideArguments, lengths: list[int]) -> int:
    _, _, states, tags = arguments.sizes
    return 4 * states * sum(states * (m * (m - 1) // 2) + tags * m for m in lengths)


def _room(arguments: InsideArguments) -> int:
    """Estimate the memory of the chart and of the transposed rules."""
    batch, n, states, tags = arguments.sizes
    copies = batch if arguments.batched_rules else 1
    numbers = 3 * states * batch * n * (n + 1) // 2 + 2 * states * (states + tags) * copies + 2 * batch * n * tags
    return numbers * arguments.log_emissions.element_size()
