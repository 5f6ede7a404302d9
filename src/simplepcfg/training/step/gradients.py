"""Gradient buffers at fixed addresses, for captured steps and for sums over processes."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

# The gradient of every parameter begins at a multiple of this many elements, so that kernels can use vector loads.
ALIGNMENT = 64


class Gradients:
    """Gradients of the parameters; with `flat`, views of one buffer, which one call can reduce or take the norm of."""

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

    def store(self, computed: Sequence[Tensor | None]) -> None:
        """Store a batch's gradients, one for each parameter; None stands for a parameter that was not used."""
        if self.flat is None:
            for parameter, gradient in zip(self.parameters, computed, strict=True):
                # Torch's fused Adam assumes that a gradient has the strides of its parameter, which a view of a larger
                # tensor does not have.
                parameter.grad = None if gradient is None else gradient.contiguous()
            return
        pairs = [(view, gradient) for view, gradient in zip(self._views, computed, strict=True) if gradient is not None]
        if len(pairs) < len(self._views):
            self.flat.zero_()
        views, gradients = zip(*pairs, strict=True)
        torch._foreach_copy_(views, gradients)

    def clear(self) -> None:
        """Set all gradients to 0."""
        if self.flat is not None:
            self.flat.zero_()
        else:
            self.store([torch.zeros_like(parameter) for parameter in self.parameters])
