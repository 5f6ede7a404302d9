"""FlashInside: the inside algorithm by Triton kernels and matrix products over a packed chart."""

from torch import Tensor

from simplepcfg.ops.inside.arguments import InsideArguments
from simplepcfg.ops.inside.autograd import chart_inside, chart_span_marginals
from simplepcfg.ops.inside.packed_chart import PackedChart


def fused_inside(arguments: InsideArguments) -> Tensor:
    """Compute log Z of each sentence; see ``inside``."""
    return chart_inside(PackedChart, arguments)


def fused_span_marginals(arguments: InsideArguments) -> tuple[Tensor, Tensor]:
    """Compute log Z and span marginals; see ``span_marginals``."""
    return chart_span_marginals(PackedChart, arguments)
