"""CoNLL-U: the words of each sentence, with its id and its text where the file has them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from simplepcfg.errors import InputError

COLUMNS = 10
_ENDINGS = (".conllu", ".conll", ".conllx")
_COMMENT = re.compile(r"#\s*(sent_id|text)\s*=\s*(.*)")
_WORD_ID = re.compile(r"\d+")
_OTHER_ID = re.compile(r"\d+-\d+|\d+\.\d+")  # a range of words written as one, or an empty node


@dataclass(frozen=True, slots=True)
class ConlluSentence:
    """The syntactic words of a sentence; `id` and `text` are those of its comments, or None."""

    words: list[str]
    id: str | None = None
    text: str | None = None


def named_conllu(name: str) -> bool:
    """Return whether a file's name says that it is CoNLL-U."""
    return name.lower().removesuffix(".gz").endswith(_ENDINGS)


def parse_conllu(lines: Iterable[str], name: str) -> Iterator[ConlluSentence]:
    """Yield the sentences of CoNLL-U lines; of words written as one (`don't`) the parts, and no empty nodes.

    InputError names the line that is not CoNLL-U.
    """
    words: list[str] = []
    comments: dict[str, str] = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            if words:
                yield ConlluSentence(words, comments.get("sent_id"), comments.get("text"))
            words, comments = [], {}
        elif line.startswith("#"):
            if comment := _COMMENT.match(line):
                comments[comment[1]] = comment[2].strip()
        else:
            columns = line.split("\t")
            if len(columns) != COLUMNS:
                raise InputError(
                    f"{name}:{number}: {len(columns)} columns where CoNLL-U has {COLUMNS} (tabs); repair the line"
                )
            if _WORD_ID.fullmatch(columns[0]):
                words.append(_form(columns[1], name, number))
            elif not _OTHER_ID.fullmatch(columns[0]):
                raise InputError(f"{name}:{number}: {columns[0]!r} is no number of a word in CoNLL-U; repair the line")
    if words:
        yield ConlluSentence(words, comments.get("sent_id"), comments.get("text"))


def _form(form: str, name: str, number: int) -> str:
    """Return the form of a word, with `_` for white space inside it, which CoNLL-U allows."""
    if not form.strip():
        raise InputError(f"{name}:{number}: a word without a form; repair the line")
    return "_".join(form.split())
