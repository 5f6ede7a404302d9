"""Files of JSON lines that a resumed run truncates to the length recorded in its checkpoint and then continues."""

import json
import os
from pathlib import Path

from simplepcfg.errors import InputError, naming_file
from simplepcfg.files import Record, crc32, crc32_of_file, finite


def check_length(path: Path, keep: int) -> None:
    """Raise InputError if a file is shorter than the `keep` bytes that the checkpoint recorded."""
    size = path.stat().st_size if path.exists() else 0
    if size < keep:
        raise InputError(f"{path}: {size} bytes where the checkpoint expects {keep}; it was changed, restore it")


class JsonLines:
    """An append-only file of JSON records, truncated to `keep` bytes when opened (None keeps all)."""

    def __init__(self, path: Path, keep: int | None = None) -> None:
        if keep is not None:
            check_length(path, keep)
        size = path.stat().st_size if path.exists() else 0
        self._crc32 = crc32_of_file(path, keep) if size else 0
        self._stream = open(path, "ab")  # noqa: SIM115 - lives as long as the run; closed by `close`
        if keep is not None:
            self._stream.truncate(keep)
            self._stream.seek(0, os.SEEK_END)
        elif size and not path.read_bytes().endswith(b"\n"):  # The process died in the middle of a line.
            self._append(b"\n")

    def write(self, record: Record) -> None:
        """Append one record; NaN and infinity, which JSON lacks, become null."""
        with naming_file(self._stream.name):
            self._append(json.dumps(finite(record), allow_nan=False).encode() + b"\n")
            self._stream.flush()

    def sync(self) -> tuple[int, int]:
        """Flush the file to the disk; return its length in bytes and its checksum."""
        with naming_file(self._stream.name):
            os.fsync(self._stream.fileno())
        return self._stream.tell(), self._crc32

    def close(self) -> None:
        """Close the file."""
        self._stream.close()

    def _append(self, content: bytes) -> None:
        self._stream.write(content)
        self._crc32 = crc32([content], self._crc32)


class NullJsonLines(JsonLines):
    """JSON lines of a process that writes no files."""

    def __init__(self) -> None:
        pass

    def write(self, record: Record) -> None:
        """Do nothing."""

    def sync(self) -> tuple[int, int]:
        """Return a length and a checksum of 0."""
        return 0, 0
