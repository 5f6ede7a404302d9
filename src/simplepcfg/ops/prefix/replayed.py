"""Prefix probabilities by a CUDA graph that is replayed if the shape of a batch recurs. This module imports Triton."""

from functools import partial
from typing import Any

from torch import Tensor

from simplepcfg.ops.arguments import InsideArguments
from simplepcfg.ops.graphs import DeviceGraphs
from simplepcfg.ops.inside.layout import ChartLayout
from simplepcfg.ops.inside.padded_chart import chart_inputs, forward_room, make_chart
from simplepcfg.ops.prefix.closure import Closure
from simplepcfg.ops.prefix.left_to_right import LeftToRight, left_to_right
from simplepcfg.ops.prefix.packed_rows import PackedRows
from simplepcfg.ops.replay import RecurringTensors, Results, replayed


def replayed_states(graphs: DeviceGraphs, arguments: InsideArguments, closure: Closure) -> LeftToRight:
    """Compute ``left_to_right``; see ``replayed``."""
    batch, n, nonterminals, _ = arguments.sizes
    room = forward_room(arguments) + 12 * 8 * batch * n * nonterminals
    inputs = (closure.start, RecurringTensors((closure.carry,)), *chart_inputs(arguments))
    run = partial(_run, arguments.precision)
    return LeftToRight(arguments, *replayed(graphs, ("prefixes", arguments.precision), run, inputs, room))


def _run(precision: str | None, start: Tensor, carry: tuple[Tensor], *inputs: Any) -> tuple[Results, ChartLayout]:
    chart = make_chart(precision, *inputs)
    states = left_to_right(chart.arguments, Closure(start, *carry), PackedRows(chart))
    results = (
        states.predicted,
        states.waiting,
        states.exponents,
        states.log_words,
        states.log_next,
        states.log_sentences,
    )
    return results, chart.layout
