"""Launches of the kernels of an update. None of them waits for the host, so that all can be captured in a graph."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

BLOCK = 2048  # weights of a program
PARTS = 1024  # sums of squares, a power of two
SQUARES_AT_ONCE = 2048


def count_batch(losses: Tensor, lengths: Tensor | None, n: int, end: int, total: int, batch: Tensor) -> Tensor:
    """Write loss, tokens, sentences and impossible ones of a batch to ``batch``; each loss's weight [B] in the mean.

    Sentences have ``lengths`` [B] words, or all of them n, and ``end`` tokens more each; ``total`` share the mean.
    """
    from simplepcfg.ops.update.kernels import count_kernel

    weights = torch.empty_like(losses)
    count_kernel[(1,)](
        losses, losses if lengths is None else lengths, batch, weights, len(losses), n, end, total,
        HAS_LENGTHS=lengths is not None, BLOCK=1 << max(len(losses) - 1, 1).bit_length(), num_warps=1,
    )  # fmt: skip
    return weights


def square_sums(numbers: Tensor) -> Tensor:
    """Σ x² of ``numbers`` in ``PARTS`` parts, each always added up in the same order."""
    from simplepcfg.ops.update.kernels import square_sums_kernel

    sums = numbers.new_empty(PARTS)
    each = -(-numbers.numel() // (PARTS * SQUARES_AT_ONCE)) * SQUARES_AT_ONCE
    square_sums_kernel[(PARTS,)](numbers, sums, numbers.numel(), each, BLOCK=SQUARES_AT_ONCE, num_warps=4)
    return sums


def settle(
    sums: Tensor,
    batch: Tensor,
    values: Tensor,
    steps: Tensor,
    *,
    clip: float,
    epsilon: float,
    least_loss: float,
    betas: tuple[float, float],
) -> Tensor:
    """Count a step in ``values`` and ``steps``; for `adam`: whether weights move, by which factors.

    ``sums`` are of the gradient's squares, ``batch`` is that of `count_batch` with two flags after it, and a token's
    loss of less than ``least_loss`` is wrong. ``clip`` 0 does not clip.
    """
    from simplepcfg.ops.update.kernels import settle_kernel

    scalars = sums.new_empty(4)
    logs = [math.log(beta) if beta else -math.inf for beta in betas]
    settle_kernel[(1,)](
        sums, batch, values, steps, scalars, clip, epsilon, least_loss, *logs, PARTS=len(sums), num_warps=4
    )
    return scalars


@dataclass(frozen=True, slots=True)
class Moved:
    """One parameter and what moves with it, all float32 and contiguous; its share of the learning rate.

    Either all parameters have an average, or none.
    """

    weight: Tensor
    gradient: Tensor
    first: Tensor
    second: Tensor
    mean: Tensor | None
    share: float


class AdamTable:
    """Which program moves what: the addresses of stretches of all parameters."""

    def __init__(self, parameters: Sequence[Moved]) -> None:
        rows, shares = [], []
        self.averages = parameters[0].mean is not None
        assert all((each.mean is not None) is self.averages for each in parameters)
        for each in parameters:
            mean = each.weight if each.mean is None else each.mean
            tensors = (each.weight, each.gradient, each.first, each.second, mean)
            assert all(tensor.is_contiguous() and tensor.data_ptr() % 16 == 0 for tensor in tensors)
            for start in range(0, each.weight.numel(), BLOCK):
                addresses = [tensor.data_ptr() + start * tensor.element_size() for tensor in tensors]
                rows.append([*addresses, min(BLOCK, each.weight.numel() - start)])
                shares.append(each.share)
        device = parameters[0].weight.device
        self.rows = torch.tensor(rows, dtype=torch.int64).to(device)
        self.shares = torch.tensor(shares, dtype=torch.float32).to(device)


def adam(
    table: AdamTable, scalars: Tensor, rates: Tensor, *, betas: tuple[float, float], decay: float, epsilon: float
) -> None:
    """AdamW of all parameters by the ``scalars`` of `settle`; then each average goes towards its parameter.

    ``rates`` are the learning rate and the share of the new weights in their average.
    """
    from simplepcfg.ops.update.kernels import adam_kernel

    adam_kernel[(len(table.rows),)](
        table.rows, table.shares, scalars, rates, 1 - betas[0], betas[1], 1 - betas[1], decay, epsilon,
        HAS_MEAN=table.averages, BLOCK=BLOCK, num_warps=4,
    )  # fmt: skip
