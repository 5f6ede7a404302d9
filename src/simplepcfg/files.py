"""Atomic writes: whatever happens, a file is either the old one or the new one; and CRC-32 checksums of files."""

import contextlib
import errno
import itertools
import json
import os
import zlib
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from simplepcfg.errors import naming_file

TEMPORARY_SUFFIX = ".writing"
CHUNK = 1 << 24
_NUMBERS = itertools.count()  # no two writes share a temporary file


def write_bytes(
    path: Path,
    content: bytes | Sequence[bytes | memoryview],
    renaming: AbstractContextManager[object] | None = None,
) -> None:
    """Replace `path` by `content` atomically and durably; `renaming` is entered while the file is renamed.

    The new file is read back before it replaces the old one. Raises OSError if that fails.
    """
    pieces = [content] if isinstance(content, bytes) else content
    temporary = path.with_name(f"{path.name}.{os.getpid()}-{next(_NUMBERS)}{TEMPORARY_SUFFIX}")
    try:
        with naming_file(path), open(temporary, "wb") as stream:
            for piece in pieces:
                stream.write(piece)
            stream.flush()
            os.fsync(stream.fileno())
        if crc32_of_file(temporary) != crc32(pieces):
            raise OSError(errno.EIO, "what was written could not be read back; check the disk", str(path))
        with renaming or nullcontext():
            os.replace(temporary, path)
    except BaseException:
        # On a full disk the half-written file would take the space that the user is about to free.
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def write_text(path: Path, content: str) -> None:
    """Replace `path` by UTF-8 text atomically."""
    write_bytes(path, content.encode())


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Replace `path` by indented JSON atomically."""
    write_text(path, json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def remove_leftovers(folder: Path) -> None:
    """Remove the temporary files of interrupted writes; no finished file has such a name."""
    for pattern in (f"*{TEMPORARY_SUFFIX}", "vocabulary.txt.*.tmp"):
        for leftover in folder.glob(pattern):
            leftover.unlink(missing_ok=True)


def sync_file(path: Path) -> None:
    """Force a file that someone else wrote, and its name, onto the disk."""
    with open(path, "rb") as stream:
        os.fsync(stream.fileno())
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make a rename in `folder` survive a power cut, where the system lets a folder be opened."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        with contextlib.suppress(OSError):
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


def chunks(stream: Any, length: int | None = None) -> Iterable[bytes]:
    """Yield the rest of a binary stream, or its next `length` bytes, in pieces that fit into memory."""
    left = length
    while left is None or left > 0:
        piece = stream.read(CHUNK if left is None else min(CHUNK, left))
        if not piece:
            return
        left = None if left is None else left - len(piece)
        yield piece
