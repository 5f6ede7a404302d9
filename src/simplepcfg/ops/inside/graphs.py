"""CUDA graphs of the inside algorithm: the passes of a shape that recurs are replayed.

Each graphed chart has its own buffers, so a call whose backward pass is still to come keeps its chart to itself; if all
charts of a shape are kept, the call is launched kernel by kernel.
"""

from functools import partial
from typing import TYPE_CHECKING

from torch import Tensor

from simplepcfg.ops.arguments import InsideArguments
from simplepcfg.ops.graphs import DeviceGraphs

if TYPE_CHECKING:
    from simplepcfg.ops.inside.graphed_chart import GraphedChart
    from simplepcfg.ops.inside.padded_chart import PaddedChart


class Lease:
    """The chart of one forward pass, which has a graphed chart to itself for as long as this object lives."""

    def __init__(self, graphs: DeviceGraphs, chart: "GraphedChart") -> None:
        self._graphs, self._chart, self._rules = graphs, chart, chart.rules
        chart.hold(self)

    def backward(
        self, grad: Tensor, need_words: bool, need_root: bool, need_rules: bool, marginals: Tensor | None
    ) -> list[Tensor | None]:
        """Compute the gradients that are needed; see ``Chart.backward``."""
        graphs, chart = self._graphs, self._chart
        kind = (need_words, need_rules, marginals is not None)
        with graphs.lock:
            chart.rules = self._rules
            try:
                if graphs.is_captured_outside:
                    return chart.backward_without_graph(grad, need_words, need_root, need_rules, marginals)
                replays = chart.has_backward(kind) or graphs.extend(
                    lambda: chart.run_backward(kind), lambda capture: chart.capture_backward(kind, capture), chart.bytes
                )
                run = chart.backward if replays else chart.backward_without_graph
                with graphs.in_order:
                    return run(grad, need_words, need_root, need_rules, marginals)
            finally:
                chart.release_rules()


def replayed_forward(
    graphs: DeviceGraphs, arguments: InsideArguments, save: bool
) -> tuple[Tensor, Lease | None] | None:
    """Compute log Z and, if ``save``, its chart by a graph; None if the call has to be launched plainly."""
    if not graphs.is_usable:
        return None
    with graphs.lock:
        chart = _find_chart(graphs, arguments)
        if chart is None:
            return None
        with graphs.in_order:
            chart.load(arguments)
            log_z = chart.forward()
        graphs.has_replayed = True
        lease = Lease(graphs, chart) if save else None
        chart.release_rules()
        return log_z, lease


def _find_chart(graphs: DeviceGraphs, arguments: InsideArguments) -> "GraphedChart | None":
    """Return a free chart for these arguments, captured now if it is time to; the lock must be held."""
    from simplepcfg.ops.inside.graphed_chart import GraphedChart, graph_bytes, graph_key, place_of_rules

    # Whether to pad depends on the lengths, and everything else on the shape.
    if arguments.lengths is not None and not uses_graph(graphs, arguments):
        return None
    shape = graph_key(arguments)
    place = place_of_rules(arguments)
    in_place = (*shape, place)
    chart: GraphedChart | None = (place and graphs.ready(in_place)) or graphs.ready(shape)
    if chart is not None:
        return chart
    if arguments.lengths is None and not uses_graph(graphs, arguments):
        return None
    # A chart that copies serves all rules, so that no other one is captured beside it.
    if place is None or (graphs.has(shape) and not graphs.has(in_place)):
        keys = [shape]
    else:
        keys = [in_place] if graphs.has(in_place) else [in_place, shape]
    for key in keys:
        reads = key is in_place
        chart = graphs.find(key, graph_bytes(arguments, reads), partial(GraphedChart, arguments, reads))
        if chart is not None:
            return chart
    return None


def plain_chart(graphs: DeviceGraphs, arguments: InsideArguments) -> "PaddedChart | None":
    """Return a padded chart for a call that is launched plainly, if the graph of its shape has one.

    Which rows a chart has then does not depend on whether its shape has been captured, and all calls with the same
    inputs give the same bits.
    """
    from simplepcfg.ops.inside.padded_chart import make_padded_chart

    is_padded = arguments.lengths is not None and uses_graph(graphs, arguments)
    return make_padded_chart(arguments) if is_padded else None


def uses_graph(graphs: DeviceGraphs, arguments: InsideArguments) -> bool:
    """Return whether calls with these arguments gain from a graph, and can have one."""
    from simplepcfg.ops.inside.graphed_chart import is_launch_bound
    from simplepcfg.ops.inside.padded_chart import is_worth_padding

    if not graphs.is_usable or not is_launch_bound(arguments):
        return False
    return arguments.lengths is None or is_worth_padding(arguments)
