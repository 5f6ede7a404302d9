"""`simplepcfg models`: the installed grammars."""

from pathlib import Path
from typing import TYPE_CHECKING

from simplepcfg.cli.output import note, write_lines
from simplepcfg.cli.requests import arg, opt
from simplepcfg.errors import InputError

if TYPE_CHECKING:
    from simplepcfg.pretrained import Installed

SUMMARY = "List the installed grammars."
PACKED, WHEELS = Path("packages"), Path("dist")  # in a checkout
COLUMNS = ("name", "kind", "nonterminals", "preterminals", "words", "megabytes", "language", "from")


def command(
    name: str | None = arg("[NAME]", "Print this grammar's model card.", None),
    build: str | None = opt("--build", "NAME", "Build the wheel of a grammar, in a checkout."),
) -> None:
    """List the installed grammars, tab-separated, print the model card of one of them, or build one.

    english comes with simplepcfg; others are packages of their own (`simplepcfg package` builds them). Each can be
    named wherever a command or load() takes the folder of a run; a folder of the same name comes first.

    \b
    Example:
      simplepcfg models
      simplepcfg models english
      simplepcfg models --build french
    """
    if build is not None:
        _build(build)
        return
    from simplepcfg.pretrained import PACKAGED, sources

    grammars = sources()
    if name is None:
        write_lines(["\t".join(COLUMNS), *(_row(one, grammar) for one, grammar in grammars.items())])
        return
    if name not in grammars:
        known = f"{name}: no such installed grammar; there are: {', '.join(grammars) or 'none'}"
        built = f"`pip install simplepcfg-{name}`, or in a checkout `simplepcfg models --build {name}` builds its wheel"
        raise InputError(f"{known}; {built}" if name in PACKAGED else known)
    write_lines(_without_front_matter((grammars[name].folder / "README.md").read_text(encoding="utf-8").splitlines()))


def _build(name: str) -> None:
    """Build the wheel of a grammar that this checkout holds, or say what is missing for it."""
    from simplepcfg.inference.packaging import PREFIX, build_wheel
    from simplepcfg.pretrained import HERE, PACKAGED

    if (HERE / name / "config.toml").is_file():
        raise InputError(f"{name}: comes with simplepcfg, so there is nothing to build")
    packed = PACKED / name
    if not (packed / "config.toml").is_file():
        made = f"`simplepcfg package RUN --name {PREFIX}{name} --folder --out {PACKED}` writes it from a trained run"
        held = "run this in a checkout of simplepcfg, which holds it"
        raise InputError(f"{packed}: no packed grammar; {held if name in PACKAGED else made} (docs/languages.md)")
    wheel = build_wheel(packed, PREFIX + name, WHEELS)
    note(f"{wheel.stat().st_size / 1e6:.1f} MB; pip install {wheel} makes it known as {name}")
    write_lines([str(wheel)])


def _without_front_matter(lines: list[str]) -> list[str]:
    """Return the lines of a model card without the block of YAML before it, which is for programs."""
    if lines[:1] != ["---"]:
        return lines
    return lines[lines.index("---", 1) + 1 :]


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
