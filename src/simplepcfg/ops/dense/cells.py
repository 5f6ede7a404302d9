"""The layout of the dense chart, in which all spans and splits of a width are one view, and products of rows."""

import torch
from torch import Tensor


class Cells:
    """One value for every span as a left child and one as a right child, read and written through strided views.

    ``values`` is [n + 1, B, n + 1, N], or [n + 1, B, n + 1] for one number for each span. As a left child span (i, j)
    stands at [i, :, n + 1 − (j − i)], as a right child at [j, :, j − i]: two triangles that never meet. Fence posts
    come before sentences, so that spans and sentences are one dimension of rows, i · B + b; splits of a span lie side
    by side, that with the widest left child first.
    """

    def __init__(self, values: Tensor) -> None:
        self.values = values
        self.posts, self.batch = values.shape[:2]
        self.tail = tuple(values.shape[3:])
        self.ones = (1,) * len(self.tail)
        self.column = values.stride(2)
        self.row = self.posts * self.column

    def rows(self, width: int) -> int:
        """Return the number of spans of a width in all sentences."""
        return (self.posts - width) * self.batch

    def splits(self, width: int, rows: range | None = None, wide: bool = False) -> tuple[Tensor, Tensor]:
        """Return both children of the splits of the spans of a width, or of some rows of them: two [rows, splits, …].

        ``wide`` leaves out the first and the last split, where one child is a word.
        """
        rows = range(self.rows(width)) if rows is None else rows
        count, splits = len(rows), width - 1 - 2 * wide
        left = self.block(rows.start, self.posts - width + 1 + wide, count, splits)
        return left, self.block(rows.start + width * self.batch, 1 + wide, count, splits)

    def sides(self, width: int, child: int) -> Tensor:
        """Return (i, i + child) and (j − child, j) for the spans (i, j) of a width: one view [2, rows, …]."""
        left, right = self.posts - child, width * self.batch * self.posts + child  # in columns
        size, stride = (2, self.rows(width), *self.tail), ((right - left) * self.column, self.row, *self.ones)
        return torch.as_strided(self.values, size, stride, left * self.column)

    def left(self, width: int) -> Tensor:
        """Return the spans of a width as left children: [rows, …]."""
        size, stride = (self.rows(width), *self.tail), (self.row, *self.ones)
        return torch.as_strided(self.values, size, stride, (self.posts - width) * self.column)

    def block(self, row: int, column: int, rows: int, columns: int) -> Tensor:
        """Return consecutive columns of consecutive rows: [rows, columns, …]."""
        size, stride = (rows, columns, *self.tail), (self.row, self.column, *self.ones)
        return torch.as_strided(self.values, size, stride, row * self.row + column * self.column)


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
