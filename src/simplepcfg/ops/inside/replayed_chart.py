"""What functions that begin with the forward pass of the packed chart need to be replayed as CUDA graphs."""

from torch import Tensor

from simplepcfg.ops.arguments import InsideArguments
from simplepcfg.ops.inside.graphed_chart import is_launch_bound
from simplepcfg.ops.inside.packed_chart import PackedChart
from simplepcfg.ops.inside.padded_chart import PaddedChart, is_worth_padding
from simplepcfg.ops.inside.plan import padded_tables
from simplepcfg.ops.replay import Argument, Rules
from simplepcfg.ops.scales import precision_of


def forward_uses_graph(arguments: InsideArguments) -> bool:
    """Return whether launching the kernels of a forward pass takes longer than running them, about."""
    if arguments.sizes[1] == 1 or not is_launch_bound(arguments, products=1):
        return False
    return arguments.lengths is None or is_worth_padding(arguments)


def chart_inputs(arguments: InsideArguments) -> tuple[Argument, ...]:
    """Return the arguments of ``replayed`` from which ``make_chart`` makes a chart."""
    n, device = arguments.sizes[1], arguments.log_emissions.device
    return (
        arguments.log_emissions,
        arguments.root,
        Rules((arguments.left, arguments.right)),
        arguments.span_bonus,
        None if arguments.lengths is None else padded_tables(arguments.lengths, n, device),
    )


def make_chart(
    precision: str | None,
    log_emissions: Tensor,
    root: Tensor,
    rules: tuple[Tensor, Tensor],
    span_bonus: Tensor | None,
    tables: Tensor | None,
) -> PackedChart:
    """Create an empty chart; with ``tables`` every sentence has the rows of n words, whatever its length."""
    if tables is None:
        return PackedChart(InsideArguments(log_emissions, root, *rules, None, span_bonus, precision))
    # The chart sets the emissions of words beyond the end of a sentence.
    chart = PaddedChart(InsideArguments(log_emissions.clone(), root, *rules, None, span_bonus, precision))
    chart.set_tables(tables)
    return chart


def forward_room(arguments: InsideArguments) -> int:
    """Estimate the memory of a chart without its derivatives, and of rules in its dtype."""
    batch, n, nonterminals, preterminals = arguments.sizes
    stored = precision_of(arguments).stored.itemsize
    rows, words = batch * n * (n + 1) // 2, batch * n
    words_bytes = words * preterminals * (arguments.log_emissions.element_size() + stored)
    return 3 * nonterminals * rows * stored + words_bytes + 2 * arguments.left.numel() * stored
