"""The parts of a report, and the one file that they become."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape

from simplepcfg.drawing import stylesheet
from simplepcfg.version import __version__

_STYLE = """
:root { color-scheme: light dark; }
body { margin: 0 auto; padding: 0 1rem 3rem; max-width: 75rem; color: var(--sp-ink); background: var(--sp-paper);
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.2rem; margin-top: 2.2rem; border-bottom: 1px solid var(--sp-grid); }
h3 { font-size: 1rem; overflow-wrap: anywhere; }
a { color: var(--sp-accent); } nav { display: flex; flex-wrap: wrap; gap: .25rem 1rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .2rem .8rem .2rem 0; text-align: left; vertical-align: top; border-bottom: 1px solid var(--sp-grid); }
th { color: var(--sp-muted); font-weight: 600; font-size: .9rem; } td.number, th.number { text-align: right; }
figure { margin: 1rem 0; } figcaption, .note { color: var(--sp-muted); font-size: .9rem; max-width: 50rem; }
.pair { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(22rem, 100%), 1fr)); gap: 1rem; }
.pair figure { margin: 0; min-width: 0; } .pair svg { max-width: 100%; height: auto; }
"""
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


def figure(svg: str, caption: str) -> str:
    """Return a picture with what it shows in a sentence or two."""
    return f"<figure>{_scrollable(svg)}<figcaption>{escape(caption)}</figcaption></figure>"


def pair(text: str, left: str, right: str) -> str:
    """Return two figures under a line of text, side by side where there is room."""
    return f'{heading(text)}<div class="pair">{left}{right}</div>'


def table(columns: Sequence[str], rows: Sequence[Sequence[str]], numbers: bool = True) -> str:
    """Return rows of text under a head; columns after the first are numbers if `numbers`."""
    kinds = ["", *([' class="number"' if numbers else ""] * (len(columns) - 1))]

    def row_of(tag: str, cells: Sequence[str]) -> str:
        marked = zip(kinds, cells, strict=True)
        return "<tr>" + "".join(f"<{tag}{kind}>{escape(cell)}</{tag}>" for kind, cell in marked) + "</tr>"

    body = "".join(row_of("td", row) for row in rows)
    return _scrollable(f"<table><thead>{row_of('th', columns)}</thead><tbody>{body}</tbody></table>")


def heading(text: str) -> str:
    """Return the heading of a part of a section."""
    return f"<h3>{escape(text)}</h3>"


def note(text: str) -> str:
    """Return a remark as a paragraph."""
    return f'<p class="note">{escape(text)}</p>'


@dataclass(slots=True)
class Section:
    """A title and what stands below it, as HTML."""

    title: str
    parts: list[str] = field(default_factory=list)

    @property
    def anchor(self) -> str:
        """Return the name by which links on the page reach the section."""
        return re.sub(r"\W+", "-", self.title.lower())


@dataclass(frozen=True, slots=True)
class Report:
    """Sections in the order in which they are read."""

    title: str
    sections: list[Section]

    def to_html(self) -> str:
        """Return one file that needs nothing else: no script, no font, no network."""
        links = "".join(f'<a href="#{section.anchor}">{escape(section.title)}</a>' for section in self.sections)
        body = "".join(
            f'<section id="{section.anchor}"><h2>{escape(section.title)}</h2>{"".join(section.parts)}</section>'
            for section in self.sections
        )
        return (
            '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
            '<meta name="viewport" content="width=device-width, initial-scale=1">'
            f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
            f"<title>{escape(self.title)}</title><style>{stylesheet(root=':root')}{_STYLE}</style></head>"
            f"<body><h1>{escape(self.title)}</h1><nav>{links}</nav><main>{body}</main>"
            f'<footer><p class="note">Made by simplepcfg {__version__}.</p></footer></body></html>\n'
        )


def _scrollable(content: str) -> str:
    """Wrap what may be wider than the window; it takes the focus, so that it can be scrolled by keyboard."""
    return f'<div class="wide" tabindex="0">{content}</div>'
