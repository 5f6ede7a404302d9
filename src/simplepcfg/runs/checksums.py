"""CRC-32 checksums of the files of a run, computed at about 2 GB/s on one core.

They detect damage by disks, memory and copying, but not changes made on purpose: whoever can change a file can change
its checksum, too.
"""

import json
import re
import zlib
from pathlib import Path
from typing import Any

from simplepcfg.errors import InputError

_SEAL = re.compile(r"# crc32 of the lines below: ([0-9a-f]{8})")


class DamagedFileError(InputError):
    """A file's content is not what was written; `reason` says how that was detected."""

    def __init__(self, path: Path, reason: str, advice: str = "restore it from a copy") -> None:
        super().__init__(f"{path}: damaged ({reason}); {advice}")
        self.path, self.reason = path, reason


def add_checksum_line(text: str) -> str:
    """Return `text` below a first line, a TOML comment, with its checksum, so that a truncated file is detected."""
    return f"# crc32 of the lines below: {zlib.crc32(text.encode()):08x}\n{text}"


def verify_checksum_line(path: Path, what_to_do: str) -> None:
    """Raise DamagedFileError if a file does not match the checksum of its first line; accept one without such a line.

    `what_to_do` is the advice of the error.
    """
    try:
        text = path.read_bytes().decode("utf-8-sig").replace("\r\n", "\n")
    except (OSError, UnicodeDecodeError):
        return  # The function that parses the file reports the error.
    first, _, rest = text.partition("\n")
    found = _SEAL.fullmatch(first)
    if found is not None and int(found[1], 16) != zlib.crc32(rest.encode()):
        raise DamagedFileError(path, "it is not what was written, by its checksum", what_to_do)
    if found is None and ("=" not in text or (first.startswith("#") and ("crc" in first or "lines below" in first))):
        raise DamagedFileError(path, "its first line, the checksum, is not whole", what_to_do)


def add_checksum(record: dict[str, Any]) -> dict[str, Any]:
    """Return `record` with its checksum under the key "crc32"."""
    return {**record, "crc32": f"{_record_crc32(record):08x}"}


def record_is_intact(record: dict[str, Any]) -> bool:
    """Return whether a record matches its checksum; records of early versions have neither checksum nor format."""
    rest = {key: value for key, value in record.items() if key != "crc32"}
    if "crc32" not in record:
        return "format" not in record
    return record["crc32"] == f"{_record_crc32(rest):08x}"


def _record_crc32(record: dict[str, Any]) -> int:
    return zlib.crc32(json.dumps(record, sort_keys=True).encode())
