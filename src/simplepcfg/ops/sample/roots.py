"""Draws of the length and the root symbol of derivations."""

import torch
from torch import Tensor

from simplepcfg.ops.sample.draws import pick, pick_from_logs
from simplepcfg.ops.sample.lengths import LengthTable
from simplepcfg.ops.sample.top_down import WEIGHTS_AT_ONCE


def draw_lengths_and_roots(table: LengthTable, root: Tensor, uniforms: Tensor) -> tuple[Tensor, Tensor]:
    """Draw the length of each tree and its root symbol, given the length, by the first two numbers of its row: [T]."""
    lengths = pick_from_logs(table.log_lengths[None], uniforms[None, :, 0])[0]
    weights = table.beta.double() * root.double()  # [longest + 1, N]
    step = max(1, WEIGHTS_AT_ONCE // root.shape[0])
    parts = zip(lengths.split(step), uniforms[:, 1].split(step), strict=True)
    return lengths, torch.cat([pick(weights[some], numbers) for some, numbers in parts])
