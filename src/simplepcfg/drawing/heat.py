"""A table of shares as a heat map."""

from __future__ import annotations

from collections.abc import Sequence

from simplepcfg.drawing.svg import element, picture, shortened, text, text_width, title

CELL_WIDTH, CELL_HEIGHT = 44.0, 24.0
LONGEST_NAME = 20


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
            # 0.75 of the full colour at most, so that the number on it can be read in either theme.
            parts.append(
                element(
                    "rect",
                    told,
                    x=x,
                    y=y,
                    width=width,
                    height=CELL_HEIGHT,
                    class_="cell",
                    fill_opacity=round(0.75 * value, 3),
                )
            )
            if value >= 0.005:
                percent = f"{100 * value:.0f}"
                parts.append(
                    text(percent, x + width / 2, y + 16, text_anchor="middle", class_="small", pointer_events="none")
                )
    return picture(parts, left + width * len(columns) + 14, top + CELL_HEIGHT * len(rows) + 14, label)
