"""The inside algorithm in scaled probabilities with a hand-written backward, for the CPU and any other device."""

from torch import Tensor

from simplepcfg.ops.inside.arguments import InsideArguments
from simplepcfg.ops.inside.autograd import chart_inside, chart_span_posteriors
from simplepcfg.ops.inside.scaled_backward import Backward
from simplepcfg.ops.inside.scaled_chart import ScaledChart


class _Chart(ScaledChart):
    def backward(self, grad: Tensor, needs: tuple[bool, ...], posteriors: Tensor | None) -> list[Tensor | None]:
        return Backward(self, grad).run(needs, posteriors)


def scaled_inside(arguments: InsideArguments) -> Tensor:
    """log Z of each sentence; see ``inside``."""
    return chart_inside(_Chart, arguments)


def scaled_span_posteriors(arguments: InsideArguments) -> tuple[Tensor, Tensor]:
    """log Z and span posteriors; see ``span_posteriors``."""
    return chart_span_posteriors(_Chart, arguments)
