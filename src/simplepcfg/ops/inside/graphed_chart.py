"""A packed chart in fixed buffers whose forward and backward passes are replayed as CUDA graphs."""

from collections.abc import Callable
from weakref import ref

import torch
from torch import Tensor

from simplepcfg.ops.capture import Launch
from simplepcfg.ops.inside.arguments import InsideArguments
from simplepcfg.ops.inside.packed_chart import PackedChart
from simplepcfg.ops.inside.padded_chart import PaddedChart
from simplepcfg.ops.inside.precision import precision_of

Capture = Callable[[Launch], Launch]
Gradients = list[Tensor | None]
MOST_FLOPS, MOST_FLOPS_BF16 = 1.2e12, 6e12  # of a call that is bound by its launches
# Of a backward pass: whether it computes the gradients of the emissions and of the rules, and span marginals.
Kind = tuple[bool, bool, bool]
# Gradients of rules of up to this many bytes are computed by the graph and copied, which takes the host less time than
# launching their products. Larger ones are computed after the graph, straight into the tensor that is returned.
SMALL_RULES = 64 * 2**20


class GraphedChart:
    """A chart whose inputs are copied into buffers that the graphs read.

    The buffers hold the chart from one forward pass to its backward pass. A chart that waits for its backward pass has
    a ``holder`` that is alive, and must not be filled again.

    What the graphs themselves allocate, such as the derivatives of all rows, is shared with the graphs of other charts.
    It is only valid until the next replay of any of them, so results are copied, or computed from it, at once.
    """

    def __init__(self, arguments: InsideArguments) -> None:
        self.holder: Callable[[], object] = lambda: None
        self.bytes = graph_bytes(arguments)
        left = arguments.left
        *batch, nonterminals, symbols = left.shape
        stored = precision_of(arguments).stored
        self._rules = torch.empty(*batch, 2 * nonterminals, symbols, dtype=stored, device=left.device)
        self._left, self._right = self._rules.chunk(2, -2)
        bonus = arguments.span_bonus
        static = InsideArguments(
            torch.empty_like(arguments.log_emissions, memory_format=torch.contiguous_format),
            torch.empty_like(arguments.root, memory_format=torch.contiguous_format),
            self._left,
            self._right,
            None,
            None if bonus is None else torch.empty_like(bonus, memory_format=torch.contiguous_format),
            arguments.precision,
        )
        for tensor in (static.log_emissions, static.root, self._rules, static.span_bonus):
            if tensor is not None:
                tensor.zero_()  # a chart is made of these before the first batch is copied
        self._static = static
        self._chart = (PackedChart if arguments.lengths is None else PaddedChart)(static)
        self._chart.gradient_dtype = left.dtype
        self._grad = static.log_emissions.new_zeros(self._chart.batch)
        self._log_z = self._grad
        self._marginals: Tensor | None = None
        self._forward: Launch | None = None
        self._backward: dict[Kind, Launch] = {}
        # By kind: the derivatives of all rows, and the gradients of the emissions, the root and the rules.
        self._results: dict[Kind, tuple[Tensor, Gradients]] = {}
        self._has_small_rules = _has_small_rules(arguments)
        self.load(arguments)

    def hold(self, holder: object) -> None:
        """Keep the chart unchanged for as long as ``holder`` lives."""
        self.holder = ref(holder)

    @property
    def is_free(self) -> bool:
        """Whether no backward pass may follow that reads the chart."""
        return self.holder() is None

    def load(self, arguments: InsideArguments) -> None:
        """Copy the inputs of a batch of this shape into the buffers."""
        self._static.log_emissions.copy_(arguments.log_emissions)
        self._static.root.copy_(arguments.root)
        self._left.copy_(arguments.left)
        self._right.copy_(arguments.right)
        if self._static.span_bonus is not None:
            assert arguments.span_bonus is not None
            self._static.span_bonus.copy_(arguments.span_bonus)
        if isinstance(self._chart, PaddedChart):
            assert arguments.lengths is not None
            self._chart.set_lengths(arguments.lengths)

    def run(self) -> None:
        """Run the forward pass on the buffers."""
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

    def run_backward(self, kind: Kind) -> tuple[Tensor, Gradients]:
        """Run the part of the backward pass that the graph of this kind contains."""
        need_words, need_rules, has_marginals = kind
        if has_marginals:
            if self._marginals is None:
                posts = self._chart.plan.n + 1
                self._marginals = self._grad.new_zeros(self._chart.batch, posts, posts)
            self._marginals.zero_()
        chart, marginals = self._chart, self._marginals if has_marginals else None
        by_root, by_child = chart.adjoints(self._grad, marginals, need_words or need_rules)
        words = chart.emission_gradients(by_child) if need_words and self._has_small_rules else None
        rules = chart.rule_gradients(by_child) if need_rules and self._has_small_rules else None
        return by_child, [words, by_root, rules]

    def capture_backward(self, kind: Kind, capture: Capture) -> None:
        """Capture the backward pass of this kind, which must have run before."""

        def run() -> None:
            self._results[kind] = self.run_backward(kind)

        self._backward[kind] = capture(run)

    def backward(
        self,
        grad: Tensor,
        need_words: bool,
        need_root: bool,
        need_rules: bool,
        marginals: Tensor | None,
    ) -> list[Tensor | None]:
        """Compute the gradients that are needed; see ``Chart.backward``."""
        kind = (need_words, need_rules, marginals is not None)
        self._grad.copy_(grad)
        self._backward[kind]()
        by_child, (words, by_root, rules) = self._results[kind]
        if marginals is not None:
            assert self._marginals is not None
            marginals.copy_(self._marginals)
        if self._has_small_rules:
            words, rules = (None if each is None else each.clone() for each in (words, rules))
        else:
            words = self._chart.emission_gradients(by_child) if need_words else None
            rules = self._chart.rule_gradients(by_child) if need_rules else None
        assert by_root is not None
        return [words, by_root.clone() if need_root else None, rules]

    def backward_without_graph(
        self, grad: Tensor, need_words: bool, need_root: bool, need_rules: bool, marginals: Tensor | None
    ) -> list[Tensor | None]:
        """Compute the same as ``backward``, launched kernel by kernel."""
        return self._chart.backward(grad, need_words, need_root, need_rules, marginals)


def is_launch_bound(arguments: InsideArguments, products: int = 3) -> bool:
    """Return whether launching the kernels of a call one by one takes longer than running them, about.

    ``products`` is the number of matrix products with rules for each span: one forward and two backward. On an H200 a
    call of 3e12 operations in bfloat16 was 1.4 to 2.2 times faster as a graph, one of 11e12 no faster.
    """
    batch, n, nonterminals, preterminals = arguments.sizes
    spans, words = batch * n * (n - 1) // 2, batch * n
    flops = 4 * products * nonterminals * (nonterminals * spans + preterminals * words)
    return flops <= (MOST_FLOPS_BF16 if arguments.precision == "bf16" else MOST_FLOPS)


def graph_bytes(arguments: InsideArguments) -> int:
    """Estimate the memory that a graphed chart of this shape holds, from the sizes of its largest tensors."""
    batch, n, nonterminals, preterminals = arguments.sizes
    stored, work = precision_of(arguments).stored.itemsize, precision_of(arguments).work.itemsize
    rows = batch * n * (n + 1) // 2
    charts = 6 * nonterminals * rows * stored  # β, η, ζ and their derivatives
    partial = 2 * nonterminals * batch * n * work  # sums that a pair of widths passes on
    words = batch * n * preterminals * (arguments.log_emissions.element_size() + stored)
    rules = (arguments.left.numel() + arguments.right.numel()) * stored
    gradients = words + _rule_bytes(arguments) if _has_small_rules(arguments) else 0
    return charts + partial + words + rules + gradients


def _rule_bytes(arguments: InsideArguments) -> int:
    return 2 * arguments.left.numel() * arguments.left.element_size()


def _has_small_rules(arguments: InsideArguments) -> bool:
    return _rule_bytes(arguments) <= SMALL_RULES


def graph_key(arguments: InsideArguments) -> tuple[object, ...]:
    """Return what must be equal for two batches to share a graph."""
    return (
        arguments.sizes,
        arguments.log_emissions.dtype,
        arguments.left.dtype,
        arguments.root.dim(),
        arguments.left.dim(),
        arguments.lengths is None,
        arguments.span_bonus is None,
        arguments.precision,
    )
