"""What is asked of every model: gradients for all its parameters, and a few steps of training."""

import torch
from torch import Tensor, nn


def check_gradients(network: nn.Module) -> None:
    """After a backward pass no parameter is left out, and none is spoilt."""
    for name, parameter in network.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
        assert parameter.grad.abs().sum() > 0, name


def train_on(network: nn.Module, words: Tensor, steps: int) -> None:
    """So many steps of Adam on one batch."""
    optimiser = torch.optim.Adam(network.parameters(), lr=0.01)
    for _ in range(steps):
        optimiser.zero_grad()
        network.loss(words).mean().backward()  # type: ignore[operator]
        optimiser.step()
