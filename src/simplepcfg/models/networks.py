"""The small networks that turn symbol embeddings into scores."""

from typing import Protocol, Self

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


class FeatureNorm(nn.Module):
    """g ⊙ y / rms(y): features as large as their gains say, whatever the layers before have grown to.

    The gains begin at size^(-1/4), so that the product of two such vectors has a deviation of about 1.
    """

    def __init__(self, size: int) -> None:
        super().__init__()
        self.gains = nn.Parameter(torch.empty(size))

    @torch.no_grad()
    def initialise(self) -> None:
        """As a constructor would, if the model did not set all its parameters itself."""
        self.gains.fill_(self.gains.shape[0] ** -0.25)

    def forward(self, y: Tensor) -> Tensor:
        """[..., size] → [..., size]."""
        return F.rms_norm(y, y.shape[-1:], self.gains.to(y.dtype))


class NetworkSizes(Protocol):
    """What the configurations of models with such networks have in common."""

    @property
    def embedding(self) -> int:
        """Width."""

    @property
    def residual_blocks(self) -> int:
        """Depth."""

    @property
    def normalised(self) -> bool:
        """Whether features are brought to one size."""


class ResidualNetwork(nn.Sequential):
    """A linear layer and then residual blocks; at the end, if wanted, features are normalised."""

    def __init__(self, inputs: int, size: int, blocks: int, *, normalised: bool = False) -> None:
        layers: list[nn.Module] = [nn.Linear(inputs, size), *(ResidualBlock(size) for _ in range(blocks))]
        super().__init__(*layers, *([FeatureNorm(size)] if normalised else []))

    @classmethod
    def of(cls, config: NetworkSizes, beside: int = 0) -> Self:
        """One of a model's networks, which reads an embedding and so many numbers beside it."""
        size = config.embedding
        return cls(size + beside, size, config.residual_blocks, normalised=config.normalised)

    def weights(self) -> list[Tensor]:
        """Matrices and biases in the order of use, as ``ops.neural.residual_networks`` takes them."""
        layers = [module for module in self.modules() if isinstance(module, nn.Linear)]
        return [tensor for layer in layers for tensor in (layer.weight, layer.bias)]

    def finished(self, y: Tensor) -> Tensor:
        """What the last residual block gave, normalised if this network does that."""
        last = self[-1]
        return last(y) if isinstance(last, FeatureNorm) else y


@torch.no_grad()
def initialise_xavier(module: nn.Module) -> None:
    """Xavier-normal matrices, zero biases, for every parameter of a module; gains as they begin."""
    for parameter in module.parameters():
        if parameter.dim() > 1:
            nn.init.xavier_normal_(parameter)
        else:
            parameter.zero_()
    for part in module.modules():
        if isinstance(part, FeatureNorm):
            part.initialise()
