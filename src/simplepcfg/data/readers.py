"""Files of sentences and of trees, read as a stream; what is wrong with a file is one line that names it."""

from __future__ import annotations

import codecs
import gzip
import math
import os
import re
import stat
import sys
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain
from os import PathLike, fspath
from typing import IO, Literal, TypeVar

from simplepcfg.data.brackets import parse_trees
from simplepcfg.data.conllu import ConlluSentence, has_heads, named_conllu, parse_conllu, parse_dependencies
from simplepcfg.data.dependencies import DependencyTree
from simplepcfg.data.formats import (
    CONLLU,
    first_lines,
    recognise_bytes,
    recognise_lines,
    recognised,
    refuse,
    refuse_other_formats,
    refuse_table,
)
from simplepcfg.data.languages import ENGLISH
from simplepcfg.data.raw_text import words_of_lines
from simplepcfg.data.trees import SpanTree
from simplepcfg.errors import InputError, shortened

PathName = str | PathLike[str]
Sentence = TypeVar("Sentence")

STDIN, UTF8 = "-", "utf-8"
_SNIFFED_BYTES = 4096
# No text has a longer line than this: it comes from a device such as /dev/zero, or from a hostile archive.
MOST_LINE_BYTES = 256 << 20
# Text compresses to a third or a tenth; an archive that expands to this many bytes and times is made to fill memory.
MOST_TIMES_COMPRESSED, LEAST_EXPANDED_BYTES = 200, 256 << 20
# A tree opens a second bracket after at most a label.
_TREE_START = re.compile(r"\s*\(\s*[^\s()]*\s*\(")
# A tree may also be one tagged word, (TAG word), with nothing but brackets after it: "( he said )" is text.
_TAGGED_WORD = re.compile(r"\s*\(([^\s()]+)\s+[^\s()]+\s*\)[^\S\n]*$", re.MULTILINE)
# A pipe can be read once only: what sniff took from it waits here, with the rest, for whoever reads it next.
_sniffed_pipes: dict[tuple[str, int, int], Iterator[str]] = {}


def open_text(path: PathName, seen: Callable[[str], object] | None = None, encoding: str = UTF8) -> Iterator[str]:
    """Yield the lines of a text file without their ends; `.gz` is decompressed, `-` is standard input.

    `seen` is called with each line. Raises InputError if the file cannot be read or is in another encoding.
    """
    if seen is not None:
        return _shown_to(seen, open_text(path, encoding=encoding))
    if (pipe := _pipe_identity(path)) is not None and pipe in _sniffed_pipes:
        return _sniffed_pipes.pop(pipe)
    name = display_name(path)
    return _decoded_lines(_open_binary(path, name), name, encoding, close=fspath(path) != STDIN)


def read_sentences(
    path: PathName,
    *,
    keep_blank: bool = False,
    split: Callable[[str], list[str]] = str.split,
    raw: bool = False,
    language: str = ENGLISH,
) -> Iterator[list[str]]:
    """Yield the words of each sentence: one sentence a line, split at white space or by `split`, or CoNLL-U.

    With `raw` the lines are paragraphs of raw text in `language`, which are split into sentences and words. Blank lines
    are skipped, and a file without any sentence is an error. With `keep_blank` a blank line is an empty sentence and
    an empty file has none, so that output can be written line for line beside the input.
    """
    sentences = (sentence.words for sentence in read_marked(path, split=split, raw=raw, language=language))
    wanted = "no sentences; expected one sentence a line, words separated by white space"
    return sentences if keep_blank else _or_error(filter(None, sentences), f"{display_name(path)}: {wanted}")


def read_marked(
    path: PathName,
    *,
    split: Callable[[str], list[str]] = str.split,
    raw: bool = False,
    language: str = ENGLISH,
    seen: Callable[[str], object] | None = None,
) -> Iterator[ConlluSentence]:
    """Yield the sentences of `read_sentences`, blank ones too, with the id and text that CoNLL-U has of them.

    `seen` is called with each line that is read.
    """
    splitter = partial(words_of_lines, language=language) if raw else partial(map, split)
    return _marked(open_text(path, seen), display_name(path), splitter)


def _marked(
    lines: Iterator[str], name: str, split: Callable[[Iterator[str]], Iterator[list[str]]]
) -> Iterator[ConlluSentence]:
    refuse_table(name)
    format_, lines = recognised(lines)
    if format_ is CONLLU or named_conllu(name):
        yield from parse_conllu(lines, name)
    else:
        refuse(format_, name)
        yield from map(ConlluSentence, split(lines))


def _shown_to(seen: Callable[[str], object], lines: Iterator[str]) -> Iterator[str]:
    """Yield the lines, each after a call of `seen` with it."""
    for line in lines:
        seen(line)
        yield line


def read_trees(path: PathName, seen: Callable[[str], object] | None = None) -> Iterator[SpanTree]:
    """Yield bracketed trees, one a line or spread over lines, without traces and constituents of these alone.

    `seen` is called with each line. Raises InputError, which names the line, for anything that is no tree, and for a
    file without any.
    """
    name = display_name(path)
    trees = parse_trees(refuse_other_formats(open_text(path, seen), name), name)
    return _or_error(trees, f"{name}: no trees; expected bracketed trees such as (S (NP (DT a) (NN dog)))")


def read_dependencies(path: PathName) -> Iterator[DependencyTree]:
    """Yield the dependency trees of a CoNLL-U file; InputError names a line that is wrong."""
    return parse_dependencies(open_text(path), display_name(path))


def sniff(path: PathName) -> Literal["trees", "text"]:
    """Return whether a file holds bracketed trees or plain sentences, by its first lines, which can be read again."""
    start = "\n".join(line for line in _first_lines_of(path) if line.strip())
    return "trees" if _begins_with_trees(start.removeprefix("\ufeff")) else "text"


def has_dependencies(path: PathName) -> bool:
    """Return whether a file is CoNLL-U with heads, by its first lines, which can be read again."""
    lines = _first_lines_of(path)
    return (recognise_lines(lines) is CONLLU or named_conllu(fspath(path))) and has_heads(lines)


def _first_lines_of(path: PathName) -> list[str]:
    """Return the first lines of a file; the next reader gets them, too."""
    if fspath(path) == STDIN:
        # A stream without peek cannot be inspected before it is read, so it is taken for plain text.
        peek = getattr(sys.stdin.buffer, "peek", None)
        start: str = peek(_SNIFFED_BYTES)[:_SNIFFED_BYTES].decode("utf-8", "replace") if peek else ""
        return start.split("\n")
    pipe = _pipe_identity(path)
    lines = open_text(path)
    taken = first_lines(lines)
    if pipe is not None:
        _sniffed_pipes[pipe] = chain(taken, lines)
    return taken


def _begins_with_trees(start: str) -> bool:
    if _TREE_START.match(start):
        return True
    word = _TAGGED_WORD.match(start)
    if word is None:
        return False
    lines = start[word.end() :].split("\n")
    if any(line.lstrip()[:1] not in ("", "(", ")") for line in lines):
        return False
    # Nothing but lines such as (the dog) is text in brackets: tags are not written in lower case.
    labels = [match[1] for line in start.split("\n") if (match := _TAGGED_WORD.fullmatch(line))]
    return any(map(_TREE_START.match, lines)) or not any(label.islower() for label in labels)


def _pipe_identity(path: PathName) -> tuple[str, int, int] | None:
    """Return what tells a pipe or a device from all others; None for files and what is missing."""
    name = fspath(path)
    try:
        status = os.stat(name)
    except (OSError, ValueError):  # opening it says what is wrong
        return None
    if name == STDIN or stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode):
        return None
    return name, status.st_dev, status.st_ino


def display_name(path: PathName) -> str:
    """Return what messages call a file."""
    return "standard input" if fspath(path) == STDIN else fspath(path)


def file_name(path: PathName) -> str:
    """Return the name of a file; raise InputError for a text in its place."""
    name = fspath(path)
    if "\n" in name:
        raise InputError(
            f"{shortened(name)!r} is a text of {len(name):,} characters, no file; give a list of its sentences, "
            "or [text] where text is raw"
        )
    return name


def _open_binary(path: PathName, name: str) -> IO[bytes]:
    if fspath(path) == STDIN:
        return sys.stdin.buffer
    try:
        # Not in a with statement: the lines are read later, and _decoded_lines closes the stream.
        if name.endswith(".gz"):
            return gzip.open(path, "rb")  # type: ignore[return-value]
        return open(path, "rb")
    except FileNotFoundError:
        raise InputError(f"{name}: no such file; check the path") from None
    except IsADirectoryError:
        raise InputError(f"{name}: is a directory; give a file in it") from None
    except PermissionError:
        raise InputError(f"{name}: permission denied; make the file readable") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"{name}: cannot be opened ({reason}); check the path") from None


def _decoded_lines(stream: IO[bytes], name: str, encoding: str, close: bool) -> Iterator[str]:
    """Decode line by line, since only then does an undecodable byte have a line number.

    Line feeds are never half of a character in an encoding that treebanks come in.
    """
    fix = "save it as UTF-8 (iconv -f ENCODING -t utf-8)" if encoding == UTF8 else "give the file's own encoding"
    number = expanded = 0
    most: float = math.inf
    if isinstance(stream, gzip.GzipFile):
        most = max(MOST_TIMES_COMPRESSED * os.fstat(stream.fileno()).st_size, LEAST_EXPANDED_BYTES)
    try:
        # Lines are read with a limit, since a device or a hostile archive has lines without end.
        for number, raw in enumerate(iter(partial(stream.readline, MOST_LINE_BYTES + 1), b""), start=1):
            if number == 1 and (format_ := recognise_bytes(raw)) is not None:
                raise InputError(f"{name}: is {format_.name}, not plain text; {format_.fix}")
            if len(raw) > MOST_LINE_BYTES:
                raise InputError(f"{name}:{number}: a line of more than {MOST_LINE_BYTES >> 20} MiB; is it text?")
            expanded += len(raw)
            if expanded > most:
                raise InputError(
                    f"{name}:{number}: expands to more than {MOST_TIMES_COMPRESSED} times its size, as text does not; "
                    "if that is meant, decompress it and give the file"
                )
            line = raw.decode(encoding)
            if number == 1:
                line = line.removeprefix("\ufeff")
            if "\0" in line:
                raise InputError(f"{name}:{number}: holds a NUL byte, so is not text; {fix}")
            yield from line.rstrip("\r\n").split("\r")  # lines of old Macs, and of tables that Excel saves there
    except UnicodeDecodeError as error:
        byte = error.object[error.start]
        if number == 1 and error.object[:2] == b"\x1f\x8b":
            fix = "it is compressed: name it .gz"
        if number == 1 and error.object[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
            raise InputError(f"{name}: is in UTF-16, not UTF-8; {fix}") from None
        if b"\0" in error.object and error.object[:2] != b"\x1f\x8b":
            raise InputError(f"{name}:{number}: is binary, not text; give a text file") from None
        raise InputError(
            f"{name}:{number}: byte 0x{byte:02x} is not {encoding.upper() if encoding == UTF8 else encoding}; {fix}"
        ) from None
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        reason = str(error).splitlines()[0]
        if number == 0 and reason.startswith("Not a gzipped file"):
            raise InputError(f"{name}: is not compressed by gzip; name it without .gz, or compress it") from None
        raise InputError(
            f"{name}: not a whole gzip file, bad after line {number} ({reason}); compress it anew"
        ) from None
    except OSError as error:
        raise InputError(f"{name}: reading failed after line {number} ({error.strerror or error})") from None
    finally:
        if close:
            stream.close()


def _or_error(items: Iterator[Sentence], message: str) -> Iterator[Sentence]:
    """Yield the items; raise InputError if there are none."""
    empty = True
    for item in items:
        empty = False
        yield item
    if empty:
        raise InputError(message)
