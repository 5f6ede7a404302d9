"""Raw text as sentences of words: where sentences end, and whether punctuation has been split from words."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from itertools import chain, islice, pairwise
from typing import Any, TypeVar
from unicodedata import normalize

from simplepcfg.data import languages
from simplepcfg.data.languages import ENGLISH, splitter
from simplepcfg.errors import InputError, shortened

Example = TypeVar("Example")

LOOKED_AT = 100  # sentences, before text is called untokenised
CHARACTERS_AT_ONCE = 1 << 16  # of a paragraph: NLTK gives up where a call takes longer than five seconds
SHARE_OF_PARAGRAPHS = 10  # a tenth of the lines with several sentences, before they are called paragraphs

# Abbreviations of titles and reference, after which a sentence always goes on, and those of measure, commerce, time and
# place, after which it ends before a word such as The. Written without the last period, in lower case, as Punkt wants
# them. Left out are those that are words of their own more often than not, such as in, no, sun and mar.
_BEFORE_OTHERS = """
    mr mrs ms messrs mme mlle dr prof rev revd hon st ste capt col gen lt sgt maj cmdr cpl adm gov sen rep pres supt fr
    bros mt ft nos vol vols p pp ch chap sec figs eq eqs ed eds op cf viz vs v e.g i.e ca c approx est
"""
_ALSO_LAST = """
    sr jr esq al etc dept univ inc ltd co corp assn ave blvd rd oz lb lbs sq hr hrs min mins
    jan feb apr jun jul aug sep sept oct nov dec mon tue tues wed thu thur thurs fri a.m p.m b.c a.d u.s u.k u.n u.s.a
    d.c n.y l.a ph.d m.d b.a m.a d.phil
"""
_STARTERS = """
    the a an this that these those he she it we they i you his her its our their my your there here what who why how
    when where while if although though because since after before but and or so yet however in on at for from with as
    to by not no
"""
_MAY_BE_LAST = frozenset(_ALSO_LAST.split())
ABBREVIATIONS = frozenset(_BEFORE_OTHERS.split()) | _MAY_BE_LAST
_FIRST_WORDS = frozenset(_STARTERS.split())
# A period after one of these ends no sentence before a number: `No. 5`, `Abb. 3`.
_BEFORE_NUMBERS = frozenset(
    ["no.", "nr.", "fig.", "figs.", "art.", "arts.", "sect.", "ex.", "exs.", "abb.", "tab.", "núm."]
)

_OPENING = "“‘\"'([{«"
_CLOSING = "”’\"')]}»"
_DASHES = re.compile("[—–]|--")
_SPACED_ELLIPSIS = re.compile(r"\.(?: \.){2,}")
# In languages other than English: an ellipsis, and a capital after it.
_ELLIPSIS_END = re.compile(r"(?:\.{3,}|…)[!?]*[»”\"')\]]*\s+(?=[«“„»\"'(¡¿—–-]*\s?[^\W\d_a-zß-ÿ])")


def split_raw(text: str, language: str = ENGLISH) -> list[list[str]]:
    """Split raw text into sentences, and each into a list of words, Penn-style if it is English.

    Sentences end at a full stop, an exclamation or question mark, or an empty line, but not after an abbreviation or
    before a lower-case word. Words are as written: "don’t" is `do` and `n’t`, and quotation marks stay themselves.

        split_raw("Mr. Fox didn't run. Why?")  # [["Mr.", "Fox", "did", "n't", "run", "."], ["Why", "?"]]
    """
    if not isinstance(text, str):
        raise InputError(f"{shortened(repr(text))} is not a string; give raw text as one string")
    return list(words_of_lines(text.removeprefix("\ufeff").split("\n"), language))  # no byte order mark


def words_of_lines(lines: Iterable[str], language: str = ENGLISH) -> Iterator[list[str]]:
    """Yield the words of each sentence of a stream of lines, as `split_raw` returns them."""
    split = splitter(language)
    return (words for sentence in sentences_of_lines(lines, language) if (words := split(sentence)))


def sentences_of_lines(lines: Iterable[str], language: str = ENGLISH) -> Iterator[str]:
    """Yield the sentences of a stream of lines, which may be folded or hold a paragraph each.

    A paragraph is done at an empty line, or after a line that ends as sentences do and before one that begins as they
    do, so that not all of a file has to be held.
    """
    held: list[str] = []
    for line in lines:
        words = line.split()
        if held and (not words or (_ends_as_raw(held[-1], language) and not _continues(held[-1], words[0]))):
            yield from sentences_of_paragraph(" ".join(held), language)
            held.clear()
        held += words
    yield from sentences_of_paragraph(" ".join(held), language)


def sentences_of_paragraph(paragraph: str, language: str = ENGLISH) -> list[str]:
    """Return the sentences of a paragraph without line breaks; a spaced ellipsis, `. . .`, becomes `...`."""
    text = _SPACED_ELLIPSIS.sub(lambda dots: dots[0].replace(" ", ""), normalize("NFC", paragraph))
    if language == ENGLISH:
        parts = _punkt_sentences(text, language)
    else:
        if language == "fr":  # a space after an opening mark would make it a closing one for Punkt
            text = text.replace("« ", "«")
        parts = chain.from_iterable(map(_split_at_ellipses, _punkt_sentences(text, language)))
    sentences: list[str] = []
    for part in parts:
        last_word = sentences[-1].rpartition(" ")[2] if sentences else ""
        # Punkt may end a sentence after an abbreviation, too: `“Mr. Fox?”`, `yes—Mr. Fox`.
        if sentences and (_continues(last_word, part) or _needs_more(last_word, part, language)):
            sentences[-1] += " " + part
        else:
            sentences.append(part)
    return sentences


def _split_at_ellipses(sentence: str) -> Iterator[str]:
    place = 0
    for match in _ELLIPSIS_END.finditer(sentence):
        yield sentence[place : match.end()].rstrip()
        place = match.end()
    yield sentence[place:]


def _punkt_sentences(paragraph: str, language: str) -> Iterator[str]:
    """Yield the sentences that Punkt finds in a paragraph, of which it is shown some at a time.

    The last sentence of a part may go on after it, and a closing mark at its beginning may belong to the sentence
    before, so that both are part of the next one.
    """
    start, width = 0, CHARACTERS_AT_ONCE
    while start < len(paragraph):
        end = paragraph.find(" ", start + width)
        part = paragraph[start:] if end < 0 else paragraph[start:end]
        spans = list(_punkt(language).span_tokenize(part))
        whole = spans if end < 0 else spans[:-2]
        yield from (part[first:after] for first, after in whole)
        if end < 0:
            return
        if whole:
            start, width = start + spans[-2][0], CHARACTERS_AT_ONCE
        else:
            width *= 2


def untokenized_word(words: Sequence[str]) -> str | None:
    """Return a word that ends in punctuation: the last of the sentence, as "fire." does, or an inner one in a comma."""
    listed = list(words)
    for word in listed:
        if len(word) > 1 and word[-1] in ",;!?" and word[-2].isalnum():
            return word
    return listed[-1] if len(listed) > 1 and _ends_as_raw(listed[-1]) else None


def untokenized_remark(sentences: Iterable[Sequence[str]]) -> str | None:
    """Return a remark on text if a third or more of its first hundred sentences look untokenised, else None."""
    word = _frequent_example(sentences, untokenized_word, 3)
    if word is None:
        return None
    return f"looks untokenised, with punctuation that is part of words, as in `{shortened(word)}`"


def paragraph_remark(sentences: Iterable[Sequence[str]]) -> str | None:
    """Return a remark on lines, split by Penn's conventions, if `inner_sentence_end` finds one, else None."""
    example = inner_sentence_end(sentences)
    return None if example is None else f"seems to have several sentences on a line, as in `{example}`"


def inner_sentence_end(sentences: Iterable[Sequence[str]]) -> str | None:
    """Return the last word of a sentence and the word after it, if a tenth or more of the first hundred sequences of
    words, split by Penn's conventions, hold an end of a sentence before their last word; else None."""
    pair = _frequent_example(sentences, _inner_end, SHARE_OF_PARAGRAPHS)
    return None if pair is None else " ".join(map(shortened, pair))


def _frequent_example(
    sentences: Iterable[Sequence[str]], find: Callable[[Sequence[str]], Example | None], share: int
) -> Example | None:
    """Return the first that is found in sentences if 1 / `share` or more of the first hundred have one, else None."""
    first = list(islice(filter(None, sentences), LOOKED_AT))
    examples = [example for words in first if (example := find(words)) is not None]
    return examples[0] if examples and share * len(examples) >= len(first) else None


def _inner_end(words: Sequence[str]) -> tuple[str, str] | None:
    """Return the last word of a sentence within the line and the word after it; None if there is none."""
    pairs = pairwise(words)
    return next((pair for pair in pairs if _ends_as_raw(pair[0]) and not _goes_on(pair[1])), None)


def _ends_as_raw(word: str, language: str = ENGLISH) -> bool:
    stem = word.rstrip(_CLOSING)
    return len(stem) > 2 and stem[-1] in ".!?" and stem[-2].isalnum() and not _is_abbreviation(stem, language)


def _goes_on(part: str) -> bool:
    """Tell whether a sentence that begins so is the rest of the last: `“Come!” said he.` is one."""
    first = part[0]
    return first.islower() or (first in "—–-,;" and len(part) > 1)


def _continues(word: str, part: str) -> bool:
    """Tell whether a part is the rest of the sentence that ends in a word; a number belongs to a word such as `No.`."""
    return _goes_on(part) or (part[0].isdigit() and word.lstrip(_OPENING).lower() in _BEFORE_NUMBERS)


def _needs_more(word: str, part: str, language: str) -> bool:
    """Tell whether a sentence does not end in a word, an abbreviation, before this part."""
    if not _is_abbreviation(word, language):
        return False
    first = part.lstrip(_OPENING).partition(" ")[0].lower()
    return language != ENGLISH or word.lstrip(_OPENING)[:-1].lower() not in _MAY_BE_LAST or first not in _FIRST_WORDS


def _is_abbreviation(word: str, language: str) -> bool:
    last = _DASHES.split(word)[-1].lstrip(_OPENING)
    return last.endswith(".") and last[:-1].lower() in _abbreviations(language)


def _abbreviations(language: str) -> frozenset[str]:
    return ABBREVIATIONS if language == ENGLISH else languages.abbreviations(language)


@cache
def _punkt(language: str = ENGLISH) -> Any:
    from nltk.tokenize.punkt import PunktParameters, PunktSentenceTokenizer

    parameters = PunktParameters()
    parameters.abbrev_types = set(_abbreviations(language))
    if language == ENGLISH:
        parameters.sent_starters = set(_FIRST_WORDS)
    return PunktSentenceTokenizer(parameters)
