"""Figures as files of their own."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path

from simplepcfg.drawing import standalone
from simplepcfg.errors import InputError
from simplepcfg.files import write_bytes, write_text
from simplepcfg.reports.page import Figure

PIXELS = 2  # of a PNG file for each unit of the picture


def write_figures(figures: Iterable[Figure], folder: Path, *, png: bool = False) -> list[Path]:
    """Write each figure as NAME.svg, with `png` as NAME.png too, into a folder that is made if need be."""
    render = png_renderer() if png else None
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder}: cannot be made ({error.strerror}); give another folder") from None
    written = []
    for figure in figures:
        path = folder / f"{figure.name}.svg"
        write_text(path, standalone(figure.svg) + "\n")
        written.append(path)
        if render is not None:
            # Renderers know neither variables nor a reader's preference.
            picture = path.with_suffix(".png")
            write_bytes(picture, render(standalone(figure.svg, "light")))
            written.append(picture)
    return written


def png_renderer() -> Callable[[str], bytes]:
    """Return a function from SVG to PNG by what is installed: cairosvg or rsvg-convert."""
    try:
        import cairosvg
    except (ImportError, OSError):  # OSError: the package is there, the library that it needs is not
        program = shutil.which("rsvg-convert")
        if program is None:
            raise InputError(
                "PNG files need cairosvg or rsvg-convert, and neither is installed; pip install 'simplepcfg[figures]', "
                "or leave it at SVG"
            ) from None

        def convert(svg: str) -> bytes:
            done = subprocess.run([program, f"--zoom={PIXELS}"], input=svg.encode(), capture_output=True, check=True)
            return done.stdout

        return convert

    def render(svg: str) -> bytes:
        png: bytes = cairosvg.svg2png(bytestring=svg.encode(), scale=PIXELS)
        return png

    return render
