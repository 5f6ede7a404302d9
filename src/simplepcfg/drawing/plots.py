"""Plots of numbers: lines over a common axis; axes with round numbers, and the legend."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from simplepcfg.drawing.style import SERIES
from simplepcfg.drawing.svg import element, line, path, picture, rect, text, text_width, title

LINE_PLOT = (560.0, 260.0)  # width and height
WANTED_TICKS = 5
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
    marks, tall = legend([one.name for one in series], colours, 60, 20, width)
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
                value = f"{b:,.1f}" if abs(b) >= 10 else f"{b:.2f}"
                told = title(f"{one.name}: {value} at {x_label} {a:g}")
                parts.append(element("circle", told, cx=x, cy=y, r=3.5, class_=f"{colour} plain"))
    return picture(parts, frame.right + 20, frame.bottom + 46, label)


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


def legend(names: Sequence[str], colours: Sequence[int], x: float, y: float, width: float) -> tuple[list[str], float]:
    """Return a coloured square and a name for each series, over as many lines as needed, and their height."""
    parts: list[str] = []
    left, top = x, y
    for index, name in zip(colours, names, strict=True):
        needed = 24 + text_width(name, 12.0) + 12
        if left > x and left + needed > x + width:
            left, top = x, top + 20
        parts.append(rect(left, top - 10, 12, 12, rx=2, class_=f"series-{index % SERIES} plain"))
        parts.append(text(name, left + 18, top, class_="muted"))
        left += needed
    return parts, top - y + 20


def _round_steps(low: float, high: float) -> list[float]:
    rough = (high - low) / WANTED_TICKS
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= rough * 0.999)
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [float(f"{k * step:.10g}") for k in range(first, last + 1)]  # 0.3 instead of 0.30000000000000004
