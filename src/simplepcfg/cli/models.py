"""`simplepcfg models`: the grammars that come with the package."""

from pathlib import Path
from typing import Annotated

from simplepcfg.cli.output import write_lines
from simplepcfg.cli.requests import arg
from simplepcfg.errors import InputError

NAME = "models"
SUMMARY = "List the grammars that come with the package."
COLUMNS = ("name", "kind", "nonterminals", "preterminals", "words", "megabytes")


def command(
    name: Annotated[str | None, arg("[NAME]", "Print this grammar's model card.", show_default=False)] = None,
) -> None:
    """List the grammars that come with the package, tab-separated, or print the model card of one of them.

    Each can be named wherever a command or load() takes the folder of a run; a folder of the same name comes first.

    \b
    Example:
      simplepcfg models
      simplepcfg models english
    """
    from simplepcfg.pretrained import installed

    grammars = installed()
    if name is None:
        write_lines(["\t".join(COLUMNS), *(_row(one, folder) for one, folder in grammars.items())])
        return
    if name not in grammars:
        raise InputError(f"{name}: no such installed grammar; there are: {', '.join(grammars) or 'none'}")
    write_lines(_without_front_matter((grammars[name] / "README.md").read_text(encoding="utf-8").splitlines()))


def _without_front_matter(lines: list[str]) -> list[str]:
    """Return the lines of a model card without the block of YAML before it, which is for programs."""
    if lines[:1] != ["---"]:
        return lines
    return lines[lines.index("---", 1) + 1 :]


def _row(name: str, directory: Path) -> str:
    from simplepcfg.data.vocabulary import Vocabulary
    from simplepcfg.runs.run_folder import RunFolder

    folder = RunFolder(directory)
    model = folder.read_config().model
    sizes = [str(getattr(model, key, "-")) for key in ("nonterminals", "preterminals")]
    size = sum(path.stat().st_size for path in folder.path.iterdir() if path.is_file())
    words = len(Vocabulary.load(folder.vocabulary))
    return "\t".join([name, model.kind, *sizes, str(words), f"{size / 1e6:.1f}"])
