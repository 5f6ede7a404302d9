"""Networks that turn symbol embeddings into features, whose dot products are logits, and their initialisation."""

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

# "xavier_normal": Xavier-normal matrices and biases of 0, as the paper has it.
# "xavier_normal_matrices": the same with PyTorch's default biases, as Rank-PCFG and Rank HMM were released.
# "xavier_uniform": Xavier-uniform matrices and PyTorch's default biases, as most of the authors' programs have it.
Initialisation = Literal["xavier_normal", "xavier_normal_matrices", "xavier_uniform"]

BLOCKS = 2  # residual blocks of nearly all networks


class ResidualBlock(nn.Module):
    """Residual block y + ReLU(V ReLU(U y + p) + q)."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.inner = nn.Linear(size, size)
        self.outer = nn.Linear(size, size)

    def forward(self, y: Tensor) -> Tensor:
        """Map [..., size] to [..., size]."""
        return y + F.relu(self.outer(F.relu(self.inner(y))))


class FeatureNorm(nn.Module):
    """RMS normalisation with learned gains, g ⊙ y / rms(y).

    The initial gains are size^(-1/4), so that the dot product of two outputs has a standard deviation of about 1.
    """

    def __init__(self, size: int) -> None:
        super().__init__()
        self.gains = nn.Parameter(torch.empty(size))

    @torch.no_grad()
    def initialise(self) -> None:
        """Set the gains to their initial value."""
        self.gains.fill_(self.gains.shape[0] ** -0.25)

    def forward(self, y: Tensor) -> Tensor:
        """Map [..., size] to [..., size]."""
        return F.rms_norm(y, y.shape[-1:], self.gains.to(y.dtype))


class ResidualLayer(nn.Module):
    """Residual layer x + ReLU(W x + b) with optional RMS normalisation: the paper's network of parents and children."""

    def __init__(self, size: int, *, rms_norm: bool = False) -> None:
        super().__init__()
        self.linear = nn.Linear(size, size)
        self.norm = FeatureNorm(size) if rms_norm else nn.Identity()

    def weights(self) -> list[Tensor]:
        """Return matrices and biases in the order of use."""
        return [self.linear.weight, self.linear.bias]

    def finish(self, y: Tensor, x: Tensor) -> Tensor:
        """Return the network's output from its layers' output y and its input x: outer residual connection and norm."""
        return self.norm(y)

    def forward(self, x: Tensor) -> Tensor:
        """Map [..., size] to [..., size]."""
        return self.norm(x + F.relu(self.linear(x)))


class ResidualNetwork(nn.Sequential):
    """A linear layer and residual blocks, with an optional outer residual connection and RMS normalisation."""

    def __init__(
        self, inputs: int, size: int, blocks: int = BLOCKS, *, outer_residual: bool = False, rms_norm: bool = False
    ) -> None:
        layers: list[nn.Module] = [nn.Linear(inputs, size), *(ResidualBlock(size) for _ in range(blocks))]
        super().__init__(*layers, *([FeatureNorm(size)] if rms_norm else []))
        self.outer_residual = outer_residual

    def weights(self) -> list[Tensor]:
        layers = [module for module in self.modules() if isinstance(module, nn.Linear)]
        return [tensor for layer in layers for tensor in (layer.weight, layer.bias)]

    def finish(self, y: Tensor, x: Tensor) -> Tensor:
        y = x.to(y.dtype) + y if self.outer_residual else y
        return self[-1](y) if isinstance(self[-1], FeatureNorm) else y

    def forward(self, x: Tensor) -> Tensor:
        """Map [..., inputs] to [..., size]."""
        y = x
        for layer in self:
            y = y if isinstance(layer, FeatureNorm) else layer(y)
        return self.finish(y, x)


# What ``ops.neural.residual_networks`` can compute from the weights, except for the last operations.
FeatureNetwork = ResidualLayer | ResidualNetwork


@torch.no_grad()
def initialise(module: nn.Module, scheme: Initialisation = "xavier_normal") -> None:
    """Draw all matrices of a module, embeddings included, and set biases and the gains of norms, by a scheme."""
    for parameter in module.parameters():
        if parameter.dim() > 1:
            (nn.init.xavier_uniform_ if scheme == "xavier_uniform" else nn.init.xavier_normal_)(parameter)
        elif scheme == "xavier_normal":
            parameter.zero_()
    for part in module.modules():
        if isinstance(part, FeatureNorm):
            part.initialise()
