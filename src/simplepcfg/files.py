"""Atomic writes: whatever happens, a file is either the old one or the new one; and CRC-32 checksums of files."""

import contextlib
import errno
import glob
import hashlib
import itertools
import json
import math
import os
import zlib
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from io import RawIOBase
from pathlib import Path
from typing import Any

from simplepcfg.errors import InputError, naming_file

Record = dict[str, Any]  # an object of JSON or a table of TOML

TEMPORARY_SUFFIX = ".writing"
CHUNK = 1 << 24
_NUMBERS = itertools.count()  # no two writes share a temporary file


def write_bytes(
    path: Path,
    content: bytes | Iterable[bytes | memoryview],
    renaming: AbstractContextManager[object] | None = None,
) -> None:
    """Replace `path` by `content` atomically and durably; `renaming` is entered while the file is renamed.

    The new file is read back before it replaces the old one. A link is kept and the file that it points at replaced; a
    pipe or a device is written to (see `is_written_through`). Raises OSError, which names `path`, if that fails.
    """
    pieces = [content] if isinstance(content, bytes) else content
    if is_written_through(path):
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND)
        with naming_file(path), renaming or nullcontext(), open(descriptor, "wb") as stream:
            stream.writelines(pieces)
        return
    target = path.resolve()
    temporary = target.with_name(f"{target.name}.{os.getpid()}-{next(_NUMBERS)}{TEMPORARY_SUFFIX}")
    checksum = 0
    try:
        with naming_file(path), open(temporary, "wb") as stream:
            for piece in pieces:
                stream.write(piece)
                checksum = zlib.crc32(piece, checksum)
            stream.flush()
            os.fsync(stream.fileno())
        if crc32_of_file(temporary) != checksum:
            raise OSError(errno.EIO, "what was written could not be read back; check the disk", str(path))
        with renaming or nullcontext():
            os.replace(temporary, target)
    except BaseException as error:
        # On a full disk the half-written file would take the space that the user is about to free.
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.filename == str(temporary):
            raise OSError(error.errno, error.strerror, str(path)) from None
        raise
    sync_folder(target.parent)


def is_written_through(path: Path) -> bool:
    """Return whether a path is a pipe or a device, or a name of an open file such as /dev/stdout, or a link to these.

    A new file under such a name would never reach whoever reads from it.
    """
    if not path.exists():
        return False
    folder = path.parent.resolve()
    if folder.is_relative_to("/dev") or folder.is_relative_to("/proc"):
        return True
    return is_written_through(folder / path.readlink()) if path.is_symlink() else not path.is_file()


def refuse_unwritable(path: Path) -> None:
    """Raise InputError before any work is done if a file cannot be written in its place."""
    if path.is_dir():
        raise InputError(f"{path}: is a directory; give a file in it")
    folder = path.resolve().parent
    through = is_written_through(path)
    if not through and not folder.is_dir():
        raise InputError(f"{path}: there is no folder {path.parent}; make it, or give another file")
    if not os.access(path if through else folder, os.W_OK):
        raise InputError(f"{path}: permission denied; give another file")


def write_text(path: Path, content: str) -> None:
    """Replace `path` by UTF-8 text atomically."""
    write_bytes(path, content.encode())


def write_json(path: Path, content: object) -> None:
    """Replace `path` by indented JSON atomically; NaN and infinity become null."""
    write_text(path, json_text(content))


def json_text(content: object) -> str:
    """Return indented JSON, in which null stands for NaN and infinity."""
    return json.dumps(finite(content), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def finite(value: object) -> object:
    """Return plain values for JSON, which has neither NaN nor infinity: None stands for them."""
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def remove_leftovers(folder: Path, of: str | None = None) -> None:
    """Remove the temporary files of interrupted writes, or those of one file; no finished file has such a name."""
    for leftover in folder.glob(("*" if of is None else f"{glob.escape(of)}.[0-9]*") + TEMPORARY_SUFFIX):
        leftover.unlink(missing_ok=True)


def sync_folder(folder: Path) -> None:
    """Make a rename in `folder` survive a power cut, where the system lets a folder be opened."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def crc32(pieces: Iterable[bytes | memoryview], value: int = 0) -> int:
    """Return the CRC-32 of the concatenated pieces, continuing from the checksum `value` of what comes before."""
    for piece in pieces:
        value = zlib.crc32(piece, value)
    return value


def crc32_of_file(path: Path, length: int | None = None) -> int:
    """Return the CRC-32 of the first `length` bytes of a file, or of all, bypassing the page cache where possible."""
    descriptor = os.open(path, os.O_RDONLY)
    with os.fdopen(descriptor, "rb", buffering=0) as stream:
        if hasattr(os, "posix_fadvise"):  # Drop cached pages, so that the bytes come from the disk.
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        return crc32(chunks(stream, length))


def sha256_of_file(path: Path) -> str:
    """Return the SHA-256 of a file's contents."""
    with open(path, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def chunks(stream: RawIOBase, length: int | None = None) -> Iterable[bytes]:
    """Yield the rest of a binary stream, or its next `length` bytes, in pieces that fit into memory."""
    left = length
    while left is None or left > 0:
        piece = stream.read(CHUNK if left is None else min(CHUNK, left))
        if not piece:
            return
        left = None if left is None else left - len(piece)
        yield piece
