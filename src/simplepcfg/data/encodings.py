"""Lines of treebank files in whatever encoding they were published, without the SGML around their trees."""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path

from simplepcfg.data.readers import LEAST_EXPANDED_BYTES, MOST_TIMES_COMPRESSED, open_text
from simplepcfg.errors import InputError

AUTO, UTF8, CHINESE = "auto", "utf-8", "gb18030"  # GB18030 contains GB2312 and GBK

_TAG_LINE = re.compile(r"\s*<.*>\s*")
_HEADER = re.compile(r"\s*<(/?)HEADER\b", re.IGNORECASE)
# A sentence may share its line with the tags around it.
_SENTENCE = re.compile(r"\s*<(?:S|su|seg)\b[^>]*>|</(?:S|su|seg)>\s*$", re.IGNORECASE)


def check_encoding(name: str) -> str:
    """Return the name of an encoding; InputError if Python knows no text encoding of this name."""
    try:
        "".encode(name)
    except (LookupError, ValueError):
        raise InputError(f"encoding {name}: no such encoding; take utf-8, gb18030, latin-1 or another") from None
    return name


def read_lines(path: Path, encoding: str = UTF8) -> Iterator[str]:
    """Yield the lines of a file without their ends; `auto` is UTF-8 or else GB18030, decided for the whole file.

    Raises InputError, which names the line, where the file is not in this encoding.
    """
    if encoding == AUTO:
        encoding = _detect(path)
    if encoding.lower().replace("_", "-") in ("utf-8", "utf8"):
        return open_text(path)
    return _decoded(path, encoding)


def without_sgml(lines: Iterable[str]) -> Iterator[str]:
    """Yield the lines of a `.fid` file with headers and lines of SGML tags made blank, so that line numbers stay."""
    in_header = False
    for line in lines:
        header = _HEADER.match(line)
        if header is not None:
            in_header = not header[1] and "</" not in line
            yield ""
        elif in_header:
            yield ""
        else:
            line = _SENTENCE.sub("", line)
            yield "" if _TAG_LINE.fullmatch(line) else line


def _detect(path: Path) -> str:
    """Return the encoding of a file of a Chinese treebank; these files are small and can be read once more."""
    try:
        _bytes(path).decode(UTF8)
    except UnicodeDecodeError:
        return CHINESE
    return UTF8


def _decoded(path: Path, encoding: str) -> Iterator[str]:
    """Split at line feeds first: they are never half of a character in an encoding that treebanks come in."""
    for number, raw in enumerate(_bytes(path).split(b"\n"), start=1):
        try:
            line = raw.decode(encoding).rstrip("\r")
        except UnicodeDecodeError as error:
            byte = error.object[error.start]
            raise InputError(
                f"{path}:{number}: byte 0x{byte:02x} is not {encoding}; give the file's own encoding"
            ) from None
        if "\0" in line:
            raise InputError(f"{path}:{number}: holds a NUL byte, so is not {encoding} text; remove it")
        yield line


def _bytes(path: Path) -> bytes:
    raw = path.read_bytes()
    if path.suffix != ".gz":
        return raw
    try:
        most = max(MOST_TIMES_COMPRESSED * len(raw), LEAST_EXPANDED_BYTES)
        with gzip.open(path, "rb") as stream:
            content = stream.read(most + 1)
        if len(content) > most:
            raise InputError(
                f"{path}: expands to more than {MOST_TIMES_COMPRESSED} times its size, as text does not; if that is "
                "meant, decompress it and give the file"
            )
        return content
    except (EOFError, gzip.BadGzipFile, zlib.error):
        raise InputError(f"{path}: not a whole gzip file; compress it anew") from None
