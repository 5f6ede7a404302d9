"""A small plot in characters, for terminals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

_BRAILLE = 0x2800
# The bit of each dot of a character, by column and row.
_DOTS = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))


def text_plot(values: Sequence[float], width: int, height: int) -> list[str]:
    """Return the lines of a plot of positive values on a logarithmic axis, with the largest and smallest to the left.

    Each character has two by four dots. Values that are not finite are left out; without two others the plot is empty.
    """
    columns, rows = 2 * width, 4 * height
    drawable = [value for value in values if math.isfinite(value) and value > 0]
    if len(drawable) < 2:
        return [""] * height
    # As many columns as values while there are few, so that a short curve fills the plot.
    groups = _groups(drawable, columns)
    top, bottom = max(groups), min(groups)
    room = top - bottom or 1.0
    cells = [[0] * width for _ in range(height)]
    step = (columns - 1) / max(len(groups) - 1, 1)
    before: tuple[int, int] | None = None
    for index, value in enumerate(groups):
        here = (round(index * step), round((top - value) / room * (rows - 1)))
        for x, y in _between(before or here, here):
            cells[y // 4][x // 2] |= _DOTS[x % 2][y % 4]
        before = here
    labels = [""] * height
    labels[0], labels[-1] = f"{math.exp(top):,.1f}", f"{math.exp(bottom):,.1f}"
    margin = max(map(len, labels))
    return [
        f"{label:>{margin}} ┤{''.join(chr(_BRAILLE + cell) for cell in row)}"
        for label, row in zip(labels, cells, strict=True)
    ]


def _groups(values: Sequence[float], most: int) -> list[float]:
    """Return logarithms, and the means of neighbours where there are more values than columns."""
    count = min(len(values), most)
    edges = [round(k * len(values) / count) for k in range(count + 1)]
    parts = (values[first:last] for first, last in pairwise(edges))
    return [math.fsum(map(math.log, part)) / len(part) for part in parts]


def _between(start: tuple[int, int], end: tuple[int, int]) -> list[tuple[int, int]]:
    """Return the dots on the line between two, both included."""
    (a, b), (c, d) = start, end
    length = max(abs(c - a), abs(d - b), 1)
    return [(a + round(k * (c - a) / length), b + round(k * (d - b) / length)) for k in range(length + 1)]
