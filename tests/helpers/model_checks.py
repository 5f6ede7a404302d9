"""What is asked of every model: gradients for all its parameters, and a few steps of training."""

from dataclasses import fields, replace
from typing import Any

import torch
from torch import Tensor, nn

from simplepcfg.models import build_model

TINY = {"states": 6, "nonterminals": 6, "preterminals": 8, "embedding": 8, "encoder": 8, "latent": 3, "rank": 4}


def tiny_model_of(config: Any, vocabulary: int) -> nn.Module:
    """Of any kind: its configuration with the sizes that it has made tiny; the same weights every time."""
    torch.manual_seed(3)
    sizes = {field.name: TINY[field.name] for field in fields(config) if field.name in TINY}
    return build_model(replace(config, **sizes), vocabulary).train()


def check_gradients(network: nn.Module) -> None:
    """After a backward pass no parameter is left out, and none is spoilt."""
    for name, parameter in network.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
        assert parameter.grad.abs().sum() > 0, name


def train_on(network: nn.Module, words: Tensor, steps: int = 50) -> None:
    """So many steps of Adam on one batch."""
    optimiser = torch.optim.Adam(network.parameters(), lr=0.03)
    for _ in range(steps):
        optimiser.zero_grad()
        network.loss(words).mean().backward()  # type: ignore[operator]
        optimiser.step()
