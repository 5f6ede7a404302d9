"""Raw text as sentences of words: where sentences end, and Penn-style tokens written as they stand in the text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any

# Written without the last period, in lower case, as Punkt wants them. A period after one of these ends no sentence.
ABBREVIATIONS = frozenset(
    # Titles.
    "mr mrs ms messrs mme mlle dr prof rev revd hon st ste sr jr esq capt col gen lt sgt maj cmdr cpl adm gov sen rep "
    "pres supt fr bros mt ft "
    # Reference, measure and commerce.
    "no nos vol vols p pp ch chap sec fig figs eq eqs ed eds op cf viz vs v al etc e.g i.e e.g. i.e. ca c approx est "
    "dept univ inc ltd co corp assn ave blvd rd oz lb lbs ft in sq hr hrs min mins "
    # Time and place.
    "jan feb mar apr jun jul aug sep sept oct nov dec mon tue tues wed thu thur thurs fri sat sun a.m p.m b.c a.d "
    "u.s u.k u.n u.s.a d.c n.y l.a ph.d m.d b.a m.a d.phil".split()
) - {"in", "sun", "sat", "mar", "no", "fig"}  # words of their own more often than not

# Marks that never stand inside a word, which Penn's conventions do not name.
_DASHES = re.compile(r"(—+|―+|–(?=\s)|(?<=\s)–|…|--+)")
# One character each, so that places in the text stay what they are.
_APOSTROPHE = str.maketrans({"’": "'", "ʼ": "'", "＇": "'"})
_PARAGRAPH = re.compile(r"\n\s*\n")
_CLOSING = "”’\"')]}»"


def split_raw(text: str) -> list[list[str]]:
    """Sentences of raw text, each as its words: paragraphs in, lists of Penn-style tokens out.

    Sentences end at a full stop, an exclamation or question mark, or an empty line, but not after an abbreviation or
    before a lower-case word. Words are as written: "don’t" is `do` and `n’t`, and quotation marks stay themselves.

        split_raw("Mr. Fox didn't run. Why?")  # [["Mr.", "Fox", "did", "n't", "run", "."], ["Why", "?"]]
    """
    return [words for sentence in split_sentences_of_text(text) if (words := tokenize(sentence))]


def split_sentences_of_text(text: str) -> Iterator[str]:
    """Sentences of raw text, as written but with single spaces; an empty line ends a sentence too."""
    for paragraph in _PARAGRAPH.split(text):
        yield from sentences_of_paragraph(" ".join(paragraph.split()))


def sentences_of_lines(lines: Iterable[str], whole_lines: bool = False) -> Iterator[str]:
    """Sentences of a stream of lines, paragraph by paragraph; with `whole_lines` each line is a paragraph."""
    held: list[str] = []
    for line in lines:
        if line.strip():
            held.append(line)
        if held and (whole_lines or not line.strip()):
            yield from sentences_of_paragraph(" ".join(" ".join(held).split()))
            held.clear()
    yield from sentences_of_paragraph(" ".join(" ".join(held).split()))


def sentences_of_paragraph(paragraph: str) -> list[str]:
    """Sentences of one line of text without line breaks."""
    found: list[str] = []
    for part in _punkt().tokenize(paragraph):
        if found and _goes_on(part):
            found[-1] += " " + part
        else:
            found.append(part)
    return found


def tokenize(sentence: str) -> list[str]:
    """Words and punctuation of one sentence by Penn's conventions, each as it is written there."""
    return [token for piece in _DASHES.split(sentence) if piece for token in _tokens(piece)]


def looks_untokenized(words: Iterable[str]) -> bool:
    """Whether the last word of a sentence ends in punctuation, as "fire." does, or a word inside it in a comma."""
    listed = list(words)
    return any(len(word) > 1 and word[-1] in ",;!?" and word[-2].isalnum() for word in listed) or (
        len(listed) > 1 and _ends_as_raw(listed[-1])
    )


def _ends_as_raw(word: str) -> bool:
    stem = word.rstrip(_CLOSING)
    return len(stem) > 2 and stem[-1] in ".!?" and stem[-2].isalnum() and stem[:-1].lower() not in ABBREVIATIONS


def _goes_on(part: str) -> bool:
    """Whether a sentence that begins so is the rest of the last: `“Come!” said he.` is one."""
    first = part[0]
    return first.islower() or (first in "—–-,;" and len(part) > 1)


def _tokens(piece: str) -> Iterator[str]:
    """Penn tokens of a piece of text, found again in it: the tokeniser writes quotation marks in its own way."""
    plain = piece.translate(_APOSTROPHE)
    place = 0
    for token in _penn().tokenize(plain):
        while place < len(plain) and plain[place].isspace():
            place += 1
        width = len(token)
        if not plain.startswith(token, place):
            if token not in ("``", "''") or not plain.startswith('"', place):
                break
            width = 1
        yield piece[place : place + width]
        place += width
    yield from piece[place:].split()  # empty, unless a token was changed in a way that is not known here


@cache
def _punkt() -> Any:
    from nltk.tokenize.punkt import PunktParameters, PunktSentenceTokenizer

    parameters = PunktParameters()
    parameters.abbrev_types = set(ABBREVIATIONS)
    return PunktSentenceTokenizer(parameters)


@cache
def _penn() -> Any:
    from nltk.tokenize.destructive import NLTKWordTokenizer

    return NLTKWordTokenizer()
