"""`simplepcfg models`: the installed grammars."""

from typing import TYPE_CHECKING

from simplepcfg.cli.output import write_lines
from simplepcfg.cli.requests import arg
from simplepcfg.errors import InputError

if TYPE_CHECKING:
    from simplepcfg.pretrained import Installed

SUMMARY = "List the installed grammars."
COLUMNS = ("name", "kind", "nonterminals", "preterminals", "words", "megabytes", "language", "from")


def command(
    name: str | None = arg("NAME", "Print this grammar's model card.", None),
) -> None:
    """List the installed grammars, tab-separated, or print the model card of one of them.

    english comes with simplepcfg; others are packages of their own (`simplepcfg package` builds them). Each can be
    named wherever a command or load() takes the folder of a run; a folder of the same name comes first.

    \b
    Example:
      simplepcfg models
      simplepcfg models english
    """
    from simplepcfg.pretrained import how_to_install, sources

    grammars = sources()
    if name is None:
        write_lines(["\t".join(COLUMNS), *(_row(one, grammar) for one, grammar in grammars.items())])
        return
    if name not in grammars:
        known = f"{name}: no such installed grammar; there are: {', '.join(grammars) or 'none'}"
        raise InputError(known + how_to_install(name))
    lines = (grammars[name].folder / "README.md").read_text(encoding="utf-8").splitlines()
    first = lines.index("---", 1) + 1 if lines[:1] == ["---"] else 0  # a block of YAML before the card is for programs
    write_lines(lines[first:])


def _row(name: str, grammar: "Installed") -> str:
    from simplepcfg.data.vocabulary import Vocabulary
    from simplepcfg.runs.run_folder import RunFolder

    folder = RunFolder(grammar.folder)
    config = folder.read_config()
    model = config.model
    sizes = [str(getattr(model, key, "-")) for key in ("nonterminals", "preterminals")]
    size = sum(path.stat().st_size for path in folder.path.iterdir() if path.is_file())
    words = len(Vocabulary.load(folder.vocabulary))
    return "\t".join([name, model.kind, *sizes, str(words), f"{size / 1e6:.1f}", config.data.language, grammar.source])
