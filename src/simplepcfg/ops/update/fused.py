"""Launchers of the kernels of the optimizer step. None reads a value on the host, so CUDA graphs can capture them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

BLOCK = 2048  # weights that one program updates
PARTS = 1024  # number of partial sums of squares, a power of two
SQUARES_AT_ONCE = 2048


def count_batch(losses: Tensor, lengths: Tensor | None, n: int, end: int, total: int, batch: Tensor) -> Tensor:
    """Sum the loss, the tokens and the sentences of a batch, leaving out sentences of probability 0.

    Args:
        losses: ``[B]``; inf for a sentence of probability 0.
        lengths: ``[B]`` words of the sentences; None if all have n words.
        n: the number of words if ``lengths`` is None.
        end: the number of tokens that are counted in addition to the words of each sentence.
        total: the number of sentences over which the loss is averaged.
        batch: float64, whose first four elements become the loss, the number of tokens, the number of sentences, and
            the number of sentences of probability 0.

    Returns:
        ``[B]``, the weight of each loss in the mean: 1 / total, or 0 for a sentence of probability 0.
    """
    from simplepcfg.ops.update.kernels import count_kernel

    weights = torch.empty_like(losses)
    count_kernel[(1,)](
        losses, losses if lengths is None else lengths, batch, weights, len(losses), n, end, total,
        HAS_LENGTHS=lengths is not None, BLOCK=1 << max(len(losses) - 1, 1).bit_length(), num_warps=1,
    )  # fmt: skip
    return weights


def square_sums(numbers: Tensor) -> Tensor:
    """Compute Σ x² of ``numbers`` in ``PARTS`` partial sums, each in a fixed order."""
    from simplepcfg.ops.update.kernels import square_sums_kernel

    sums = numbers.new_empty(PARTS)
    each = -(-numbers.numel() // (PARTS * SQUARES_AT_ONCE)) * SQUARES_AT_ONCE
    square_sums_kernel[(PARTS,)](numbers, sums, numbers.numel(), each, BLOCK=SQUARES_AT_ONCE, num_warps=4)
    return sums


def finish_step(
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
    """Decide whether the step is valid, add it to the running sums, and compute the scalars of `adam`.

    Args:
        sums: partial sums of the squared gradient, from `square_sums`.
        batch: the sums of `count_batch`, followed by two flags: whether to stop, and whether a check failed.
        values: running sums and counters, updated in place.
        steps: the number of Adam's steps, updated in place.
        clip: the largest norm of the gradient; 0 for no clipping.
        epsilon: added to the norm before the division.
        least_loss: a batch whose loss for each token is lower is invalid.
        betas: Adam's decay rates.

    Returns:
        ``[4]``: whether the weights are updated, the factor of the gradient, and Adam's two bias corrections.
    """
    from simplepcfg.ops.update.kernels import finish_step_kernel

    scalars = sums.new_empty(4)
    logs = [math.log(beta) if beta else -math.inf for beta in betas]
    finish_step_kernel[(1,)](
        sums, batch, values, steps, scalars, clip, epsilon, least_loss, *logs, PARTS=len(sums), num_warps=4
    )
    return scalars


@dataclass(frozen=True, slots=True)
class ParameterState:
    """A parameter with its gradient and its optimizer state, all float32 and contiguous."""

    weight: Tensor
    gradient: Tensor
    first: Tensor  # Adam's first moment
    second: Tensor  # Adam's second moment
    mean: Tensor | None  # the exponential moving average of the weights; all parameters have one, or none has
    share: float  # multiplier of the learning rate


class AdamTable:
    """The work of each program of `adam`: addresses of a block of a parameter, its gradient and its optimizer state."""

    def __init__(self, parameters: Sequence[ParameterState]) -> None:
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
    """Update all parameters by AdamW, and then their exponential moving averages, in place.

    Args:
        table: the parameters.
        scalars: from `finish_step`.
        rates: ``[2]``, the learning rate and the weight of the new parameters in their moving average.
        betas, decay, epsilon: as in ``torch.optim.AdamW``.
    """
    from simplepcfg.ops.update.kernels import adam_kernel

    adam_kernel[(len(table.rows),)](
        table.rows, table.shares, scalars, rates, 1 - betas[0], betas[1], 1 - betas[1], decay, epsilon,
        HAS_MEAN=table.averages, BLOCK=BLOCK, num_warps=4,
    )  # fmt: skip
