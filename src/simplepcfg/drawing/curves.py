"""Lines over a common axis: learning curves, calibration."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from simplepcfg.drawing.axes import Frame, Scale, horizontal_axis, legend, number_label, scale_of, vertical_axis
from simplepcfg.drawing.style import SERIES
from simplepcfg.drawing.svg import element, line, picture, title

MOST_MARKS = 40  # points of a longer line are not marked one by one


@dataclass(frozen=True, slots=True)
class Series:
    """A named line through points (x, y); those that are not finite are left out.

    Lines of the same ``colour`` number look alike; without it each has its own.
    """

    name: str
    points: Sequence[tuple[float, float]]
    dashed: bool = False
    colour: int | None = None


def line_plot(
    series: Sequence[Series],
    *,
    x_label: str,
    y_label: str,
    label: str,
    log: bool = False,
    unit_square: bool = False,
    width: float = 560.0,
    height: float = 260.0,
) -> str:
    """Return an SVG picture of some lines; ``unit_square`` has both axes from 0 to 1 and the diagonal."""
    kept = [
        [(x, y) for x, y in one.points if math.isfinite(x) and math.isfinite(y) and (y > 0 or not log)]
        for one in series
    ]
    if unit_square:
        across, up = Scale(0.0, 1.0), Scale(0.0, 1.0)
        width = height
    else:
        across = scale_of([x for points in kept for x, _ in points])
        up = scale_of([y for points in kept for _, y in points], log=log)
    colours = [index if one.colour is None else one.colour for index, one in enumerate(series)]
    marks, tall = legend([one.name for one in series], 60, 20, max(width, 320.0), colours)
    frame = Frame(60, 36 + tall, width, height)
    parts = [*marks, *vertical_axis(frame, up, y_label), *horizontal_axis(frame, across, x_label)]
    if unit_square:
        parts.append(line(frame.left, frame.bottom, frame.right, frame.top, "axis dashed"))
    for number, one, points in zip(colours, series, kept, strict=True):
        colour = f"series-{number % SERIES}"
        placed = [
            (frame.left + across.share(x) * frame.width, frame.bottom - up.share(y) * frame.height) for x, y in points
        ]
        if len(placed) > 1:
            listed = " ".join(f"{x:.1f},{y:.1f}" for x, y in placed)
            parts.append(element("polyline", points=listed, class_=f"{colour} curve{' dashed' if one.dashed else ''}"))
        if len(placed) <= MOST_MARKS:
            for (x, y), (a, b) in zip(placed, points, strict=True):
                told = title(f"{one.name}: {number_label(b)} at {x_label} {a:g}")
                parts.append(element("circle", told, cx=x, cy=y, r=3.5, class_=f"{colour} plain"))
    return picture(parts, max(frame.right, 380.0) + 20, frame.bottom + 46, label)
