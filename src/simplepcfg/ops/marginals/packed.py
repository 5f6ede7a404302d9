"""Inside and outside values from the packed chart. This module imports Triton."""

from collections.abc import Iterator

import torch
from torch import Tensor

from simplepcfg.ops.arguments import InsideArguments, Needs
from simplepcfg.ops.inside.packed_chart import PackedChart
from simplepcfg.ops.marginals.rows import Rows


class _KeepingChart(PackedChart):
    """A packed chart that keeps the outside values, which the backward pass would otherwise free."""

    alpha: Tensor
    by_child: Tensor

    def outside(self, width: int, alpha: Tensor, by_child: Tensor) -> None:
        self.alpha, self.by_child = alpha, by_child
        super().outside(width, alpha, by_child)


def packed_rows(arguments: InsideArguments) -> tuple[Tensor, Iterator[Rows]]:
    """Compute log Z of each sentence and the rows of its spans; see ``outside_rows``."""
    chart = _KeepingChart(arguments)
    log_z = chart.fill()
    chart.backward(torch.ones_like(log_z), Needs(True, False, False), None)
    return log_z, _rows(chart)


def _rows(chart: _KeepingChart) -> Iterator[Rows]:
    layout = chart.layout
    for width in range(layout.n, 1, -1):
        rows = layout.width(width)
        cells = layout.cells[rows.start - layout.words : rows.stop - layout.words]
        yield Rows(width, cells, chart.beta[rows], chart.alpha[rows], chart.by_child[rows])
    words = slice(0, layout.words)
    yield Rows(1, _word_cells(chart), chart.emit, None, chart.by_child[words])


def _word_cells(chart: _KeepingChart) -> Tensor:
    """Return the flat index of (sentence, i, i + 1) in [B, n + 1, n + 1] for each word."""
    layout, posts = chart.layout, chart.layout.n + 1
    rank = layout.sentence_of_row[: layout.words].long()
    starts = torch.arange(layout.words, device=rank.device) - layout.words_before[rank].long()
    return layout.order[rank].long() * posts * posts + starts * (posts + 1) + 1
