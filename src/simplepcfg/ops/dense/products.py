"""Matrix products of rows with rules with or without a batch dimension; row = position · B + sentence."""

import torch
from torch import Tensor


def rows_by_rules(rows: Tensor, rules: Tensor, batch: int, out: Tensor | None = None) -> Tensor:
    """Multiply rows [positions · B, X] with rules [(B,) X, Y]: [positions · B, Y]."""
    if rules.dim() == 2:
        return torch.mm(rows, rules, out=out)
    found = torch.bmm(_by_sentence(rows, batch), rules).transpose(0, 1).flatten(0, 1)
    return found if out is None else out.copy_(found)


def add_rows_by_rules(total: Tensor, rows: Tensor, rules: Tensor, batch: int) -> None:
    """Add ``rows_by_rules`` to a total in place."""
    if rules.dim() == 2:
        total.addmm_(rows, rules)
    else:
        total += rows_by_rules(rows, rules, batch)


def rows_by_rows(left: Tensor, right: Tensor, batch: int, shared: bool) -> Tensor:
    """Sum outer products of rows over positions, and over sentences if ``shared``: [(B,) X, Y]."""
    if shared:
        return torch.mm(left.T, right)
    return torch.bmm(_by_sentence(left, batch).transpose(1, 2), _by_sentence(right, batch))


def add_rows_by_rows(total: Tensor, left: Tensor, right: Tensor, batch: int) -> None:
    """Add the sum of outer products to a total [(B,) X, Y] in place."""
    if total.dim() == 2:
        total.addmm_(left.T, right)
    else:
        total.baddbmm_(_by_sentence(left, batch).transpose(1, 2), _by_sentence(right, batch))


def _by_sentence(rows: Tensor, batch: int) -> Tensor:
    return rows.unflatten(0, (-1, batch)).transpose(0, 1)  # [B, positions, X]
