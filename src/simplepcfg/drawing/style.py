"""Colours of all pictures, for light and dark surroundings, and the rules that give them to classes."""

# Each colour for light and for dark surroundings.
COLOURS = {
    "ink": ("#1c2128", "#e6edf3"),
    "muted": ("#57606a", "#a8b1bd"),
    "line": ("#8c959f", "#7d8590"),
    "grid": ("#d8dee4", "#30363d"),
    "paper": ("#ffffff", "#0d1117"),
    "accent": ("#0b5cad", "#6cb6ff"),
    "good": ("#1a7f37", "#57d37a"),
    "bad": ("#b42318", "#ff8f85"),
    "series-0": ("#0b5cad", "#6cb6ff"),
    "series-1": ("#b35900", "#ffb26b"),
    "series-2": ("#1a7f37", "#57d37a"),
    "series-3": ("#8250df", "#c8a1ff"),
    "series-4": ("#7a6400", "#e3c84b"),
    "series-5": ("#a0296b", "#ff93c9"),
}
SERIES = 6

_RULES = """
.sp { font-family: system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; font-size: 14px; }
.sp text { fill: var(--sp-ink); }
.sp .muted { fill: var(--sp-muted); font-size: 12px; }
.sp .symbol { fill: var(--sp-accent); font-size: 12px; }
.sp .edge { stroke: var(--sp-line); stroke-width: 1.2; fill: none; }
.sp .node { fill: var(--sp-accent); stroke: var(--sp-paper); stroke-width: 1; }
.sp .node.wrong, .sp .symbol.wrong { fill: var(--sp-bad); }
.sp .halo { fill: var(--sp-paper); }
.sp .grid { stroke: var(--sp-grid); stroke-width: 1; }
.sp .axis { stroke: var(--sp-line); stroke-width: 1; }
.sp .cell { fill: var(--sp-accent); stroke: var(--sp-grid); stroke-width: 1; }
.sp .ring { fill: none; stroke: var(--sp-ink); stroke-width: 1.6; }
.sp .bar { fill: var(--sp-accent); }
.sp .curve { fill: none; stroke-width: 1.8; stroke-linejoin: round; }
.sp .dashed { stroke-dasharray: 5 4; }
"""


def stylesheet(root: str = ".sp") -> str:
    """Return the style sheet of all pictures, which follows what the reader's system prefers.

    ``root`` is the selector on which the colours are defined: that of pictures, or ``:root`` of a page that uses them.
    """
    rules = _RULES + "".join(
        f".sp .series-{index} {{ fill: var(--sp-series-{index}); stroke: var(--sp-series-{index}); }}\n"
        for index in range(SERIES)
    )
    # These follow the rules of series, which would otherwise fill lines and outline bars.
    rules += ".sp .curve { fill: none; }\n.sp .plain { stroke: none; }\n"
    light, dark = ({name: both[k] for name, both in COLOURS.items()} for k in range(2))
    in_the_dark = f"@media (prefers-color-scheme: dark) {{ {root} {{ {_variables(dark)} }} }}"
    return f"{root} {{ {_variables(light)} }}\n{in_the_dark}\n{rules}"


def _variables(colours: dict[str, str]) -> str:
    return " ".join(f"--sp-{name}: {value};" for name, value in colours.items())
