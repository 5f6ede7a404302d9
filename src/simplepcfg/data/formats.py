"""Files that are neither plain text nor bracketed trees, recognised by how they begin and refused by name."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice

from simplepcfg.errors import InputError

LOOKED_AT = 20  # lines that are not blank
MOST_HELD = 10_000  # lines that are held to know the format, of which all may be blank or comments


@dataclass(frozen=True, slots=True)
class Format:
    """A format that is not read, and what to do with such a file instead."""

    name: str
    fix: str


_PLAIN = "save it as plain text, one sentence a line, words separated by white space"
CONLLU = Format("CoNLL-U", "it has no constituents: give bracketed trees, or take its words as text")
XML = Format("XML or HTML", "take the sentences out of it, one a line")
JSON = Format("JSON", "write its sentences as plain text, one a line")
RTF = Format("a document in rich text format", _PLAIN)
ZIP = Format("a zip archive or an office document, such as Word's .docx", f"unpack it, or {_PLAIN}")
OFFICE = Format("an office document, such as Word's .doc", _PLAIN)
PDF = Format("PDF", _PLAIN)
COMPRESSED = Format("compressed, but not by gzip", "decompress it, or compress it by gzip and name it .gz")
# Gzip is missing here: the reader, which knows the name, refuses a file of it that is not named .gz.
_BEGINNINGS = {
    ZIP: (b"PK\x03\x04", b"PK\x05\x06"),
    OFFICE: (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1",),
    PDF: (b"%PDF-",),
    RTF: (b"{\\rtf",),
    COMPRESSED: (b"BZh", b"\xfd7zXZ\x00", b"\x28\xb5\x2f\xfd", b"7z\xbc\xaf\x27\x1c"),
}
# A word of CoNLL-U (and CoNLL-X) is a line of ten columns: the first is a number, a range or 8.1, and the seventh, the
# head, a number or _. A line of text or of a table with ten columns that has something else there is no such word.
_CONLLU_WORD = re.compile(r"\d+(?:[-.]\d+)?(?:\t[^\t]*){5}\t(?:\d+|_)(?:\t[^\t]*){3}")
_CONLLU_COMMENT = re.compile(r"#\s*(?:[\w.:\[\]-]+\s*=|(?:newdoc|newpar)\b)")
# The tag that begins a page, or a line that is one tag of a document, but not <unk> and <s>, which text has, too.
_XML_START = re.compile(
    r"<\?xml\b|<!doctype\b|<(?:html|svg|tei)\b[^<>]*>|<(?:corpus|treebank|text|doc|document|body)\b[^<>]*>$",
    re.IGNORECASE,
)
_JSON_START = re.compile(r'\{\s*"[^"]*"\s*:|\[\s*(?:\{\s*"|\[\s*")')


def recognise_bytes(start: bytes) -> Format | None:
    """Return the format of a file that is no text by its first bytes; None for text."""
    return next((format_ for format_, beginnings in _BEGINNINGS.items() if start.startswith(beginnings)), None)


def recognise_lines(lines: Sequence[str]) -> Format | None:
    """Return the format of text by its first lines; None for sentences and trees."""
    filled = [line for line in lines if line.strip()]
    if not filled:
        return None
    first = filled[0].strip()
    if _XML_START.match(first):
        return XML
    if _JSON_START.match(" ".join(filled).lstrip()) or _is_list_of_strings(first):
        return JSON
    # Comments alone are text, or a text of such lines would be read as no sentences at all.
    word = next((line for line in filled if not line.startswith("#")), "")
    return CONLLU if _CONLLU_WORD.fullmatch(word.rstrip("\r\n")) else None


def recognised(lines: Iterator[str]) -> tuple[Format | None, Iterator[str]]:
    """Return the format of text, or None for sentences and trees, and an iterator over the same lines.

    As few lines are held back as the decision needs, one if the text is sentences, which may come from a keyboard.
    """
    held: list[str] = []
    looked_at = comments = 0
    for line in islice(lines, MOST_HELD):
        held.append(line)
        if (comments and line.startswith("#")) or _CONLLU_COMMENT.match(line):
            comments += 1
        elif line.strip():
            looked_at += 1
            if looked_at == LOOKED_AT or line.strip() not in ("{", "["):  # a lone bracket of JSON says nothing
                break
    return recognise_lines(held), chain(held, lines)


def refuse_table(name: str) -> None:
    """Raise InputError if a file's name says that it is a table, whose lines are no sentences."""
    if name.lower().removesuffix(".gz").endswith((".csv", ".tsv")):
        advice = "save its sentences as text, one a line (`simplepcfg score --regions` reads it as one)"
        raise InputError(f"{name}: is a table by its name, not plain text; {advice}")


def refuse(other: Format | None, name: str) -> None:
    """Raise InputError if the file `name` is in a format that is not read."""
    if other is not None:
        raise InputError(f"{name}: is {other.name}, not plain text or bracketed trees; {other.fix}")


def refuse_other_formats(lines: Iterator[str], name: str) -> Iterator[str]:
    """Yield the same lines; raise InputError, at the first, if the file `name` is in a format that is not read."""
    other, lines = recognised(lines)
    refuse(other, name)
    yield from lines


def first_lines(lines: Iterable[str]) -> list[str]:
    """Return the lines up to the first few that are not blank; a file of blank lines is not held in memory."""
    taken: list[str] = []
    looked_at = 0
    for line in islice(lines, MOST_HELD):
        taken.append(line)
        looked_at += bool(line.strip())
        if looked_at == LOOKED_AT:
            break
    return taken


def _is_list_of_strings(line: str) -> bool:
    if not line.startswith('["'):
        return False
    try:
        value = json.loads(line.rstrip(",") if not line.endswith("]") else line)
    except (ValueError, RecursionError):
        return False
    return isinstance(value, list)
