"""Sampling on a CUDA GPU: the packed inside chart, then one kernel launch for each node of all trees."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from simplepcfg.ops.arguments import InsideArguments
from simplepcfg.ops.descent import Nodes
from simplepcfg.ops.inside.packed_chart import PackedChart
from simplepcfg.ops.sample import kernels
from simplepcfg.ops.sample.draws import root_symbols
from simplepcfg.ops.sample.lengths import LengthTable

CHILDREN_AT_ONCE = 1024


def draw_from_chart(arguments: InsideArguments, samples: int, uniforms: Tensor) -> Nodes:
    """Draw ``samples`` trees of each sentence; ``uniforms`` has one row for each tree, sentence by sentence."""
    chart = PackedChart(arguments)
    batch, n, states, tags = arguments.sizes
    log_z = chart.fill()
    layout = chart.layout
    places = layout.order.long().argsort()
    top = chart.beta[layout.top_rows.clamp(min=0).long()][places]
    roots = root_symbols(arguments, top, log_z, uniforms[:, 1].view(batch, samples))
    lengths = layout.length_of_sentence.long()[places][:, None].expand(-1, samples).reshape(-1)
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
