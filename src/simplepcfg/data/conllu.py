"""CoNLL-U: the words of each sentence, with its id and its text where the file has them, and its dependencies."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain

from simplepcfg.data.dependencies import DependencyTree, dependency_tree
from simplepcfg.errors import InputError

COLUMNS = 10
UPOS, HEAD, RELATION = 3, 6, 7
_ENDINGS = (".conllu", ".conll", ".conllx")
_COMMENT = re.compile(r"#\s*(sent_id|text)\s*=\s*(.*)")
_WORD_ID = re.compile(r"\d+")
_OTHER_ID = re.compile(r"\d+-\d+|\d+\.\d+")  # a range of words written as one, or an empty node

Words = list[tuple[int, list[str]]]  # number of the line and its columns


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
    for words, comments in _sentences(lines, name):
        forms = [_form(columns[1], name, number) for number, columns in words]
        yield ConlluSentence(forms, comments.get("sent_id"), comments.get("text"))


def parse_dependencies(lines: Iterable[str], name: str) -> Iterator[DependencyTree]:
    """Yield the dependency trees of CoNLL-U lines, over the same words as `parse_conllu` has.

    InputError names the line without a head, or the first line of a sentence whose heads form no tree.
    """
    for words, _ in _sentences(lines, name):
        forms = [_form(columns[1], name, number) for number, columns in words]
        heads = [_head(columns[HEAD], len(words), name, number) for number, columns in words]
        try:
            yield dependency_tree(forms, [c[UPOS] for _, c in words], heads, [c[RELATION] for _, c in words])
        except InputError as error:
            raise InputError(f"{name}:{words[0][0]}: {error}") from None


def has_heads(lines: Iterable[str]) -> bool:
    """Return whether the first word of CoNLL-U lines has a head."""
    for line in lines:
        columns = line.split("\t")
        if len(columns) == COLUMNS and _WORD_ID.fullmatch(columns[0]):
            return columns[HEAD].isdecimal()
    return False


def _sentences(lines: Iterable[str], name: str) -> Iterator[tuple[Words, dict[str, str]]]:
    """Yield the lines of the words of each sentence and its comments."""
    words: Words = []
    comments: dict[str, str] = {}
    for number, line in enumerate(chain(lines, [""]), start=1):
        if not line.strip():
            if words:
                yield words, comments
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
                words.append((number, columns))
            elif not _OTHER_ID.fullmatch(columns[0]):
                raise InputError(f"{name}:{number}: {columns[0]!r} is no number of a word in CoNLL-U; repair the line")


def _form(form: str, name: str, number: int) -> str:
    """Return the form of a word, with `_` for white space inside it, which CoNLL-U allows."""
    if not form.strip():
        raise InputError(f"{name}:{number}: a word without a form; repair the line")
    return "_".join(form.split())


def _head(text: str, words: int, name: str, number: int) -> int:
    """Return the number of a word's head, 0 for the root."""
    if not text.isdecimal() or int(text) > words:
        raise InputError(f"{name}:{number}: the head {text!r} is no word of a sentence of {words}; repair the line")
    return int(text)
