"""Where things are printed: results on standard output, everything else on standard error."""

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from simplepcfg import files
from simplepcfg.cli.progress import hidden
from simplepcfg.errors import naming_file

if TYPE_CHECKING:
    from rich.console import Console

    from simplepcfg.data.inputs import Offsets

# A table that is not drawn on a terminal is neither folded nor cut, since a file has no width.
FILE_WIDTH = 1_000_000
STANDARD_OUTPUT = "standard output"


def results_console() -> "Console":
    """Return the console for tables on standard output, plain and unfolded unless it is a terminal."""
    from rich.console import Console

    class PipedConsole(Console):
        def print(self, *objects: Any, **options: Any) -> None:
            """Print objects; an error such as a full disk names standard output, as in `write_lines`."""
            with naming_file(STANDARD_OUTPUT):
                super().print(*objects, **options)
                self.file.flush()

        def on_broken_pipe(self) -> None:
            """Leave the exit code of a closed pipe to the command line; Rich would exit with 1."""
            raise BrokenPipeError

    width = None if sys.stdout.isatty() else FILE_WIDTH
    return PipedConsole(width=width, highlight=False, soft_wrap=False)


def note(message: str, quiet: bool = False) -> None:
    """Print a remark on standard error, unless `quiet`."""
    if not quiet:
        with hidden():
            print(message, file=sys.stderr, flush=True)


def write_lines(lines: Iterable[str]) -> None:
    """Write lines to standard output without wrapping and colour; a closed pipe raises here, not at exit.

    A list is written at once, so that an interruption leaves all or nothing of it.
    """
    for line in ["\n".join(lines)] if isinstance(lines, list) and lines else lines:
        with naming_file(STANDARD_OUTPUT), hidden():
            sys.stdout.write(line + "\n")
    with naming_file(STANDARD_OUTPUT), hidden():
        sys.stdout.flush()


def table_row(cells: Iterable[str]) -> str:
    """Return cells separated by tabs; a cell with a quotation mark or a tab is quoted, as in CSV."""
    special = frozenset('"\t\r\n')
    doubled = (cell if special.isdisjoint(cell) else '"' + cell.replace('"', '""') + '"' for cell in cells)
    return "\t".join(doubled)


def offset_cells(offsets: "Offsets | None", place: int) -> list[str]:
    """Return the characters of the word at a place, as two cells; none without offsets."""
    if offsets is None:
        return []
    span = offsets[place] if place < len(offsets) else None
    return ["NA", "NA"] if span is None else [str(span[0]), str(span[1])]


def refuse_unwritable(path: str | None) -> str | None:
    """Return the path; raise InputError, before any work is done, if it cannot be written. `-` is standard output."""
    if path is not None and path != "-":
        files.refuse_unwritable(Path(path))
    return path


def write_json(path: str | None, value: object) -> None:
    """Write JSON to a file, replaced in one step, to standard output (`-`) or, for None, nowhere.

    NaN and infinity become null.
    """
    if path is not None:
        write_text(path, files.json_text(value))


def write_text(path: str, text: str) -> None:
    """Write text to a file, replaced in one step, or to standard output (`-`); OSError if that fails."""
    if path == "-":
        write_lines(text.splitlines())
    else:
        files.write_text(Path(path), text)
