"""Sampling by CUDA graphs that are replayed if shapes recur. This module imports Triton.

Random numbers are drawn outside of the graphs and are among their arguments, so that the same seed gives the same trees
as without graphs.
"""

from functools import partial
from typing import Any

import torch
from torch import Tensor

from simplepcfg.ops.descent import Nodes
from simplepcfg.ops.graphs import DeviceGraphs
from simplepcfg.ops.inside.arguments import InsideArguments
from simplepcfg.ops.inside.plan import Plan
from simplepcfg.ops.inside.replayed_chart import chart_inputs, forward_room, make_chart
from simplepcfg.ops.replay import Results, Rules, replayed
from simplepcfg.ops.sample.fused import draw_by_length, draw_from_packed_chart
from simplepcfg.ops.sample.lengths import length_table
from simplepcfg.ops.sample.roots import draw_lengths_and_roots
from simplepcfg.ops.trees import tree_log_probabilities

# Multiplications of a table of lengths, which take a GPU about as long as its launches take the host.
MOST_PRODUCTS = 1e11


def replayed_trees(graphs: DeviceGraphs, arguments: InsideArguments, samples: int, uniforms: Tensor) -> Results:
    """Draw spans, splits, labels and tags of trees and compute their log-probabilities, which have no gradient."""
    room = forward_room(arguments) + 10 * uniforms.nbytes
    question = ("sample", samples, arguments.precision)
    run = partial(_run, arguments.precision, samples)
    return replayed(graphs, question, run, (uniforms, *chart_inputs(arguments)), room)


def _run(precision: str | None, samples: int, uniforms: Tensor, *inputs: Any) -> tuple[Results, Plan]:
    chart = make_chart(precision, *inputs)
    tables: Tensor | None = inputs[-1]
    lengths = chart.plan.length_of_sentence if tables is None else tables[0]
    found = draw_from_packed_chart(chart, lengths, samples, uniforms).to_tensors()
    sentence = torch.arange(chart.batch * samples, device=chart.device) // samples
    return (*found, tree_log_probabilities(chart.arguments, sentence, *found)), chart.plan


def is_launch_bound(left: Tensor, longest: int) -> bool:
    """Return whether launching the kernels of ``replayed_derivations`` takes longer than running them, about."""
    return 2 * left.numel() * longest <= MOST_PRODUCTS


def replayed_derivations(
    graphs: DeviceGraphs, root: Tensor, left: Tensor, right: Tensor, longest: int, uniforms: Tensor
) -> Results:
    """Draw derivations: spans, splits, labels, tags, lengths, and the log-probability of at most ``longest`` words."""
    room = 2 * left.nbytes + 10 * uniforms.nbytes + 40 * longest * root.shape[0] * 8
    inputs = (uniforms, root, Rules((left, right)))
    return replayed(graphs, ("derivations", longest), partial(_derive, longest), inputs, room)


def _derive(longest: int, uniforms: Tensor, root: Tensor, rules: tuple[Tensor, Tensor]) -> tuple[Results, None]:
    table = length_table(root, *rules, longest)
    lengths, roots = draw_lengths_and_roots(table, root, uniforms)
    nodes = Nodes.begin(roots, lengths, longest)
    draw_by_length(nodes, table, uniforms)
    return (*nodes.to_tensors(), lengths, table.log_lengths.logsumexp(0)), None
