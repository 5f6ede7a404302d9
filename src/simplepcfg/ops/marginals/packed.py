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

    def outside(self, width: int, alpha: Tensor, by_child: Tensor) -> None:
        self.alpha = alpha
        super().outside(width, alpha, by_child)


def packed_rows(arguments: InsideArguments) -> tuple[Tensor, Iterator[Rows]]:
    """Compute log Z of each sentence and the rows of its spans; see ``outside_rows``."""
    chart = _KeepingChart(arguments)
    log_z = chart.fill()
    chart.backward(torch.ones_like(log_z), Needs(False, False, False), None)
    return log_z, _rows(chart)


def _rows(chart: _KeepingChart) -> Iterator[Rows]:
    layout = chart.layout
    for width in range(layout.n, 1, -1):
        rows = layout.width(width)
        cells = layout.cells[rows.start - layout.words : rows.stop - layout.words]
        yield Rows(width, cells, chart.beta[rows], chart.alpha[rows])
