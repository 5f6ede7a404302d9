"""The small networks that turn symbol embeddings into scores."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class ResidualBlock(nn.Module):
    """y + ReLU(V ReLU(U y + p) + q)."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.inner = nn.Linear(size, size)
        self.outer = nn.Linear(size, size)

    def forward(self, y: Tensor) -> Tensor:
        """[..., size] → [..., size]."""
        return y + F.relu(self.outer(F.relu(self.inner(y))))


class ResidualNetwork(nn.Sequential):
    """A linear layer and then residual blocks."""

    def __init__(self, inputs: int, size: int, blocks: int) -> None:
        super().__init__(nn.Linear(inputs, size), *(ResidualBlock(size) for _ in range(blocks)))

    def weights(self) -> list[Tensor]:
        """Matrices and biases in the order of use, as ``ops.neural.residual_networks`` takes them."""
        layers = [module for module in self.modules() if isinstance(module, nn.Linear)]
        return [tensor for layer in layers for tensor in (layer.weight, layer.bias)]


@torch.no_grad()
def initialise_xavier(module: nn.Module) -> None:
    """Xavier-normal matrices, zero biases, for every parameter of a module."""
    for parameter in module.parameters():
        if parameter.dim() > 1:
            nn.init.xavier_normal_(parameter)
        else:
            parameter.zero_()
