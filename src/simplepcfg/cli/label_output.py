"""How `evaluate` shows and keeps what symbols stand for."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from simplepcfg.cli.output import results_console, write_text
from simplepcfg.errors import InputError

if TYPE_CHECKING:
    from simplepcfg.evaluation.columns import Column


def print_confusion(columns: "Sequence[Column]") -> None:
    """Print tables of symbols by gold labels for a terminal."""
    from rich.text import Text

    from simplepcfg.evaluation.confusion import confusion_grids
    from simplepcfg.evaluation.rendering import rich_grid

    console = results_console()
    for title, header, rows in confusion_grids(columns):
        console.print(Text(title))  # not the table's own title, which is folded to the width of the table
        console.print(rich_grid(header, rows))


def confusion_lines(columns: "Sequence[Column]", latex: bool) -> list[str]:
    """Return the tables of symbols by gold labels as lines of Markdown or LaTeX."""
    from simplepcfg.evaluation.confusion import confusion_grids
    from simplepcfg.evaluation.rendering import latex_grid, markdown_grid

    return [(latex_grid if latex else markdown_grid)(*grid) for grid in confusion_grids(columns)]


def write_mapping(column: "Column", folder: str, trees: str, path: str, device: str) -> None:
    """Write what the symbols of the run in `folder` stand for in a file of trees; InputError if the column has none."""
    from simplepcfg.data.readers import read_trees
    from simplepcfg.inference.labelling import learn_labels
    from simplepcfg.inference.run import load

    (report,) = column.reports
    if report.labels is None:
        raise InputError(f"{folder}: its most probable trees have no symbols; leave out --write-labels")
    write_text(path, learn_labels(load(folder, device), list(read_trees(trees)), report.labels).to_json())
