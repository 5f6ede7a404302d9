"""Pictures one after the other in one place, played when somebody points at them; without any script."""

from __future__ import annotations

from collections.abc import Sequence

from simplepcfg.drawing.svg import element, number, picture, size_of, text, text_width

FRAME_SECONDS = 0.7
TOP = 24.0


def film(frames: Sequence[tuple[str, str]], *, name: str, label: str) -> str:
    """Return an SVG picture of the last of several frames (caption, picture), which plays all when pointed at.

    ``name`` is an identifier that nothing else on the page has.
    """
    sizes = [size_of(svg) for _, svg in frames]
    tallest = max(height for _, height in sizes)
    widest = max(max(float(width) for width, _ in sizes), max(text_width(told, 12.0) + 24 for told, _ in frames))
    total = len(frames) * FRAME_SECONDS
    parts = [element("rect", width=widest, height=tallest + TOP, class_="halo")]
    for index, ((caption, svg), (width, height)) in enumerate(zip(frames, sizes, strict=True)):
        x, y = (widest - width) / 2, TOP + tallest - height  # words stay on one line
        begin, end = index / len(frames), (index + 1) / len(frames)
        times, values = [0.0], ["visible" if index == 0 else "hidden"]
        if index:
            times, values = [*times, begin], [*values, "visible"]
        if end < 1:
            times, values = [*times, end], [*values, "hidden"]
        animation = element(
            "animate",
            attributeName="visibility",
            begin=f"{name}.mouseenter; {name}.click",
            dur=f"{total:.1f}s",
            calcMode="discrete",
            keyTimes=";".join(f"{moment:.4f}" for moment in times),
            values=";".join(values),
        )
        inner = f'<svg x="{number(x)}" y="{number(y)}"{svg.removeprefix("<svg")}'
        shown = text(caption, 12.0, 16.0, class_="muted")
        last = index == len(frames) - 1
        parts.append(element("g", [animation, shown, inner], visibility=None if last else "hidden"))
    return picture([element("g", parts, id=name)], widest, tallest + TOP, label)
