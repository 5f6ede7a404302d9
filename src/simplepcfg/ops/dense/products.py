"""Products of rows with rules, which may have a batch dimension, and with rows; row = position · B + sentence."""

import torch
from torch import Tensor


def rows_by_rules(rows: Tensor, rules: Tensor, batch: int, out: Tensor | None = None) -> Tensor:
    """Multiply rows [positions · B, X] with rules [(B,) X, Y]: [positions · B, Y]."""
    if rules.dim() == 2:
        return torch.mm(rows, rules, out=out)
    product = torch.bmm(_by_sentence(rows, batch), rules).transpose(0, 1).flatten(0, 1)
    return product if out is None else out.copy_(product)


def add_rows_by_rules(total: Tensor, rows: Tensor, rules: Tensor, batch: int) -> None:
    """Add ``rows_by_rules`` to a total in place."""
    if rules.dim() == 2:
        total.addmm_(rows, rules)
    else:
        total += rows_by_rules(rows, rules, batch)


def add_rows_by_rows(total: Tensor, left: Tensor, right: Tensor, batch: int) -> None:
    """Add outer products of rows [.., X] and [.., Y], summed over positions, to a total of X · Y numbers in place.

    If the total has a batch dimension, as [B, N, S, S] has, sentences are not summed.
    """
    if total.dim() == 3:
        total += torch.mm(left.T, right).view(total.shape)
    else:
        total += torch.bmm(_by_sentence(left, batch).mT, _by_sentence(right, batch)).view(total.shape)


def _by_sentence(rows: Tensor, batch: int) -> Tensor:
    return rows.unflatten(0, (-1, batch)).transpose(0, 1)  # [B, positions, X]
