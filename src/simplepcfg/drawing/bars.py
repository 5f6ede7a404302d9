"""Bars: the surprisal of each word, and a number of several systems for each of several groups."""

from __future__ import annotations

import math
from collections.abc import Sequence

from simplepcfg.drawing.axes import Frame, legend, number_label, scale_of, vertical_axis
from simplepcfg.drawing.style import SERIES
from simplepcfg.drawing.svg import element, line, picture, shortened, text, text_width, title

SLANT = 40.0
LONGEST_NAME = 18


def surprisal_bars(
    words: Sequence[str],
    surprisals: Sequence[float | None],
    entropies: Sequence[float | None] | None = None,
    *,
    most: float | None = None,
    label: str | None = None,
) -> str:
    """Return an SVG picture with a bar for each word, in nats; a word without a value, such as punctuation, has none.

    A tick beside a bar is the entropy before the word: what was to be expected. An infinite value has the height of
    the largest finite one and says so. The axis goes up to ``most`` at least, so that pictures can have the same.
    """
    finite = [value for value in surprisals if value is not None and math.isfinite(value)]
    expected = list(entropies or [None] * len(words))
    heights = [*finite, *(value for value in expected if value is not None and math.isfinite(value))]
    scale = scale_of([*heights, *([] if most is None else [most])] or [1.0], zero=True)
    shown = [shortened(word, LONGEST_NAME) for word in words]
    slot = 40.0
    slant = math.radians(SLANT)
    over = max((text_width(word, 13) * math.cos(slant) - (k + 0.5) * slot for k, word in enumerate(shown)), default=0.0)
    frame = Frame(max(48.0, over + 12), 30, slot * max(len(words), 1), 150)
    heading = "surprisal (nats); tick: entropy before the word"
    parts = vertical_axis(frame, scale, heading)
    for k, (word, value, entropy) in enumerate(zip(words, surprisals, expected, strict=True)):
        x = frame.left + k * slot
        if value is not None:
            height = frame.height * (scale.share(value) if math.isfinite(value) else 1.0)
            told = f"{word}: surprisal {value:.2f} nats" if math.isfinite(value) else f"{word}: impossible here"
            if entropy is not None:
                told += f", entropy {entropy:.2f} nats"
            # At least 0.01 high: one cannot point at a bar without height.
            parts.append(
                element(
                    "rect",
                    title(told),
                    x=x + 7,
                    y=frame.bottom - height,
                    width=slot - 14,
                    height=max(height, 0.01),
                    rx=2,
                    class_="bar",
                    data_word=word,
                    data_start=k,
                    data_end=k + 1,
                    data_surprisal=f"{value:.6g}",
                )
            )
            if entropy is not None and math.isfinite(entropy):
                y = frame.bottom - frame.height * scale.share(entropy)
                parts.append(line(x + 2, y, x + slot - 2, y, "ring"))
        anchor = (x + slot / 2, frame.bottom + 14)
        turned = f"rotate({-SLANT:g} {anchor[0]:.1f} {anchor[1]:.1f})"
        parts.append(text(shown[k], *anchor, text_anchor="end", font_size=13, transform=turned))
    parts.append(line(frame.left, frame.bottom, frame.right, frame.bottom, "axis"))
    below = max((text_width(word, 13) for word in shown), default=0.0) * math.sin(slant) + 26
    width = max(frame.right, frame.left + text_width(heading, 12)) + 12
    return picture(parts, width, frame.bottom + below, label or "surprisal of: " + " ".join(words))


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
            parts.append(
                element(
                    "rect",
                    title(f"{name}, {group}: {number_label(value)}"),
                    x=start + s * thickness + 1,
                    y=frame.bottom - height,
                    width=thickness - 2,
                    height=height,
                    class_=f"series-{s % SERIES} plain",
                )
            )
        parts.append(text(group, middle, frame.bottom + 18, text_anchor="middle", class_="muted"))
    parts.append(line(frame.left, frame.bottom, frame.right, frame.bottom, "axis"))
    return picture(parts, frame.right + 16, frame.bottom + 30, label)
