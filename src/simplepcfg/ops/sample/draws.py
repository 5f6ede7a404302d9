"""Draws from unnormalised weights, given uniform numbers: the same numbers give the same tree on every device."""

import torch
from torch import Tensor

# Columns of the uniform numbers: the length, the root, and then split, left child and right child of each node.
BEFORE_NODES = 2
NODE_DRAWS = 3
# The number of weights of symbols or ranks that are held at a time.
WEIGHTS_AT_ONCE = 1 << 24


def draw_uniforms(trees: int, n: int, generator: torch.Generator, device: torch.device) -> Tensor:
    """Draw the uniform numbers for T trees of up to n words: [T, 2 + 3 (n − 1)] in [0, 1), float64."""
    size = (trees, BEFORE_NODES + NODE_DRAWS * (n - 1))
    return torch.rand(size, generator=generator, device=generator.device, dtype=torch.float64).to(device)


def pick(weights: Tensor, uniform: Tensor) -> Tensor:
    """Draw indices from the weights [X, C] of each row; ``uniform`` is [X], or [X, S] for S draws from each row."""
    sums = weights.cumsum(-1, dtype=torch.float64)
    goal = uniform.view(uniform.shape[0], uniform.shape[1:].numel()) * sums[:, -1:]  # X may be 0
    # The first cumulative sum above the goal never belongs to a weight of 0.
    indices = torch.searchsorted(sums, goal, right=True).clamp_(max=weights.shape[-1] - 1)
    return indices.view(uniform.shape)


def pick_from_logs(logs: Tensor, uniform: Tensor) -> Tensor:
    """Draw indices from log-weights; see ``pick``. If all are -inf, the index is arbitrary."""
    top = logs.amax(-1, keepdim=True)
    return pick((logs - torch.where(top > -torch.inf, top, 0.0)).exp(), uniform)
