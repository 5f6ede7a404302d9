"""Inside and outside values of all spans, width by width, from which marginals of symbols are computed."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from simplepcfg.ops.arguments import InsideArguments
from simplepcfg.ops.backends import check_kernels, default_backend
from simplepcfg.ops.inside.scaled_backward import Backward
from simplepcfg.ops.inside.scaled_chart import ScaledChart
from simplepcfg.ops.marginals.rows import Rows


def outside_rows(arguments: InsideArguments, backend: str = "auto") -> tuple[Tensor, Iterator[Rows]]:
    """Compute log Z of each sentence, and the inside and outside values of its spans.

    Returns:
        ``(log_z, rows)``: ``[B]``, and an iterator over the widths, from n down to 2. Rows of spans beyond the end of a
        sentence may be included; their values are 0.

    The "triton" backend uses the packed chart, and every other backend the scaled chart.
    """
    n = arguments.sizes[1]
    if n == 1:
        return arguments.log_emissions.new_full((arguments.sizes[0],), -torch.inf), iter(())
    if backend == "auto":
        backend = default_backend(arguments.log_emissions)
    with torch.no_grad():
        if backend == "triton":
            check_kernels(backend, arguments.log_emissions)
            from simplepcfg.ops.marginals.packed import packed_rows

            return packed_rows(arguments)
        chart = ScaledChart(arguments)
        return chart.fill(), _scaled_rows(chart)


def _scaled_rows(chart: ScaledChart) -> Iterator[Rows]:
    backward = Backward(chart, torch.ones(chart.batch, dtype=chart.dtype, device=chart.device), check_range=True)
    posts = chart.n + 1
    sentences = torch.arange(chart.batch, device=chart.device)[:, None] * posts * posts
    for width in range(chart.n, 1, -1):
        starts = torch.arange(posts - width, device=chart.device)
        cells = (sentences + starts * (posts + 1) + width).flatten()
        with torch.no_grad():
            alpha = backward.outside(width, None)
            backward.add_to_children(width, alpha)
        yield Rows(width, cells, chart.beta[width].flatten(0, 1), alpha.flatten(0, 1))
