"""Checksums of the files of a run: CRC-32 over the bytes, which reads about 2 GB/s on one core.

It finds damage by disks, memory and copies, not changes made on purpose: whoever can change a file can change its
checksum too.
"""

import json
import os
import re
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from simplepcfg.errors import InputError

CHUNK = 1 << 24
_SEAL = re.compile(r"# crc32 of the lines below: ([0-9a-f]{8})")


class DamagedFileError(InputError):
    """A file whose content is not what was written; `reason` says how that shows."""

    def __init__(self, path: Path, reason: str, advice: str = "restore it from a copy") -> None:
        super().__init__(f"{path}: damaged ({reason}); {advice}")
        self.path, self.reason = path, reason


def crc32(pieces: Iterable[bytes | memoryview], value: int = 0) -> int:
    """Of all pieces as if they were one, after what `value` is the checksum of."""
    for piece in pieces:
        value = zlib.crc32(piece, value)
    return value


def crc32_of_file(path: Path, length: int | None = None) -> int:
    """Of the first `length` bytes of a file, or of all of them, read anew from the disk where the system allows it."""
    descriptor = os.open(path, os.O_RDONLY)
    with os.fdopen(descriptor, "rb", buffering=0) as stream:
        if hasattr(os, "posix_fadvise"):  # pages that are on the disk already are forgotten, so that it is asked
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        return crc32(chunks(stream, length))


def chunks(stream: Any, length: int | None = None) -> Iterable[bytes]:
    """What a binary stream holds from here on, or its next `length` bytes, in pieces that fit into memory."""
    left = length
    while left is None or left > 0:
        piece = stream.read(CHUNK if left is None else min(CHUNK, left))
        if not piece:
            return
        left = None if left is None else left - len(piece)
        yield piece


def sealed_text(text: str) -> str:
    """`text` after a first line, a comment in TOML, that holds its checksum; so a file that is cut off is found."""
    return f"# crc32 of the lines below: {zlib.crc32(text.encode()):08x}\n{text}"


def check_sealed_text(path: Path, what_to_do: str) -> None:
    """DamagedFileError if a file with such a first line does not match it; one without is taken as it is."""
    try:
        text = path.read_bytes().decode("utf-8-sig").replace("\r\n", "\n")
    except (OSError, UnicodeDecodeError):
        return  # whoever reads it says what is wrong
    first, _, rest = text.partition("\n")
    found = _SEAL.fullmatch(first)
    if found is not None and int(found[1], 16) != zlib.crc32(rest.encode()):
        raise DamagedFileError(path, "it is not what was written, by its checksum", what_to_do)
    if found is None and ("=" not in text or (first.startswith("#") and ("crc" in first or "lines below" in first))):
        raise DamagedFileError(path, "its first line, the checksum, is not whole", what_to_do)


def sealed_record(record: dict[str, Any]) -> dict[str, Any]:
    """`record` with its checksum as one more key."""
    return {**record, "crc32": f"{_record_crc32(record):08x}"}


def record_is_intact(record: dict[str, Any]) -> bool:
    """Whether a record matches its checksum; one of an early version has none, and no format either."""
    rest = {key: value for key, value in record.items() if key != "crc32"}
    if "crc32" not in record:
        return "format" not in record
    return record["crc32"] == f"{_record_crc32(rest):08x}"


def _record_crc32(record: dict[str, Any]) -> int:
    return zlib.crc32(json.dumps(record, sort_keys=True).encode())
