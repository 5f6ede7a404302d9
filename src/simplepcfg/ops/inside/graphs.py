"""CUDA graphs of the inside algorithm: the passes of a shape that recurs are replayed.

Each graphed chart has its own buffers, so a call whose backward pass is still to come keeps its chart to itself; if all
charts of a shape are kept, the call is launched kernel by kernel.
"""

from typing import TYPE_CHECKING

from torch import Tensor

from simplepcfg.ops.graphs import DeviceGraphs
from simplepcfg.ops.inside.arguments import InsideArguments

if TYPE_CHECKING:
    from simplepcfg.ops.inside.graphed_chart import GraphedChart
    from simplepcfg.ops.inside.padded_chart import PaddedChart


class Lease:
    """The chart of one forward pass, which has a graphed chart to itself for as long as this object lives."""

    def __init__(self, graphs: DeviceGraphs, chart: "GraphedChart") -> None:
        self._graphs, self._chart = graphs, chart
        chart.hold(self)

    def backward(
        self, grad: Tensor, need_words: bool, need_root: bool, need_rules: bool, marginals: Tensor | None
    ) -> list[Tensor | None]:
        """Compute the gradients that are needed; see ``Chart.backward``."""
        graphs, chart = self._graphs, self._chart
        kind = (need_words, need_rules, marginals is not None)
        with graphs.lock:
            replays = not graphs.is_captured_outside and (
                chart.has_backward(kind)
                or graphs.extend(
                    lambda: chart.run_backward(kind),
                    lambda capture: chart.capture_backward(kind, capture),
                    chart.bytes,
                )
            )
            run = chart.backward if replays else chart.backward_without_graph
            with graphs.in_order():
                return run(grad, need_words, need_root, need_rules, marginals)


def replayed_forward(
    graphs: DeviceGraphs, arguments: InsideArguments, save: bool
) -> tuple[Tensor, Lease | None] | None:
    """Compute log Z and, if ``save``, its chart by a graph; None if the call has to be launched plainly."""
    from simplepcfg.ops.inside.graphed_chart import GraphedChart, graph_bytes, graph_key

    if not uses_graph(graphs, arguments):
        return None
    with graphs.lock:
        chart = graphs.find(graph_key(arguments), graph_bytes(arguments), lambda: GraphedChart(arguments))
        if chart is None:
            return None
        with graphs.in_order():
            chart.load(arguments)
            log_z = chart.forward()
        graphs.has_replayed = True
        return log_z, Lease(graphs, chart) if save else None


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
