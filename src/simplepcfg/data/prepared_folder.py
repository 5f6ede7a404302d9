"""A folder that is filled under another name and appears when it is whole, and the files that go into it."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import tomli_w

from simplepcfg.data.vocabulary import UNK, Vocabulary
from simplepcfg.errors import InputError, naming_file
from simplepcfg.files import write_bytes
from simplepcfg.version import __version__

DESCRIPTION = "prepared.toml"
_UNFINISHED = ".unfinished"
_LEAF = re.compile(r"(\([^()\s]+ )([^()\s]+)(?=\))")
_HEADING = (
    "# Written by `simplepcfg prepare`: what was done to the text. It must not be done again:\n"
    "# train with the keys of [data], as in --set data.punctuation=keep.\n\n"
)


@contextmanager
def new_folder(out: Path) -> Iterator[Path]:
    """Provide a folder to write to, which becomes `out` at the end, or is removed if an error occurs before.

    A folder that is there already, and empty, is filled, not replaced: someone may be standing in it.
    """
    refuse_filled(out)
    is_new = not out.exists()
    place = out.parent if is_new else out
    _remove_abandoned(out, place)
    unfinished = place / f".{out.name or 'prepared'}.{os.getpid()}{_UNFINISHED}"
    unfinished.mkdir(parents=True)
    try:
        with naming_file(out), _renamed_in_errors(unfinished, out):
            yield unfinished
        for path in unfinished.iterdir():
            with open(path, "rb") as stream:
                os.fsync(stream.fileno())
        if is_new and not out.exists():
            os.replace(unfinished, out)
        else:
            refuse_filled(out, besides=unfinished.name)
            # The description comes last: a folder without it is not finished.
            for path in sorted(unfinished.iterdir(), key=lambda path: path.name == DESCRIPTION):
                os.replace(path, out / path.name)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


@contextmanager
def _renamed_in_errors(unfinished: Path, out: Path) -> Iterator[None]:
    """Name the final file in the error of a failed write: the unfinished folder is gone by then."""
    try:
        yield
    except OSError as error:
        name = str(error.filename)
        if error.errno is None or not name.startswith(str(unfinished)):
            raise
        raise OSError(error.errno, error.strerror, str(out) + name.removeprefix(str(unfinished))) from None


def refuse_filled(out: Path, besides: str = "") -> None:
    """Raise InputError if `out` exists and is not an empty folder: nothing is ever overwritten."""
    if out.exists() and not out.is_dir():
        raise InputError(f"{out}: is a file; give a new or empty folder")
    names = sorted(os.listdir(out)) if out.exists() else []
    other = next((name for name in names if name != besides and not _is_abandoned(out, name)), None)
    if other is not None:
        raise InputError(f"{out}: is not empty ({other}); give a new or empty folder")


def _remove_abandoned(out: Path, place: Path) -> None:
    """Remove what a killed process had begun to write for `out`."""
    for path in place.glob(f".*{_UNFINISHED}") if place.is_dir() else ():
        if _is_abandoned(out, path.name):
            shutil.rmtree(path, ignore_errors=True)


def _is_abandoned(out: Path, name: str) -> bool:
    """Tell whether a name is that of an unfinished folder of `out` whose process has ended."""
    match = re.fullmatch(rf"\.{re.escape(out.name or 'prepared')}\.(\d+){re.escape(_UNFINISHED)}", name)
    if match is None:
        return False
    try:
        os.kill(int(match[1]), 0)
    except (ProcessLookupError, OverflowError):
        return True
    except OSError:  # of another user
        return False
    return int(match[1]) == os.getpid()


def replace_rare(folder: Path, vocabulary: Vocabulary) -> int:
    """Replace words outside the vocabulary by `<unk>` in all text and trees of a folder; return how many there were."""
    replaced = 0
    for path in sorted(folder.glob("*.txt")):
        if path.name != "vocabulary.txt":
            replaced += _rewrite(path, vocabulary, lambda line, known: " ".join(map(known, line.split(" "))))
    for path in sorted(folder.glob("*.trees")):
        _rewrite(path, vocabulary, lambda line, known: _LEAF.sub(lambda leaf: leaf[1] + known(leaf[2]), line))
    return replaced


def _rewrite(path: Path, vocabulary: Vocabulary, change: Callable[[str, Callable[[str], str]], str]) -> int:
    replaced = 0

    def known(word: str) -> str:
        nonlocal replaced
        if word in vocabulary:
            return word
        replaced += 1
        return UNK

    with open(path, encoding="utf-8", newline="\n") as lines:
        write_bytes(path, ((change(line.rstrip("\n"), known) + "\n").encode() for line in lines))
    return replaced


def write_toml(folder: Path, description: Mapping[str, object]) -> None:
    """Write prepared.toml: the description, and the hash of every file."""
    hashes = {}
    for path in sorted(folder.iterdir()):
        with open(path, "rb") as stream:
            hashes[path.name] = hashlib.file_digest(stream, "sha256").hexdigest()
    text = tomli_w.dumps({"simplepcfg": __version__, **description, "sha256": hashes})
    (folder / DESCRIPTION).write_text(_HEADING + text, encoding="utf-8")
