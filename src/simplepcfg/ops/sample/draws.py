"""Draws from unnormalised weights by uniform numbers that are given: the same numbers give the same tree everywhere."""

import torch
from torch import Tensor

from simplepcfg.ops.inside.arguments import InsideArguments

# Columns of the uniforms: one for the length, one for the root, then three a node: split, left child, right child.
BEFORE_NODES = 2
NODE_DRAWS = 3


def draw_uniforms(trees: int, n: int, generator: torch.Generator, device: torch.device) -> Tensor:
    """All the chance that ``trees`` trees of up to n words need: [T, 2 + 3 (n − 1)] in [0, 1), float64."""
    size = (trees, BEFORE_NODES + NODE_DRAWS * (n - 1))
    return torch.rand(size, generator=generator, device=generator.device, dtype=torch.float64).to(device)


def pick(weights: Tensor, uniform: Tensor) -> Tensor:
    """An index of each row of [X, C] in proportion to its weight; ``uniform`` is [X], or [X, S] for S draws a row."""
    sums = weights.cumsum(-1, dtype=torch.float64)
    goal = uniform.view(uniform.shape[0], uniform.shape[1:].numel()) * sums[:, -1:]  # X may be 0
    # The first sum beyond the goal: never at a weight of 0, where the sum is that of the index before.
    found = torch.searchsorted(sums, goal, right=True).clamp_(max=weights.shape[-1] - 1)
    return found.view(uniform.shape)


def pick_from_logs(logs: Tensor, uniform: Tensor) -> Tensor:
    """The same for weights that are given as logarithms; any index where all are -inf."""
    top = logs.amax(-1, keepdim=True)
    return pick((logs - torch.where(top > -torch.inf, top, 0.0)).exp(), uniform)


def root_symbols(arguments: InsideArguments, top: Tensor, log_z: Tensor, uniform: Tensor) -> Tensor:
    """S draws of the top symbol of each sentence, -1 where it has no tree: [B, S].

    ``top`` [B, N] is β of the whole sentence up to a factor, ``uniform`` [B, S].
    """
    drawn = pick_from_logs(arguments.root.detach().double().log() + top.double().log(), uniform)
    return torch.where(log_z[:, None] > -torch.inf, drawn, -1)
