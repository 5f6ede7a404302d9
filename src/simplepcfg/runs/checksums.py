"""CRC-32 checksums of the files of a run, computed at about 2 GB/s on one core.

They detect damage by disks, memory and copying, but not changes made on purpose: whoever can change a file can change
its checksum, too.
"""

import json
import re
import zlib
from collections.abc import Mapping
from pathlib import Path

from simplepcfg.errors import InputError

_CHECKSUM_LINE = re.compile(r"# crc32 of the lines below: ([0-9a-f]{8})")


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
    checksum = _CHECKSUM_LINE.fullmatch(first)
    if checksum is not None and int(checksum[1], 16) != zlib.crc32(rest.encode()):
        raise DamagedFileError(path, "it is not what was written, by its checksum", what_to_do)
    if checksum is None and ("=" not in text or (first.startswith("#") and ("crc" in first or "lines below" in first))):
        raise DamagedFileError(path, "its first line, the checksum, is not whole", what_to_do)


def add_checksum(record: Mapping[str, object]) -> dict[str, object]:
    """Return `record` with its checksum under the key "crc32"."""
    return {**record, "crc32": f"{_record_crc32(record):08x}"}


def record_is_intact(record: Mapping[str, object]) -> bool:
    """Return whether a record matches its checksum."""
    rest = {key: value for key, value in record.items() if key != "crc32"}
    return record.get("crc32") == f"{_record_crc32(rest):08x}"


def _record_crc32(record: Mapping[str, object]) -> int:
    return zlib.crc32(json.dumps(record, sort_keys=True).encode())
