"""What the arguments of `simplepcfg test` name: models, files, and tables of words, which `score --regions` has too."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from simplepcfg.cli.output import note
from simplepcfg.errors import InputError

if TYPE_CHECKING:
    from simplepcfg.linguistics.item_tables import ItemTable


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
