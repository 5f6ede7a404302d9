"""Sampling on a CUDA GPU: the packed inside chart, then one kernel launch for each node of all trees.

Random numbers are drawn outside of CUDA graphs and are among their arguments, so that the same seed gives the same
trees with and without graphs.
"""

from functools import partial
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from simplepcfg.ops.arguments import InsideArguments
from simplepcfg.ops.descent import Nodes
from simplepcfg.ops.graphs import DeviceGraphs
from simplepcfg.ops.inside.layout import ChartLayout
from simplepcfg.ops.inside.packed_chart import PackedChart
from simplepcfg.ops.inside.padded_chart import chart_inputs, forward_room, make_chart
from simplepcfg.ops.replay import Results, replayed
from simplepcfg.ops.sample import kernels
from simplepcfg.ops.sample.draws import root_symbols
from simplepcfg.ops.sample.lengths import LengthTable
from simplepcfg.ops.trees import tree_log_probabilities

CHILDREN_AT_ONCE = 1024


def draw_from_chart(arguments: InsideArguments, samples: int, uniforms: Tensor) -> Nodes:
    """Draw ``samples`` trees of each sentence; ``uniforms`` has one row for each tree, sentence by sentence."""
    chart = PackedChart(arguments)
    return draw_from_packed_chart(chart, chart.layout.length_of_sentence, samples, uniforms)


def draw_from_packed_chart(chart: PackedChart, lengths: Tensor, samples: int, uniforms: Tensor) -> Nodes:
    """Fill a chart and draw trees from it; ``lengths`` are those of the sentences in the order of its layout."""
    batch, n, states, tags = chart.arguments.sizes
    log_z = chart.fill()
    layout = chart.layout
    places = layout.order.long().argsort()
    top = chart.beta[layout.top_rows.clamp(min=0).long()][places]
    roots = root_symbols(chart.arguments, top, log_z, uniforms[:, 1].view(batch, samples))
    lengths = lengths.long()[places][:, None].expand(-1, samples).reshape(-1)
    nodes = Nodes.begin(roots.view(-1), lengths, n)
    strides = (samples, chart.rules.stride(0) if chart.rules.dim() == 3 else 0)
    _draw(
        nodes,
        (chart.chart, chart.beta, chart.emit, chart.exponent, chart.rules),
        uniforms,
        (layout.first_rows, layout.words_before, places),
        (states, tags),
        strides,
        by_width=False,
    )
    return nodes


def draw_by_length(nodes: Nodes, table: LengthTable, uniforms: Tensor) -> None:
    """Draw all nodes below the first of each tree, given the lengths of the trees only."""
    tensors = (table.children, table.beta, table.words, table.exponent, table.all_rules)
    sizes = (table.beta.shape[1], table.words.shape[1])
    _draw(nodes, tensors, uniforms, (table.exponent,) * 3, sizes, (1, 0), by_width=True)


def _draw(
    nodes: Nodes,
    tensors: tuple[Tensor, ...],
    uniforms: Tensor,
    places: tuple[Tensor, ...],
    sizes: tuple[int, int],
    strides: tuple[int, int],
    by_width: bool,
) -> None:
    trees, n = nodes.labels.shape
    work = tl.float64 if tensors[1].dtype == torch.float64 else tl.float32
    block = min(triton.next_power_of_2(max(sizes)), CHILDREN_AT_ONCE)
    samples, stride = strides
    for step in range(n - 1):
        kernels.draw_kernel[(trees, 2)](
            *tensors, uniforms, nodes.starts, nodes.ends, nodes.splits, nodes.labels, nodes.tags, *places, step, n,
            *sizes, samples, uniforms.shape[1], stride,
            BY_WIDTH=by_width, WORK=work, SPLITS=triton.next_power_of_2(max(n - 1, 2)), BLOCK=block,
        )  # fmt: skip


def replayed_trees(graphs: DeviceGraphs, arguments: InsideArguments, samples: int, uniforms: Tensor) -> Results:
    """Draw spans, splits, labels and tags of trees and compute their log-probabilities, which have no gradient."""
    room = forward_room(arguments) + 10 * uniforms.nbytes
    question = ("sample", samples, arguments.precision)
    run = partial(_run, arguments.precision, samples)
    return replayed(graphs, question, run, (uniforms, *chart_inputs(arguments)), room)


def _run(precision: str | None, samples: int, uniforms: Tensor, *inputs: Any) -> tuple[Results, ChartLayout]:
    chart = make_chart(precision, *inputs)
    tables: Tensor | None = inputs[-1]
    lengths = chart.layout.length_of_sentence if tables is None else tables[0]
    trees = draw_from_packed_chart(chart, lengths, samples, uniforms).to_tensors()
    sentence = torch.arange(chart.batch * samples, device=chart.device) // samples
    return (*trees, tree_log_probabilities(chart.arguments, sentence, *trees)), chart.layout
