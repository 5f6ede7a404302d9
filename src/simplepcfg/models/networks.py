"""The small networks that turn symbol embeddings into features, whose products are logits; and how weights begin."""

from typing import Literal, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

# "xavier_normal": Xavier-normal matrices and biases of 0, as the paper has it.
# "xavier_normal_matrices": the same with PyTorch's default biases, as Rank-PCFG and Rank HMM were released.
# "xavier_uniform": Xavier-uniform matrices and PyTorch's default biases, as most of the authors' programs have it.
Initialisation = Literal["xavier_normal", "xavier_normal_matrices", "xavier_uniform"]


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
    """RMS normalisation with learned gains, g ⊙ y / rms(y).

    The gains begin at size^(-1/4), so that the dot product of two such vectors has a standard deviation of about 1.
    """

    def __init__(self, size: int) -> None:
        super().__init__()
        self.gains = nn.Parameter(torch.empty(size))

    @torch.no_grad()
    def initialise(self) -> None:
        """Set the gains to their initial value."""
        self.gains.fill_(self.gains.shape[0] ** -0.25)

    def forward(self, y: Tensor) -> Tensor:
        """[..., size] → [..., size]."""
        return F.rms_norm(y, y.shape[-1:], self.gains.to(y.dtype))


class FeatureNetwork(Protocol):
    """A network that ``ops.neural.residual_networks`` can compute: all but its last step is given by its weights."""

    def weights(self) -> list[Tensor]:
        """Matrices and biases in the order of use."""
        ...

    def finish(self, y: Tensor, x: Tensor) -> Tensor:
        """The network's output, from what its layers made of the inputs x: an outer residual connection, a norm."""
        ...

    def __call__(self, x: Tensor) -> Tensor:
        """[..., inputs] → [..., size]."""
        ...


class ResidualLayer(nn.Module):
    """x + ReLU(W x + b), and RMS normalisation if wanted: the paper's networks of parents and children."""

    def __init__(self, size: int, *, rms_norm: bool = False) -> None:
        super().__init__()
        self.linear = nn.Linear(size, size)
        self.norm = FeatureNorm(size) if rms_norm else nn.Identity()

    def weights(self) -> list[Tensor]:
        """See FeatureNetwork."""
        return [self.linear.weight, self.linear.bias]

    def finish(self, y: Tensor, x: Tensor) -> Tensor:
        """See FeatureNetwork; the residual connection is part of y."""
        return self.norm(y)

    def forward(self, x: Tensor) -> Tensor:
        """[..., size] → [..., size]."""
        return self.norm(x + F.relu(self.linear(x)))


class ResidualNetwork(nn.Sequential):
    """A linear layer and then residual blocks; x is added to the result, and the result normalised, if wanted."""

    def __init__(
        self, inputs: int, size: int, blocks: int = 2, *, outer_residual: bool = False, rms_norm: bool = False
    ) -> None:
        layers: list[nn.Module] = [nn.Linear(inputs, size), *(ResidualBlock(size) for _ in range(blocks))]
        super().__init__(*layers, *([FeatureNorm(size)] if rms_norm else []))
        self.outer_residual = outer_residual

    def weights(self) -> list[Tensor]:
        """See FeatureNetwork."""
        layers = [module for module in self.modules() if isinstance(module, nn.Linear)]
        return [tensor for layer in layers for tensor in (layer.weight, layer.bias)]

    def finish(self, y: Tensor, x: Tensor) -> Tensor:
        """See FeatureNetwork."""
        y = x.to(y.dtype) + y if self.outer_residual else y
        return self[-1](y) if isinstance(self[-1], FeatureNorm) else y

    def forward(self, x: Tensor) -> Tensor:
        """[..., inputs] → [..., size]."""
        y = x
        for layer in self:
            y = y if isinstance(layer, FeatureNorm) else layer(y)
        return self.finish(y, x)


@torch.no_grad()
def initialise(module: nn.Module, how: Initialisation = "xavier_normal") -> None:
    """Draw every matrix of a module, embeddings included; vectors are biases or the gains of norms."""
    for parameter in module.parameters():
        if parameter.dim() > 1:
            (nn.init.xavier_uniform_ if how == "xavier_uniform" else nn.init.xavier_normal_)(parameter)
        elif how == "xavier_normal":
            parameter.zero_()
    for part in module.modules():
        if isinstance(part, FeatureNorm):
            part.initialise()
