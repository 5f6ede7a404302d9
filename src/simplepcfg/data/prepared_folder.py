"""A folder that is filled under another name and appears when it is whole, and the files that go into it."""

from __future__ import annotations

import os
import shutil
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import tomli_w

from simplepcfg.errors import InputError, naming_file
from simplepcfg.files import sha256_of_file
from simplepcfg.version import __version__

DESCRIPTION = "prepared.toml"
UNFINISHED = ".unfinished"
_HEADING = (
    "# Written by `simplepcfg prepare`: what was done to the text. It must not be done again:\n"
    "# train with the keys of [data], as in --set data.punctuation=keep.\n\n"
)


@contextmanager
def new_folder(out: Path) -> Iterator[Path]:
    """Provide a folder to write to, whose files are moved to `out` at the end, or removed if an error occurs before.

    What a killed process had begun to write is removed, too.
    """
    refuse_filled(out)
    is_new, unfinished = not out.exists(), out / UNFINISHED
    for name in _moved_before_a_kill(out):
        (out / name).unlink()
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    try:
        with naming_file(out):
            yield unfinished
            # The description comes last: a folder without it is not finished.
            for path in sorted(unfinished.iterdir(), key=lambda path: path.name == DESCRIPTION):
                with open(path, "rb") as stream:
                    os.fsync(stream.fileno())
                os.replace(path, out / path.name)
    except OSError as error:  # of a failed write the final file is named: the unfinished folder is gone by then
        error.filename = str(error.filename).replace(str(unfinished), str(out))
        raise
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
        if is_new and not any(out.iterdir()):
            out.rmdir()


def refuse_filled(out: Path) -> None:
    """Raise InputError if `out` exists and is not an empty folder: nothing is ever overwritten."""
    if out.exists() and not out.is_dir():
        raise InputError(f"{out}: is a file; give a new or empty folder")
    names = sorted(os.listdir(out)) if out.exists() else []
    ours = {UNFINISHED, *_moved_before_a_kill(out)}
    if other := next((name for name in names if name not in ours), None):
        raise InputError(f"{out}: is not empty ({other}); give a new or empty folder")


def _moved_before_a_kill(out: Path) -> list[str]:
    """Return the files that a process had moved to `out` when it was killed before it moved the description."""
    try:
        description = tomllib.loads((out / UNFINISHED / DESCRIPTION).read_text("utf-8"))
        hashes = dict(description["sha256"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return []
    files = [path for path in out.iterdir() if path.name in hashes and path.is_file()]
    return [path.name for path in files if hashes[path.name] == sha256_of_file(path)]


def write_toml(folder: Path, description: Mapping[str, object]) -> None:
    """Write prepared.toml: the description, and the hash of every file."""
    hashes = {path.name: sha256_of_file(path) for path in sorted(folder.iterdir())}
    text = tomli_w.dumps({"simplepcfg": __version__, **description, "sha256": hashes})
    (folder / DESCRIPTION).write_text(_HEADING + text, encoding="utf-8")
