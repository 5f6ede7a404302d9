"""Grammars that are known by a name: those in this package, and those that other installed packages register.

A package registers a grammar by an entry point of the group `simplepcfg.grammars`, such as
`french = "simplepcfg_french"`: its name, and the module whose folder is read as any run's. No code of it is run.
"""

import difflib
from dataclasses import dataclass
from functools import cache
from os import PathLike, fspath
from pathlib import Path

from simplepcfg.version import __version__

HERE = Path(__file__).parent
GROUP = "simplepcfg.grammars"
# Grammars that the project builds as packages of their own, `simplepcfg-NAME`.
PACKAGED = ("english-surprisal", "french", "german", "spanish")


@dataclass(frozen=True, slots=True)
class Installed:
    """The folder of a grammar, and the distribution that it comes with, such as `simplepcfg 0.2.0`."""

    folder: Path
    source: str


@cache
def sources() -> dict[str, Installed]:
    """Return every grammar that has a name; those of this package come first and are not hidden by others."""
    own = [folder for folder in sorted(HERE.iterdir()) if (folder / "config.toml").is_file()]
    grammars = {folder.name: Installed(folder, f"simplepcfg {__version__}") for folder in own}
    for name, grammar in _registered().items():
        grammars.setdefault(name, grammar)
    return grammars


def _registered() -> dict[str, Installed]:
    from importlib.metadata import entry_points
    from importlib.util import find_spec

    grammars = {}
    for point in sorted(entry_points(group=GROUP), key=lambda point: point.name):
        # To look for a module inside a package would import the package.
        spec = find_spec(point.value) if point.value.isidentifier() else None
        folder = Path(next(iter(spec.submodule_search_locations or ()), "")) if spec is not None else Path()
        if (folder / "config.toml").is_file():
            made_by = point.dist
            source = "an unknown package" if made_by is None else f"{made_by.name} {made_by.version}"
            grammars[point.name] = Installed(folder, source)
    return grammars


def installed() -> dict[str, Path]:
    """Return name and folder of every grammar that has a name."""
    return {name: grammar.folder for name, grammar in sources().items()}


def name_of(directory: Path) -> str | None:
    """Return the name of the installed grammar in a folder; None if it is another folder."""
    return next((name for name, folder in installed().items() if folder == directory), None)


def run_directory(name: str | PathLike[str]) -> Path:
    """Return the folder that a name means: that of a run on disk first, then an installed grammar.

    Another folder of the name, without a run in it, does not hide the grammar. A name that is neither stays what it is,
    for whoever opens it to refuse.
    """
    path = Path(name)
    if (path / "config.toml").exists():
        return path
    if fspath(name) != path.name:  # no name
        return path
    own = HERE / path.name
    return own if (own / "config.toml").is_file() else installed().get(path.name, path)


def or_installed(name: str | PathLike[str] = "") -> str:
    """Return the end of an error that names the grammars which need no folder, and how to install the one meant."""
    names = installed()
    known = f", or an installed grammar: {', '.join(names)}" if names else ""
    if close := difflib.get_close_matches(fspath(name), names, n=1):
        known += f"; did you mean {close[0]}?"
    return known + how_to_install(fspath(name))


def how_to_install(name: str) -> str:
    """Return the end of an error that says how to install a grammar of this repository, empty for other names."""
    command = f"python packages/build.py {name} && pip install simplepcfg-{name} --find-links dist"
    return f"; in a checkout, `{command}` installs {name}" if name in PACKAGED else ""
