"""Lines of treebank files in whatever encoding they were published, without the SGML around their trees."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from simplepcfg.data.readers import UTF8, open_text
from simplepcfg.errors import InputError

AUTO, CHINESE = "auto", "gb18030"  # GB18030 contains GB2312 and GBK

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
    return open_text(path, encoding=codecs.lookup(encoding).name)


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
        for _ in open_text(path):
            pass
    except InputError as error:
        if isinstance(error.__context__, UnicodeDecodeError):
            return CHINESE
    return UTF8
