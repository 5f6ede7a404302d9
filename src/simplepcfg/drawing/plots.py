"""Plots of numbers: lines over a common axis, groups of bars and heat maps; axes with round numbers, and the legend."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from simplepcfg.drawing.style import SERIES
from simplepcfg.drawing.svg import element, line, path, picture, rect, shortened, text, text_width, title

LINE_PLOT = (560.0, 260.0)  # width and height
MOST_MARKS = 40  # points of a longer line are not marked one by one
CELL_WIDTH, CELL_HEIGHT = 44.0, 24.0  # of heat maps
LONGEST_NAME = 20  # of a row of a heat map


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
) -> str:
    """Return an SVG picture of some lines."""
    width, height = LINE_PLOT
    kept = [
        [(x, y) for x, y in one.points if math.isfinite(x) and math.isfinite(y) and (y > 0 or not log)]
        for one in series
    ]
    across = scale_of([x for points in kept for x, _ in points])
    up = scale_of([y for points in kept for _, y in points], log=log)
    colours = [index if one.colour is None else one.colour for index, one in enumerate(series)]
    marks, tall = legend([one.name for one in series], 60, 20, width, colours)
    frame = Frame(60, 36 + tall, width, height)
    parts = [*marks, *vertical_axis(frame, up, y_label), *horizontal_axis(frame, across, x_label)]
    for number, one, points in zip(colours, series, kept, strict=True):
        colour = f"series-{number % SERIES}"
        placed = [
            (frame.left + across.share(x) * frame.width, frame.bottom - up.share(y) * frame.height) for x, y in points
        ]
        if len(placed) > 1:
            parts.append(path("polyline", placed, class_=f"{colour} curve{' dashed' if one.dashed else ''}"))
        if len(placed) <= MOST_MARKS:
            for (x, y), (a, b) in zip(placed, points, strict=True):
                told = title(f"{one.name}: {number_label(b)} at {x_label} {a:g}")
                parts.append(element("circle", told, cx=x, cy=y, r=3.5, class_=f"{colour} plain"))
    return picture(parts, frame.right + 20, frame.bottom + 46, label)


def grouped_bars(
    groups: Sequence[str],
    series: Sequence[tuple[str, Sequence[float | None]]],
    *,
    value_label: str,
    label: str,
    most: float | None = None,
) -> str:
    """Return an SVG picture with a bar for each system in each group; None leaves a gap."""
    values = [value for _, row in series for value in row if value is not None and math.isfinite(value)]
    scale = scale_of([*values, *([most] if most is not None else [])] or [1.0], zero=True)
    thickness = 14.0 if len(series) > 3 else 18.0
    slot = max(thickness * len(series) + 18, max((text_width(name, 12) + 12 for name in groups), default=0.0))
    width = max(slot * len(groups), 320.0)
    slot = width / max(len(groups), 1)
    marks, tall = legend([name for name, _ in series], 52, 20, width)
    frame = Frame(52, 36 + tall, width, 200)
    parts = [*marks, *vertical_axis(frame, scale, value_label)]
    for g, group in enumerate(groups):
        middle = frame.left + (g + 0.5) * slot
        start = middle - thickness * len(series) / 2
        for s, (name, row) in enumerate(series):
            value = row[g]
            if value is None or not math.isfinite(value):
                continue
            height = max(frame.height * scale.share(value), 0.01)
            told, colour = title(f"{name}, {group}: {number_label(value)}"), f"series-{s % SERIES} plain"
            x, y = start + s * thickness + 1, frame.bottom - height
            parts.append(rect(x, y, thickness - 2, height, told, class_=colour))
        parts.append(text(group, middle, frame.bottom + 18, text_anchor="middle", class_="muted"))
    parts.append(line(frame.left, frame.bottom, frame.right, frame.bottom, "axis"))
    return picture(parts, frame.right + 16, frame.bottom + 30, label)


def heat_map(
    rows: Sequence[str],
    columns: Sequence[str],
    values: Sequence[Sequence[float]],
    *,
    label: str,
    row_label: str = "",
    column_label: str = "",
) -> str:
    """Return an SVG picture of ``values[row][column]`` from 0 to 1; larger ones are darker, and written in percent."""
    names = [shortened(name, LONGEST_NAME) for name in rows]
    left = max((text_width(name, 12) for name in [*names, row_label]), default=0.0) + 20
    width = max(CELL_WIDTH, max((text_width(shortened(name, 9), 12) + 10 for name in columns), default=0.0))
    top = 50.0
    parts = [text(row_label, left - 10, top - 10, text_anchor="end", class_="muted")]
    parts.append(text(column_label, left, 18, class_="muted"))
    for c, name in enumerate(columns):
        parts.append(text(shortened(name, 9), left + (c + 0.5) * width, top - 10, text_anchor="middle", class_="muted"))
    for r, name in enumerate(names):
        y = top + r * CELL_HEIGHT
        parts.append(text(name, left - 10, y + 16, text_anchor="end", class_="muted"))
        for c, column in enumerate(columns):
            value = min(max(float(values[r][c]), 0.0), 1.0)
            x = left + c * width
            told = title(f"{rows[r]}, {column}: {100 * value:.1f} %")
            opacity = round(0.75 * value, 3)  # so that the number on the colour can be read in either theme
            parts.append(rect(x, y, width, CELL_HEIGHT, told, class_="cell", fill_opacity=opacity))
            if value >= 0.005:
                centred = {"text_anchor": "middle", "class_": "small", "pointer_events": "none"}
                parts.append(text(f"{100 * value:.0f}", x + width / 2, y + 16, **centred))
    return picture(parts, left + width * len(columns) + 14, top + CELL_HEIGHT * len(rows) + 14, label)


@dataclass(frozen=True, slots=True)
class Frame:
    """The rectangle that data are drawn in."""

    left: float
    top: float
    width: float
    height: float

    @property
    def bottom(self) -> float:
        """The lower edge of the rectangle."""
        return self.top + self.height

    @property
    def right(self) -> float:
        """The right edge of the rectangle."""
        return self.left + self.width


@dataclass(frozen=True, slots=True)
class Scale:
    """A map from data to a share of an axis, 0 to 1; linear or logarithmic."""

    low: float
    high: float
    log: bool = False

    def share(self, value: float) -> float:
        """Return where a value lies as a share of the axis; below 0 or above 1 beyond the ends."""
        if self.log:
            return (math.log(value) - math.log(self.low)) / (math.log(self.high) - math.log(self.low))
        return (value - self.low) / (self.high - self.low)

    def ticks(self) -> list[float]:
        """Return round values between the ends, for marks."""
        if self.log:
            digits = (1, 1.5, 2, 3, 4, 5, 6, 7, 8) if self.high < 10 * self.low else (1, 2, 5)
            ticks = [
                digit * 10.0**power
                for power in range(math.floor(math.log10(self.low)) - 1, math.ceil(math.log10(self.high)) + 1)
                for digit in digits
            ]
            ticks = [value for value in ticks if self.low * 0.999 <= value <= self.high * 1.001]
            if len(ticks) > 9:  # over many orders of magnitude only powers of ten are marked
                ticks = [value for value in ticks if math.isclose(math.log10(value), round(math.log10(value)))]
            return ticks if len(ticks) > 1 else _round_steps(self.low, self.high)
        return _round_steps(self.low, self.high)


def scale_of(values: Sequence[float], *, log: bool = False, zero: bool = False) -> Scale:
    """Return a scale that holds all values, with some room; ``zero`` makes it begin at 0."""
    drawable = [value for value in values if math.isfinite(value) and (value > 0 or not log)]
    if not drawable:
        return Scale(1.0, 10.0, True) if log else Scale(0.0, 1.0)
    low, high = min(drawable), max(drawable)
    if log:
        return Scale(low / 1.05, max(high, low * 1.2) * 1.05, True)
    low, high = (min(low, 0.0), high * 1.04) if zero else (low, high)
    if high <= low:
        high = low + (abs(low) or 1.0)
    return Scale(low, high)


def vertical_axis(frame: Frame, scale: Scale, label: str) -> list[str]:
    """Return SVG elements: grid lines with their values to the left, and the name of the quantity above."""
    parts = []
    for value in scale.ticks():
        y = frame.bottom - scale.share(value) * frame.height
        parts.append(line(frame.left, y, frame.right, y, "grid"))
        parts.append(text(f"{value:,.6g}", frame.left - 8, y + 4, text_anchor="end", class_="muted"))
    parts.append(text(label, frame.left, frame.top - 10, class_="muted"))
    return parts


def horizontal_axis(frame: Frame, scale: Scale, label: str) -> list[str]:
    """Return SVG elements: a line with values below it, and the name of the quantity."""
    parts = [line(frame.left, frame.bottom, frame.right, frame.bottom, "axis")]
    for value in scale.ticks():
        x = frame.left + scale.share(value) * frame.width
        parts.append(line(x, frame.bottom, x, frame.bottom + 4, "axis"))
        parts.append(text(f"{value:,.6g}", x, frame.bottom + 18, text_anchor="middle", class_="muted"))
    parts.append(text(label, frame.right, frame.bottom + 36, text_anchor="end", class_="muted"))
    return parts


def legend(
    names: Sequence[str], x: float, y: float, width: float, colours: Sequence[int] | None = None
) -> tuple[list[str], float]:
    """Return a coloured square and a name for each series, over as many lines as needed, and their height."""
    parts: list[str] = []
    left, top = x, y
    for index, name in zip(colours or range(len(names)), names, strict=True):
        needed = 24 + text_width(name, 12.0) + 12
        if left > x and left + needed > x + width:
            left, top = x, top + 20
        parts.append(rect(left, top - 10, 12, 12, rx=2, class_=f"series-{index % SERIES} plain"))
        parts.append(text(name, left + 18, top, class_="muted"))
        left += needed
    return parts, top - y + 20


def number_label(value: float) -> str:
    """Return a value as it is written beside a mark."""
    return f"{value:,.1f}" if abs(value) >= 10 else f"{value:.2f}"


def _round_steps(low: float, high: float, wanted: int = 5) -> list[float]:
    rough = (high - low) / wanted
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= rough * 0.999)
    first = math.ceil(low / step - 1e-9)
    rounded: Callable[[float], float] = lambda value: float(f"{value:.10g}")  # noqa: E731 - without 0.30000000000000004
    return [rounded(k * step) for k in range(first, math.floor(high / step + 1e-9) + 1)]
