"""The triangle of span marginals over a sentence as a heat map: a diamond for each span of two words or more."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

from simplepcfg.drawing.svg import element, picture, shortened, text, text_width, title

Span = tuple[int, int]

UNIT = 34.0
MARGIN = 12.0
LONGEST_WORD = 16
SLANT = 40.0  # degrees by which words are rotated, so that long ones do not overlap


def span_chart(
    words: Sequence[str],
    marginals: Sequence[Sequence[float]],
    *,
    tree: Collection[Span] = (),
    required: Collection[Span] = (),
    forbidden: Collection[Span] = (),
    places: Sequence[int] | None = None,
    label: str | None = None,
) -> str:
    """Return an SVG picture of ``marginals[i][j]``, [n + 1, n + 1], the probability of the span (i, j).

    Spans of ``tree`` have an outline, required and forbidden ones theirs. ``places`` are the words' indices in the
    sentence, where these are others: the ones by which cells name their spans.
    """
    indices = range(len(words)) if places is None else places
    n = len(words)
    shown = [shortened(word, LONGEST_WORD) for word in words]
    slant = math.radians(SLANT)
    below = max((text_width(word, 13.0) for word in shown), default=0.0)
    # Words are slanted to the left, so that the first ones extend beyond the triangle.
    left = MARGIN + max(
        (text_width(word, 13.0) * math.cos(slant) - (k + 0.5) * UNIT for k, word in enumerate(shown)), default=0.0
    )
    left = max(left, MARGIN)
    bottom = MARGIN + n * UNIT / 2

    cells, rings, labels = [], [], []
    for width in range(n, 1, -1):
        for i in range(n - width + 1):
            j = i + width
            probability = min(max(float(marginals[i][j]), 0.0), 1.0)
            x, y = left + (i + j) / 2 * UNIT, bottom - (width - 1) * UNIT / 2
            points = " ".join(
                f"{a:.1f},{b:.1f}"
                for a, b in ((x, y - UNIT / 2), (x + UNIT / 2, y), (x, y + UNIT / 2), (x - UNIT / 2, y))
            )
            start, end = indices[i], indices[j - 1] + 1
            told = f"{' '.join(words[i:j])} [{start}, {end}]: {probability:.3f}"
            cells.append(
                element(
                    "polygon",
                    title(told),
                    points=points,
                    class_="cell",
                    fill_opacity=round(probability, 3),
                    data_start=start,
                    data_end=end,
                    data_probability=f"{probability:.4f}",
                )
            )
            for spans, kind in ((tree, "ring"), (required, "ring required"), (forbidden, "ring forbidden")):
                if (i, j) in spans:
                    inner = UNIT / 2 - 3
                    corners = ((x, y - inner), (x + inner, y), (x, y + inner), (x - inner, y))
                    rings.append(
                        element(
                            "polygon",
                            points=" ".join(f"{a:.1f},{b:.1f}" for a, b in corners),
                            class_=kind,
                            pointer_events="none",
                        )
                    )
    for k, word in enumerate(shown):
        x, y = left + (k + 0.5) * UNIT, bottom + 10
        labels.append(
            text(word, x, y, text_anchor="end", font_size=13, transform=f"rotate({-SLANT:g} {x:.1f} {y:.1f})")
        )
    height = bottom + 14 + below * math.sin(slant) + MARGIN
    told = label or "span marginals of: " + " ".join(words)
    return picture([*cells, *rings, *labels], left + n * UNIT + MARGIN, height, told)
