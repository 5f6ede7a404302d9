"""The chart as one square: η above the diagonal and ζ below it, so that all splits are strided views."""

import torch
from torch import Tensor


class Square:
    """A tensor with η(i, j) at [i, j] and ζ(i, j) at [j, i]. The splits of all spans of one width are one view.

    ``cells`` is [B, n + 1, n + 1, N], or [B, n + 1, n + 1] for one number for each span.
    """

    def __init__(self, cells: Tensor) -> None:
        self.cells = cells
        self.batch, self.posts = cells.shape[:2]
        self.tail = tuple(cells.shape[3:])
        column = cells.stride(2)
        self.column, self.row = column, cells.stride(1)
        # From one span to the next of the same width, row and column both increase by 1.
        self.splits_stride = (cells.stride(0), self.row + column, column, *cells.stride()[3:])
        self.spans_stride = (cells.stride(0), self.row + column, *cells.stride()[3:])

    def children(self, width: int) -> tuple[Tensor, Tensor]:
        """Return η(i, i + k) and ζ(i + k, i + width) of every split: two views [B, spans, splits, …]."""
        size = (self.batch, self.posts - width, width - 1, *self.tail)
        return (
            torch.as_strided(self.cells, size, self.splits_stride, self.column),
            torch.as_strided(self.cells, size, self.splits_stride, width * self.row + self.column),
        )

    def rows(self, width: int) -> Tensor:
        """Return η and ζ of every span of one width: one view [B, spans, 2, …]."""
        size = (self.batch, self.posts - width, 2, *self.tail)
        sides = width * (self.row - self.column)
        stride = (self.spans_stride[0], self.spans_stride[1], sides, *self.spans_stride[2:])
        return torch.as_strided(self.cells, size, stride, width * self.column)
