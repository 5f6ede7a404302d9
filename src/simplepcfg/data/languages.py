"""Words and abbreviations of languages other than English, by the rules of Moses (sacremoses) and a few of our own."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache
from typing import Literal, get_args

from simplepcfg.data.penn_words import ADDRESS, as_written, plain_apostrophes, tokenize

Language = Literal[
    "ca", "cs", "de", "el", "en", "es", "et", "fi", "fr", "ga", "hu", "is", "it", "lt", "lv", "nl", "pl", "pt", "ro",
    "ru", "sk", "sl", "sv",
]  # fmt: skip
LANGUAGES: tuple[str, ...] = get_args(Language)
ENGLISH: Language = "en"

# A letter for Moses, which parts words at an apostrophe. It stands for an apostrophe that belongs to its word.
_LETTER_APOSTROPHE = "ʼ"
_ELIDING = ("fr", "it")  # Moses parts l'homme into l' and homme
_HYPHEN_AS_DASH = ("es", "pt", "ca")  # dialogue has hyphens glued to words: -Ven -dijo Juan-.
_TWO_HYPHENS = re.compile(r"-{2,}")
_OPENING_HYPHEN = re.compile(r"(?<![^\s¡¿«»“”\"'(\[.!?…,;:])-(?=[^\W\d_]|[¡¿«“\"(…])")
_CLOSING_HYPHEN = re.compile(r"(?<=[^\s-])-(?![\w-])")
_INNER_APOSTROPHE = re.compile(r"(?<=\w)'(?=\w)")
# es ist's gut, 'ne Frau
_GERMAN_CLITIC = re.compile(r"(?<=\w)'(?=s\b)|(?<!\w)'(?=(?:s|n|ne|nen|nem|ner)\b)")
# Words that have an apostrophe inside and are not two words.
_FRENCH_WORD = re.compile(
    r"\b(?:aujourd(?='hui\b)|quelqu(?='une?s?\b)|presqu(?='[iî]le)|prud(?='hom)|(?:entr|grand)(?='\w)|\w*-[dl](?='\w))'",
    re.IGNORECASE,
)
# An elided word that is a word of its own already.
_ELIDED_WORD = re.compile(r"(?<![^\W_])(?:[cdjlmnst]|\w*qu|\w*l)'(?=\s)", re.IGNORECASE)
_PRONOUNS = "je|tu|ils?|elles?|on|nous|vous|ce|moi|toi|lui|leur|les?|la|y|en|[mt]'"
_FRENCH_INVERSION = re.compile(rf"(\w(?:.*?\w)??)((?:(?:-t)?-(?:{_PRONOUNS}))+)")
_FRENCH_PRONOUN = re.compile(r"(?:-t)?-[\w']+")
_FRENCH_NOUNS = frozenset(["rendez-vous"])
# Titles that Moses lacks, as novels have them.
_TITLES = {
    "de": ["fr", "frl", "hr", "hrn"],
    "es": ["d", "d.a", "s", "sres", "srtas", "v", "vs"],
    "fr": ["dr", "m", "mgr", "mlle", "mlles", "mm", "mme", "mmes", "mr", "st", "ste"],
}


def splitter(language: str) -> Callable[[str], list[str]]:
    """Return the function that splits a sentence of a language into words and punctuation: English by Penn's rules."""
    return tokenize if language == ENGLISH else lambda sentence: split_words(sentence, language)


def split_words(sentence: str, language: str) -> list[str]:
    """Split a sentence of a language other than English into words and punctuation, which are pieces of the sentence.

    Moses splits punctuation from words and keeps abbreviations and German ordinals whole; French words are split after
    an elision, and pronouns from the verb before them. Contractions such as `du`, `zum` and `del` are one word.

        split_words("L'homme, donne-moi ça !", "fr")  # ["L'", "homme", ",", "donne", "-moi", "ça", "!"]
    """
    text = plain_apostrophes(" ".join(sentence.split()))
    text = _TWO_HYPHENS.sub(lambda dash: f" {dash[0]} ", text)
    if language in _HYPHEN_AS_DASH:
        text = _CLOSING_HYPHEN.sub(" - ", _OPENING_HYPHEN.sub(" - ", text))
    if "'" in text:
        text = _with_apostrophes_in_words(text, language)
    try:
        words = _moses(language)(text, escape=False, protected_patterns=[ADDRESS])
    except ValueError:  # more addresses than Moses can tell apart
        words = []
    if language == "fr":
        words = [part for word in words for part in _verb_and_pronouns(word)]
    if "".join(words) != "".join(text.split()):  # or it has one of the marks by which Moses protects words
        words = tokenize(sentence)
    return list(as_written(words, sentence))


def last_of_phrase(word: str) -> str:
    """Return the last part of words joined by `_`, as French and Spanish treebanks write fixed phrases and names.

    Text has no such words. The last part is used most like the whole: `de` like `à_partir_de`, `que` like `ya_que`.
    """
    first, _, last = word.rpartition("_")
    return f"{first}{last}" if first.lower() == "aujourd'" else last or word


@cache
def abbreviations(language: str) -> frozenset[str]:
    """Return the words of Moses, and titles, after which a period ends no sentence; in lower case, without the period.

    Single letters are left out: Punkt takes capitals for initials by itself. Numbers below 100 are ordinals in German.
    """
    from sacremoses.corpus import NonbreakingPrefixes

    listed = (word.split()[0].lower() for word in NonbreakingPrefixes().words(language))
    return frozenset(word for word in listed if len(word) > 1 or word.isdigit()) | frozenset(_TITLES.get(language, ()))


def _with_apostrophes_in_words(text: str, language: str) -> str:
    if language in _ELIDING:
        text = _ELIDED_WORD.sub(_letter_apostrophes, text)
        return _FRENCH_WORD.sub(_letter_apostrophes, text) if language == "fr" else text
    if language == "de":
        text = _GERMAN_CLITIC.sub(f" {_LETTER_APOSTROPHE}", text)
    return _INNER_APOSTROPHE.sub(_LETTER_APOSTROPHE, text)


def _letter_apostrophes(match: re.Match[str]) -> str:
    return match[0].replace("'", _LETTER_APOSTROPHE)


def _verb_and_pronouns(word: str) -> Iterator[str]:
    """Yield `donne` and `-moi` of `donne-moi`, `a` and `-t-il` of `a-t-il`; other words as they are."""
    match = _FRENCH_INVERSION.fullmatch(word) if "-" in word else None
    if match is None or word.lower() in _FRENCH_NOUNS:
        yield word
    else:
        yield match[1]
        yield from _FRENCH_PRONOUN.findall(match[2])


@cache
def _moses(language: str) -> Callable[..., list[str]]:
    from sacremoses import MosesTokenizer

    return MosesTokenizer(language).tokenize
