"""Sampling by CUDA graphs that are replayed if shapes recur. This module imports Triton.

Random numbers are drawn outside of the graphs and are among their arguments, so that the same seed gives the same trees
as without graphs.
"""

from functools import partial
from typing import Any

import torch
from torch import Tensor

from simplepcfg.ops.arguments import InsideArguments
from simplepcfg.ops.graphs import DeviceGraphs
from simplepcfg.ops.inside.layout import ChartLayout
from simplepcfg.ops.inside.padded_chart import chart_inputs, forward_room, make_chart
from simplepcfg.ops.replay import Results, replayed
from simplepcfg.ops.sample.fused import draw_from_packed_chart
from simplepcfg.ops.trees import tree_log_probabilities


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
