"""Pictures over the words of a sentence: the triangle of span marginals, a diamond for each span, and surprisals."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

from simplepcfg.drawing.plots import Frame, scale_of, vertical_axis
from simplepcfg.drawing.svg import Point, line, path, picture, rect, slanted, slanted_size, text_width, title
from simplepcfg.errors import shortened

Span = tuple[int, int]

UNIT = 34.0
MARGIN = 12.0
LONGEST_WORD = 16


def span_chart(
    words: Sequence[str],
    marginals: Sequence[Sequence[float]],
    *,
    tree: Collection[Span] = (),
    places: Sequence[int] | None = None,
) -> str:
    """Return an SVG picture of ``marginals[i][j]``, [n + 1, n + 1], the probability of the span (i, j).

    Spans of ``tree`` have an outline. ``places`` are the indices of the words in the whole sentence, if some
    of it was dropped: cells name their spans by these.
    """
    indices = range(len(words)) if places is None else places
    n = len(words)
    shown = [shortened(word, LONGEST_WORD) for word in words]
    over, below = slanted_size(shown, UNIT)
    left = MARGIN + max(over, 0.0)
    bottom = MARGIN + n * UNIT / 2

    def corners(x: float, y: float, reach: float) -> list[Point]:
        return [(x, y - reach), (x + reach, y), (x, y + reach), (x - reach, y)]

    cells, rings = [], []
    for width in range(n, 1, -1):
        for i in range(n - width + 1):
            j = i + width
            probability = min(max(float(marginals[i][j]), 0.0), 1.0)
            x, y = left + (i + j) / 2 * UNIT, bottom - (width - 1) * UNIT / 2
            start, end = indices[i], indices[j - 1] + 1
            told = f"{' '.join(words[i:j])} [{start}, {end}]: {probability:.3f}"
            place = {"data_start": start, "data_end": end, "data_probability": f"{probability:.4f}"}
            opacity = round(probability, 3)
            diamond = corners(x, y, UNIT / 2)
            cells.append(path("polygon", diamond, title(told), class_="cell", fill_opacity=opacity, **place))
            if (i, j) in tree:
                rings.append(path("polygon", corners(x, y, UNIT / 2 - 3), class_="ring", pointer_events="none"))
    labels = [slanted(word, left + (k + 0.5) * UNIT, bottom + 10) for k, word in enumerate(shown)]
    size = left + n * UNIT + MARGIN, bottom + 14 + below + MARGIN
    return picture([*cells, *rings, *labels], *size, "span marginals of: " + " ".join(words))


def surprisal_bars(
    words: Sequence[str],
    surprisals: Sequence[float | None],
    entropies: Sequence[float | None] | None = None,
    *,
    most: float | None = None,
) -> str:
    """Return an SVG picture with a bar for each word, in nats; a word without a value, such as punctuation, has none.

    A tick beside a bar is the entropy before the word: what was to be expected. An infinite value has the height of
    the largest finite one and says so. The axis goes up to ``most`` at least, so that several pictures can share it.
    """
    expected = list(entropies or [None] * len(words))
    scale = scale_of([value for value in [*surprisals, *expected, most] if value is not None], zero=True)
    shown = [shortened(word, LONGEST_WORD) for word in words]
    slot = 40.0
    over, below = slanted_size(shown, slot)
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
            place = {"data_word": word, "data_start": k, "data_end": k + 1, "data_surprisal": f"{value:.6g}"}
            y, tall = frame.bottom - height, max(height, 0.01)  # one cannot point at a bar without height
            parts.append(rect(x + 7, y, slot - 14, tall, title(told), rx=2, class_="bar", **place))
            if entropy is not None and math.isfinite(entropy):
                y = frame.bottom - frame.height * scale.share(entropy)
                parts.append(line(x + 2, y, x + slot - 2, y, "ring"))
        parts.append(slanted(shown[k], x + slot / 2, frame.bottom + 14))
    parts.append(line(frame.left, frame.bottom, frame.right, frame.bottom, "axis"))
    width = max(frame.right, frame.left + text_width(heading, 12)) + 12
    return picture(parts, width, frame.bottom + below + 26, "surprisal of: " + " ".join(words))
