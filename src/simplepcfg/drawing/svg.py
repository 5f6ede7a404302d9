"""The parts of an SVG picture: elements with escaped text, the picture around them, and widths of text."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterable, Sequence
from itertools import accumulate
from xml.sax.saxutils import escape, quoteattr

from simplepcfg.drawing.style import stylesheet

# What XML cannot hold, even escaped.
_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_SIZE = re.compile(r'width="(\d+)" height="(\d+)"')
SLANT = 40.0  # degrees
GAP = 16.0  # between pictures one below another
Point = tuple[float, float]
_NARROW = frozenset("iljtfrI.,;:'`|!()[]{} ")
_WIDE = frozenset("mwMW@%")


def plain(text: str) -> str:
    """Return the text without characters that XML cannot hold."""
    return _NOT_XML.sub("�", text)


def element(name: str, content: str | Iterable[str] = "", /, **attributes: object) -> str:
    """Return one element; ``content`` is markup already. ``class_`` and ``data_x`` are written class and data-x."""
    listed = "".join(
        f" {key.rstrip('_').replace('_', '-')}={quoteattr(plain(number(value)))}"
        for key, value in attributes.items()
        if value is not None
    )
    inner = content if isinstance(content, str) else "".join(content)
    return f"<{name}{listed}>{inner}</{name}>" if inner else f"<{name}{listed}/>"


def text(content: str, x: float, y: float, **attributes: object) -> str:
    """Return an element with a line of text."""
    return element("text", escape(plain(content)), x=x, y=y, **attributes)


def line(x1: float, y1: float, x2: float, y2: float, class_: str = "edge") -> str:
    """Return an element with a straight line."""
    return element("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=class_)


def rect(x: float, y: float, width: float, height: float, content: str = "", **attributes: object) -> str:
    """Return an element with a rectangle."""
    return element("rect", content, x=x, y=y, width=width, height=height, **attributes)


def path(name: str, corners: Iterable[Point], content: str = "", **attributes: object) -> str:
    """Return an element, a polygon or a polyline, with a line through these corners."""
    return element(name, content, points=" ".join(f"{x:.1f},{y:.1f}" for x, y in corners), **attributes)


def slanted(word: str, x: float, y: float) -> str:
    """Return a word that ends at a place and rises to it, so that long neighbours do not overlap."""
    return text(word, x, y, text_anchor="end", font_size=13, transform=f"rotate({-SLANT:g} {x:.1f} {y:.1f})")


def slanted_size(words: Sequence[str], step: float) -> tuple[float, float]:
    """Return how far slanted words, one every `step`, reach beyond the left end of the first step, and down."""
    widths = [text_width(word, 13.0) for word in words]
    slant = math.radians(SLANT)
    over = max((width * math.cos(slant) - (k + 0.5) * step for k, width in enumerate(widths)), default=0.0)
    return over, max(widths, default=0.0) * math.sin(slant)


def title(content: str) -> str:
    """Return a title, which is shown when the pointer rests on its parent element, and read aloud for it."""
    return element("title", escape(plain(content)))


def number(value: object) -> str:
    """Return a coordinate in short form; anything else as it is."""
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)


def picture(parts: Iterable[str], width: float, height: float, label: str) -> str:
    """Return a picture for a page that has the style sheet; ``label`` describes it to those who cannot see it."""
    width, height = round(width + 0.5), round(height + 0.5)
    return element(
        "svg",
        [title(label), *parts],
        xmlns="http://www.w3.org/2000/svg",
        class_="sp",
        viewBox=f"0 0 {width} {height}",
        width=width,
        height=height,
        role="img",
        aria_label=label,
    )


def size_of(svg: str) -> tuple[int, int]:
    """Return the width and height of a picture."""
    match = _SIZE.search(svg)
    assert match is not None
    return int(match[1]), int(match[2])


def placed(svg: str, x: float, y: float) -> str:
    """Return a picture as a part of another one, at a place in it."""
    return f'<svg x="{number(x)}" y="{number(y)}"{svg.removeprefix("<svg")}'


def one_below_another(pictures: Sequence[str], label: str) -> str:
    """Return several pictures in one, from top to bottom."""
    sizes = [size_of(svg) for svg in pictures]
    tops = accumulate((height + GAP for _, height in sizes), initial=0.0)
    parts = [placed(svg, 0, y) for svg, y in zip(pictures, tops, strict=False)]
    return picture(parts, max(width for width, _ in sizes), sum(height + GAP for _, height in sizes) - GAP, label)


def standalone(svg: str) -> str:
    """Return the picture with its own style sheet, for a file of its own or a page that has none."""
    head, separator, rest = svg.partition(">")
    # The colours of the text may follow the reader's system, which knows nothing of what lies behind the picture.
    background = element("rect", width="100%", height="100%", class_="halo")
    return f"{head}{separator}{element('style', escape(stylesheet()))}{background}{rest}"


def text_width(content: str, size: float = 14.0) -> float:
    """Estimate the width of a text in a sans-serif font, without looking at a font."""
    return size * sum(map(_character_width, content))


def _character_width(character: str) -> float:
    if character in _NARROW:
        return 0.34
    if character in _WIDE:
        return 0.9
    if unicodedata.combining(character):
        return 0.0
    if unicodedata.east_asian_width(character) in "WF":
        return 1.05
    return 0.7 if character.isupper() else 0.58
