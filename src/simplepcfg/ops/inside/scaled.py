"""The inside algorithm in scaled probabilities with a hand-written backward pass, in plain PyTorch."""

import torch
from torch import Tensor

from simplepcfg.ops.inside.arguments import InsideArguments
from simplepcfg.ops.inside.autograd import chart_inside, chart_span_marginals
from simplepcfg.ops.inside.scaled_backward import Backward
from simplepcfg.ops.inside.scaled_chart import ScaledChart


class _Chart(ScaledChart):
    """A scaled chart that computes in inference mode, which takes an eighth less time at small sizes.

    Results are cloned outside of inference mode, so that autograd can use them.
    """

    def __init__(self, arguments: InsideArguments) -> None:
        with torch.inference_mode():
            super().__init__(arguments)

    def fill(self) -> Tensor:
        with torch.inference_mode():
            log_z = super().fill()
        return log_z.clone()

    def backward(self, grad: Tensor, needs: tuple[bool, ...], marginals: Tensor | None) -> list[Tensor | None]:
        need_words, need_root, need_left, need_right = needs
        rules = self.arguments.left.new_zeros(self.all_rules.shape) if need_left or need_right else None
        with torch.inference_mode():
            words, root = Backward(self, grad).run(need_words, need_root, rules, marginals)
        left, right = (None, None) if rules is None else rules.chunk(2, -2)
        return [None if words is None else words.clone(), None if root is None else root.clone(), left, right]


def scaled_inside(arguments: InsideArguments) -> Tensor:
    """Compute log Z of each sentence; see ``inside``."""
    return chart_inside(_Chart, arguments)


def scaled_span_marginals(arguments: InsideArguments) -> tuple[Tensor, Tensor]:
    """Compute log Z and span marginals; see ``span_marginals``."""
    return chart_span_marginals(_Chart, arguments)
