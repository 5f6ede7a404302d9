"""Grammars that come with the package: a folder each, which is read as any run's."""

from os import PathLike, fspath
from pathlib import Path

HERE = Path(__file__).parent


def installed() -> dict[str, Path]:
    """Name and folder of every grammar that comes with the package."""
    return {folder.name: folder for folder in sorted(HERE.iterdir()) if (folder / "config.toml").is_file()}


def run_directory(name: str | PathLike[str]) -> Path:
    """Return the folder that a name means: that of a run on disk first, then a grammar that comes with the package.

    Another folder of the name, without a run in it, does not hide the grammar. A name that is neither stays what it is,
    for whoever opens it to refuse.
    """
    path = Path(name)
    if (path / "config.toml").exists():
        return path
    return installed().get(fspath(name), path)


def or_installed() -> str:
    """Return the end of an error that names the grammars which need no folder."""
    names = ", ".join(installed())
    return f", or an installed grammar: {names}" if names else ""
