"""Where a batch's gradients go: buffers that stay, so that captured programs and other processes find them."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

# Of numbers: every parameter's part begins at a multiple of this, so that kernels can load several at once.
ALIGNMENT = 64


class Gradients:
    """The parameters' gradients; with `flat`, views of one buffer that is reduced and measured in one call."""

    def __init__(self, parameters: Sequence[nn.Parameter], flat: bool) -> None:
        self.parameters = list(parameters)
        self.flat: Tensor | None = None
        self._views: list[Tensor] = []
        if flat:
            starts = [0]
            for parameter in self.parameters:
                starts.append(starts[-1] + -(-parameter.numel() // ALIGNMENT) * ALIGNMENT)
            first = self.parameters[0]
            self.flat = torch.zeros(starts[-1], dtype=first.dtype, device=first.device)
            for parameter, start in zip(self.parameters, starts, strict=False):
                self._views.append(self.flat[start : start + parameter.numel()].view_as(parameter))
                parameter.grad = self._views[-1]

    def store(self, found: Sequence[Tensor | None]) -> None:
        """Take over a batch's gradients; None stands for a parameter that had no part in it."""
        if self.flat is None:
            for parameter, gradient in zip(self.parameters, found, strict=True):
                # Torch's fused Adam reads a gradient as if it lay in memory as its parameter does; one that is a part
                # of a larger tensor does not.
                parameter.grad = None if gradient is None else gradient.contiguous()
            return
        pairs = [(view, gradient) for view, gradient in zip(self._views, found, strict=True) if gradient is not None]
        if len(pairs) < len(self._views):
            self.flat.zero_()
        views, gradients = zip(*pairs, strict=True)
        torch._foreach_copy_(views, gradients)

    def clear(self) -> None:
        """The gradient of no sentences at all."""
        if self.flat is not None:
            self.flat.zero_()
        else:
            self.store([torch.zeros_like(parameter) for parameter in self.parameters])
