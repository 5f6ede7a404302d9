"""What the commands of `simplepcfg test` share: arguments that are models or files, and tables of accuracies."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from simplepcfg.cli.output import note, results_console, write_json, write_text
from simplepcfg.cli.requests import written
from simplepcfg.errors import InputError

if TYPE_CHECKING:
    from rich.table import Table

    from simplepcfg.linguistics.accuracy import Accuracy
    from simplepcfg.linguistics.item_tables import ItemTable
    from simplepcfg.linguistics.reading_times import ReadingTimeGain

Csv = Annotated[str | None, written("--csv", "Also write the rows separated by commas.", ...)]


def models_and_files(arguments: Sequence[str], suffixes: tuple[str, ...]) -> tuple[list[str], list[str]]:
    """Return the arguments that name models, and the files that the others name; InputError if either is missing.

    A folder stands for its files with the first of the suffixes that any of them has.
    """
    from simplepcfg.inference.word_models import names_word_model
    from simplepcfg.pretrained import or_installed

    models: list[str] = []
    files: list[str] = []
    for argument in arguments:
        path = Path(argument)
        if names_word_model(argument):
            models.append(argument)
        elif path.is_dir():
            inside = sorted(path.iterdir())
            by_suffix = [[str(f) for f in inside if f.name.removesuffix(".gz").endswith(end)] for end in suffixes]
            names = next(filter(None, by_suffix), None)
            if names is None:
                raise InputError(f"{argument}: is neither a run nor a folder of {', '.join(suffixes)} files")
            files += names
        elif path.exists():
            files.append(argument)
        else:
            raise InputError(
                f"{argument}: no such run or file; give the folder of a run{or_installed(argument)}, or a file"
            )
    if not models or not files:
        missing = "run" if not models else f"file ({', '.join(suffixes)})"
        raise InputError(f"{' '.join(arguments)}: there is no {missing} among these; give at least one")
    return models, files


def read_items(file: str, quiet: bool) -> "ItemTable":
    """Read a table of words or regions, with a remark if the rows of a sentence seem to be several sentences."""
    from simplepcfg.linguistics.item_tables import read_item_table, several_sentences_remark

    table = read_item_table(file)
    if (remark := several_sentences_remark(table)) is not None:
        note(remark, quiet)
    return table


def show_results(
    results: "Sequence[Accuracy | ReadingTimeGain]", table: "Table", json: str | None, csv: str | None
) -> None:
    """Print a table of results, or JSON in its place, and write them to the files that are given."""
    from simplepcfg.evaluation.rendering import csv_text

    rows = [asdict(result) for result in results]
    if json != "-":
        results_console().print(table)
    write_json(json, rows)
    if csv is not None:
        write_text(csv, csv_text(list(rows[0]), rows))
