"""CUDA graphs of ``inside``: the passes of a shape that recurs are captured in its second call and then replayed.

Each graphed chart has its own buffers, so a call whose backward pass is still to come keeps its chart to itself. If all
charts of a shape are kept, the call is launched kernel by kernel.
"""

from collections.abc import Callable
from functools import partial
from weakref import ref

import torch
from torch import Tensor

from simplepcfg.ops.arguments import InsideArguments, Needs
from simplepcfg.ops.cuda_graphs.calls import DeviceGraphs
from simplepcfg.ops.cuda_graphs.capture import Launch
from simplepcfg.ops.inside.packed_chart import PackedChart, are_stacked, view_stacked
from simplepcfg.ops.inside.padded_chart import PaddedChart, is_launch_bound, is_worth_padding, make_padded_chart
from simplepcfg.ops.modes import launching
from simplepcfg.ops.scales import precision_of

Capture = Callable[[Launch], Launch]
Gradients = list[Tensor | None]
# Whether a backward pass computes the gradients of the emissions and of the rules, and span marginals.
Kind = tuple[bool, bool, bool]
# Gradients of rules of up to this many bytes are computed by the graph and copied, which takes the host less time than
# launching their products. Larger ones are computed after the graph, straight into the tensor that is returned.
SMALL_RULES = 64 * 2**20
# Rules of at least this many bytes are read where they are if their addresses recur.
LARGE_RULES = 16 * 2**20


class GraphedChart:
    """A chart whose inputs are copied into buffers that the graphs read.

    The buffers hold the chart from one forward pass to its backward pass. A chart that waits for its backward pass has
    a ``holder`` that is alive, and must not be filled again.

    What the graphs themselves allocate, such as the derivatives of all rows, is shared with the graphs of other charts.
    It is only valid until the next replay of any of them, so results are copied, or computed from it, at once.

    With ``in_place`` the graphs read the rules where they are. Every call must then have rules at the addresses of the
    first one. They belong to the caller and are referred to from ``load`` until ``release_rules`` only.
    """

    def __init__(self, arguments: InsideArguments, in_place: bool = False) -> None:
        self.holder: Callable[[], object] = lambda: None
        self.bytes = graph_bytes(arguments, in_place)
        left = arguments.left
        *batch, nonterminals, symbols = left.shape
        # A tensor on the device "meta" has no memory.
        place = torch.device("meta") if in_place else left.device
        rules = torch.zeros(*batch, 2 * nonterminals, symbols, dtype=precision_of(arguments).stored, device=place)
        self._in_place, self._own_rules, self._sides = in_place, rules, list(rules.chunk(2, -2))
        bonus = arguments.span_bonus
        # A chart is made of these before the first batch is copied.
        static = InsideArguments(
            torch.zeros_like(arguments.log_emissions, memory_format=torch.contiguous_format),
            torch.zeros_like(arguments.root, memory_format=torch.contiguous_format),
            self._sides[0],
            self._sides[1],
            None,
            None if bonus is None else torch.zeros_like(bonus, memory_format=torch.contiguous_format),
            arguments.precision,
        )
        self._static = static
        self._copied = [static.log_emissions, static.root] + ([] if static.span_bonus is None else [static.span_bonus])
        self._chart = (PackedChart if arguments.lengths is None else PaddedChart)(static)
        self._chart.gradient_dtype = left.dtype
        self._grad = static.log_emissions.new_zeros(self._chart.batch)
        self._log_z = self._grad
        self._marginals: Tensor | None = None
        self._forward: Launch | None = None
        self._backward: dict[Kind, Launch] = {}
        # By kind: the gradients of the emissions, the root and the rules; for large rules the derivatives of all rows,
        # from which the gradients of emissions and rules are still to be computed.
        self._results: dict[Kind, tuple[Tensor | None, Gradients]] = {}
        self._has_small_rules = _has_small_rules(arguments)
        self.load(arguments)

    def hold(self, holder: object) -> None:
        """Keep the chart unchanged for as long as ``holder`` lives."""
        self.holder = ref(holder)

    @property
    def is_free(self) -> bool:
        """Whether no backward pass may follow that reads the chart."""
        return self.holder() is None

    @property
    def rules(self) -> Tensor:
        """The rules that the chart reads, [(B,) 2N, N + P]."""
        return self._chart.rules

    @rules.setter
    def rules(self, rules: Tensor) -> None:
        self._chart.rules = rules

    def release_rules(self) -> None:
        """Refer no longer to rules of the caller."""
        self._chart.rules = self._own_rules

    def load(self, arguments: InsideArguments) -> None:
        """Copy the inputs of a batch of this shape into the buffers."""
        given = [arguments.log_emissions, arguments.root]
        if arguments.span_bonus is not None:
            given.append(arguments.span_bonus)
        with torch.no_grad():
            torch._foreach_copy_(self._copied, given)  # one launch for all
            if not self._in_place:
                torch._foreach_copy_(self._sides, [arguments.left, arguments.right])
        if self._in_place:
            self.rules = view_stacked(arguments.left)
        if isinstance(self._chart, PaddedChart):
            assert arguments.lengths is not None
            self._chart.set_lengths(arguments.lengths)

    def run(self) -> None:
        """Run the forward pass on the buffers."""
        with launching(self._chart.device):
            if self._static.span_bonus is not None:
                self._chart.bonus.copy_(self._chart.row_bonus())
            self._log_z = self._chart.fill()

    def capture(self, capture: Capture) -> None:
        """Capture the forward pass, which must have run before."""
        self._forward = capture(self.run)

    def forward(self) -> Tensor:
        """Replay the forward pass and return log Z, [B]."""
        assert self._forward is not None
        self._forward()
        return self._log_z.clone()

    def has_backward(self, kind: Kind) -> bool:
        """Return whether the backward pass of this kind has been captured."""
        return kind in self._backward

    def run_backward(self, kind: Kind) -> tuple[Tensor | None, Gradients]:
        """Run the part of the backward pass that the graph of this kind contains."""
        need_words, need_rules, has_marginals = kind
        if has_marginals:
            if self._marginals is None:
                posts = self._chart.layout.n + 1
                self._marginals = self._grad.new_zeros(self._chart.batch, posts, posts)
            self._marginals.zero_()
        chart, marginals = self._chart, self._marginals if has_marginals else None
        with launching(chart.device):
            by_root, by_child = chart.adjoints(self._grad, marginals, need_words or need_rules)
            if not self._has_small_rules:
                return by_child, [None, by_root, None]
            words = chart.emission_gradients(by_child) if need_words else None
            rules = chart.rule_gradients(by_child) if need_rules else None
            return None, [words, by_root, rules]

    def capture_backward(self, kind: Kind, capture: Capture) -> None:
        """Capture the backward pass of this kind, which must have run before."""

        def run() -> None:
            self._results[kind] = self.run_backward(kind)

        self._backward[kind] = capture(run)

    def backward(self, grad: Tensor, needs: Needs, marginals: Tensor | None) -> list[Tensor | None]:
        kind = (needs.words, needs.rules, marginals is not None)
        self._grad.copy_(grad)
        self._backward[kind]()
        by_child, (words, by_root, rules) = self._results[kind]
        if marginals is not None:
            assert self._marginals is not None
            marginals.copy_(self._marginals)
        if by_child is None:
            words = None if words is None else words.clone()
            rules = None if rules is None else rules.clone()
        else:
            with launching(self._chart.device):
                words = self._chart.emission_gradients(by_child) if needs.words else None
                rules = self._chart.rule_gradients(by_child) if needs.rules else None
        assert by_root is not None
        return [words, by_root.clone() if needs.root else None, rules]

    def backward_without_graph(self, grad: Tensor, needs: Needs, marginals: Tensor | None) -> list[Tensor | None]:
        """Compute the same as ``backward``, launched kernel by kernel."""
        with launching(self._chart.device):
            return self._chart.backward(grad, needs, marginals)


def graph_bytes(arguments: InsideArguments, in_place: bool = False) -> int:
    """Estimate the memory that a graphed chart of this shape holds, from the sizes of its largest tensors.

    A call that is launched kernel by kernel needs β, η and ζ, their derivatives and the gradient of the rules. A
    replayed one needs the same, the emissions once more and, unless they are read in place, the rules once more. With
    16 sentences of 40 words, N = 4096 and P = 8192 in bfloat16 these are 323 + 323 + 201 MB, + 21 MB and + 201 MB:
    1.03 times as much in place, and 1.26 times otherwise. Workspaces of cuBLAS for two more streams come on top.

    The gradient is counted here if the graph computes it. Otherwise it belongs to the caller.
    """
    batch, n, nonterminals, preterminals = arguments.sizes
    stored, work = precision_of(arguments).stored.itemsize, precision_of(arguments).work.itemsize
    rows = batch * n * (n + 1) // 2
    charts = 6 * nonterminals * rows * stored  # β, η, ζ and their derivatives
    passed_on = 2 * nonterminals * batch * n * work  # sums that a pair of widths passes on
    words = batch * n * preterminals * (arguments.log_emissions.element_size() + stored)
    rules = 0 if in_place else (arguments.left.numel() + arguments.right.numel()) * stored
    gradients = words + _rule_bytes(arguments) if _has_small_rules(arguments) else 0
    return charts + passed_on + words + rules + gradients


def place_of_rules(arguments: InsideArguments) -> tuple[int, int] | None:
    """Return the addresses of the rules if a graph can read them there; None if it has to copy them.

    It can if left and right are the two halves of a tensor of the right dtype. Small rules are always copied, so that
    one graph serves them wherever they are.
    """
    left, right = arguments.left, arguments.right
    if _rule_bytes(arguments) < LARGE_RULES or not are_stacked(left, right, precision_of(arguments).stored):
        return None
    return left.data_ptr(), right.data_ptr()


def _rule_bytes(arguments: InsideArguments) -> int:
    return 2 * arguments.left.numel() * arguments.left.element_size()


def _has_small_rules(arguments: InsideArguments) -> bool:
    return _rule_bytes(arguments) <= SMALL_RULES


def graph_key(arguments: InsideArguments) -> tuple[object, ...]:
    """Return what must be equal for two batches to share a graph."""
    return (
        arguments.log_emissions.shape,
        arguments.log_emissions.dtype,
        arguments.root.shape,
        arguments.left.shape,
        arguments.left.dtype,
        arguments.lengths is None,
        arguments.span_bonus is None,
        arguments.precision,
    )


class Lease:
    """The chart of one forward pass, which has a graphed chart to itself for as long as this object lives."""

    def __init__(self, graphs: DeviceGraphs, chart: GraphedChart) -> None:
        self._graphs, self._chart, self._rules = graphs, chart, chart.rules
        chart.hold(self)

    def backward(self, grad: Tensor, needs: Needs, marginals: Tensor | None) -> list[Tensor | None]:
        graphs, chart = self._graphs, self._chart
        kind = (needs.words, needs.rules, marginals is not None)
        with graphs.lock:
            chart.rules = self._rules
            try:
                if graphs.is_captured_outside:
                    return chart.backward_without_graph(grad, needs, marginals)
                replays = chart.has_backward(kind) or graphs.extend(
                    lambda: chart.run_backward(kind), lambda capture: chart.capture_backward(kind, capture), chart.bytes
                )
                run = chart.backward if replays else chart.backward_without_graph
                with graphs.in_order:
                    return run(grad, needs, marginals)
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


def _find_chart(graphs: DeviceGraphs, arguments: InsideArguments) -> GraphedChart | None:
    """Return a free chart for these arguments, captured now if it is time to; the lock must be held."""
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


def plain_chart(graphs: DeviceGraphs, arguments: InsideArguments) -> PaddedChart | None:
    """Return a padded chart for a call that is launched plainly, if the graph of its shape has one.

    Which rows a chart has then does not depend on whether its shape has been captured, and all calls with the same
    inputs give the same bits.
    """
    is_padded = arguments.lengths is not None and uses_graph(graphs, arguments)
    return make_padded_chart(arguments) if is_padded else None


def uses_graph(graphs: DeviceGraphs, arguments: InsideArguments) -> bool:
    """Return whether calls with these arguments gain from a graph, and can have one."""
    if not graphs.is_usable or not is_launch_bound(arguments):
        return False
    return arguments.lengths is None or is_worth_padding(arguments)
