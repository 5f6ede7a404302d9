"""Rows of the packed chart by start and end of their spans, for prefix probabilities with the Triton backend."""

import torch
from torch import Tensor

from simplepcfg.ops.inside.kernels import ALIVE
from simplepcfg.ops.inside.packed_chart import PackedChart
from simplepcfg.ops.scales import DEAD


class PackedRows:
    """A packed chart, which is filled here, with a table of the row of each span."""

    def __init__(self, chart: PackedChart) -> None:
        chart.fill()
        self.chart, self.states = chart, chart.states
        self.row_of = self._table()  # [B, n + 1, n + 1], -1 for missing spans

    def left_children(self, j: int) -> tuple[Tensor, Tensor]:
        """Return η(i, j) for i = 0 … j − 1; see ``InsideRows``."""
        rows, exponents = self._at(self.row_of[:, :j, j])
        dead = exponents == DEAD
        return self.chart.chart[rows, : self.states].double().masked_fill(dead[..., None], 0.0), exponents

    def word_children(self) -> tuple[Tensor, Tensor]:
        """Return η and ζ of every word; see ``InsideRows``."""
        rows, exponents = self._at(self.row_of.diagonal(1, 1, 2))
        children = self.chart.chart[rows].double().masked_fill((exponents == DEAD)[..., None], 0.0)
        return children.unflatten(-1, (2, self.states)), exponents[..., None].expand(-1, -1, 2)

    def prefix(self, m: int) -> tuple[Tensor, Tensor]:
        """Return β(0, m); see ``InsideRows``."""
        rows, exponents = self._at(self.row_of[:, 0, m])
        return self.chart.beta[rows].double().masked_fill((exponents == DEAD)[..., None], 0.0), exponents

    def _at(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        there = rows.clamp(min=0)
        exponents = self.chart.exponent[there].double()
        return there, exponents.masked_fill((rows < 0) | (exponents < ALIVE.value), DEAD)

    def _table(self) -> Tensor:
        layout, posts = self.chart.layout, self.chart.layout.n + 1
        table = torch.full((self.chart.batch * posts * posts,), -1, dtype=torch.int64, device=self.chart.device)
        table[layout.cells] = torch.arange(layout.words, layout.rows, device=self.chart.device)
        words = torch.arange(layout.words, device=self.chart.device)
        ranks = layout.sentence_of_row[: layout.words].long()
        starts = words - layout.words_before[ranks]
        table[(layout.order[ranks] * posts + starts) * posts + starts + 1] = words
        return table.view(self.chart.batch, posts, posts)
