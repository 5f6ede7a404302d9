"""The chart of the "torch" backend: scaled probabilities with a hand-written backward pass, in plain PyTorch."""

import torch
from torch import Tensor

from simplepcfg.ops.arguments import InsideArguments
from simplepcfg.ops.inside.scaled_backward import Backward
from simplepcfg.ops.inside.scaled_chart import ScaledChart


class TorchChart(ScaledChart):
    """A scaled chart that computes in inference mode, which takes an eighth less time at small sizes.

    Results are cloned outside of inference mode, so that autograd can use them.
    """

    def __init__(self, arguments: InsideArguments) -> None:
        with torch.inference_mode():
            super().__init__(arguments)

    def fill(self) -> Tensor:
        """Run the forward pass; see ``Chart.fill``."""
        with torch.inference_mode():
            log_z = super().fill()
        return log_z.clone()

    def backward(
        self, grad: Tensor, need_words: bool, need_root: bool, need_rules: bool, marginals: Tensor | None
    ) -> list[Tensor | None]:
        """Compute the gradients that are needed; see ``Chart.backward``."""
        rules = self.arguments.left.new_zeros(self.all_rules.shape) if need_rules else None
        with torch.inference_mode():
            words, root = Backward(self, grad).run(need_words, need_root, rules, marginals)
        return [None if words is None else words.clone(), None if root is None else root.clone(), rules]
