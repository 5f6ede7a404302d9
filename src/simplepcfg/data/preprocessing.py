"""Preprocessing of words, which is stored with a run and applied to all its text."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Literal
from unicodedata import normalize

from pydantic import BaseModel, ConfigDict, PrivateAttr

from simplepcfg.data.languages import ENGLISH, Language, last_of_phrase, splitter
from simplepcfg.data.penn_words import plain_apostrophes
from simplepcfg.data.trees import SpanTree
from simplepcfg.data.unknown_classes import is_unknown_class
from simplepcfg.data.vocabulary import EOS, NUMBER, SPECIAL_WORDS
from simplepcfg.errors import InputError

# fmt: off
PENN_WORD_TAGS = frozenset([
    "CC", "CD", "DT", "EX", "FW", "IN", "JJ", "JJR", "JJS", "LS", "MD", "NN", "NNS", "NNP", "NNPS", "PDT",
    "POS", "PRP", "PRP$", "RB", "RBR", "RBS", "RP", "SYM", "TO", "UH", "VB", "VBD", "VBG", "VBN", "VBP",
    "VBZ", "WDT", "WP", "WP$", "WRB",
])
# fmt: on
MARK_TAG = "."
# Those of Penn's treebanks, and the round ones of Spanish and Catalan treebanks.
ESCAPED_BRACKETS = frozenset(["-LRB-", "-RRB-", "-LSB-", "-RSB-", "-LCB-", "-RCB-", "-FPA-", "-FPT-"])
SEPARATORS = frozenset(',;:.!?()[]{}"«»‹›“”„…–—¿¡、，。；：！？（）「」『』《》')
# The same language as the field's [0-9]{1,}([,.]?[0-9]*)*, without its nested repetition.
_NUMBER = re.compile(r"[0-9][0-9,.]*")
_SPACE = re.compile(r"\s+")
MOST_FREQUENT = 20  # words of a text with punctuation, among which its comma or full stop surely is
MOST_CACHED = 1 << 20  # words, about as many as a text of some hundred million words has


@dataclass(frozen=True, slots=True)
class Prepared:
    """The words of a sentence, its tokens for a model and, for each that comes from a word, the index of that word.

    An `<eos>` that was added is a token with no index, so `kept` may be one shorter than `tokens`.
    """

    words: Sequence[str]
    tokens: list[str]
    kept: list[int]

    def word_spans(self, spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
        """Return spans over `tokens` as spans over the kept words, parents first; an added `<eos>` is cut off."""
        n = len(self.kept)
        cut = {(i, min(j, n)) for i, j in spans if min(j, n) - i >= 2}
        return sorted(cut, key=lambda span: (span[0], -span[1]))


class Preprocessing(BaseModel):
    """The choices of a run: by default the conventions of unsupervised parsing on the Penn Treebank.

    Punctuation is known by its tag in trees (all but the 36 Penn word tags); in text, and in trees with other
    tags (see `with_word_tags`), it is a word without letter or digit, or an escaped bracket such as -LRB- or
    -lrb-. Words are lower-cased first, then every number in them becomes `N`. White space inside a word (a no-break
    space in a tree, say) is `_`. Text may be prepared already: `<unk>`, `<eos>` and, when numbers become `N`, a word
    that is just `N` stay as they are. With `tokenize` sentences come as they are written, "fire." and "don’t"
    included; see `split`. Where the language is not English, a word such as `à_partir_de`, as which treebanks join
    fixed phrases and names, is known by its last part.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    lowercase: bool = True
    numbers: Literal["keep", "N"] = "N"
    punctuation: Literal["keep", "drop"] = "drop"
    eos: bool = False
    tokenize: bool = False
    language: Language = ENGLISH
    _kept_words: frozenset[str] = PrivateAttr(default=frozenset())

    def completed(self, vocabulary: Sequence[str]) -> Preprocessing:
        """Return the preprocessing of new text for a run that learned from prepared text, or this one for other runs.

        A vocabulary, the most frequent words first, that has an `N` and no number comes from prepared text if the run
        itself keeps numbers. Those of a new text then become `N`, it is lower-cased if all words of the vocabulary are,
        and loses its punctuation if no separator is among the most frequent words. Words of the vocabulary, such as
        `mid-Ns` and `%`, stay, so that text prepared in the same way is not changed, except for separators that tags
        had taken for words.
        """
        words = frozenset(vocabulary) - SPECIAL_WORDS
        if self.numbers == NUMBER or NUMBER not in words or any(map(_NUMBER.fullmatch, words)):
            return self
        without_numbers = (word.replace(NUMBER, "") for word in words)
        lowercase = self.lowercase or all(word == word.lower() for word in without_numbers)
        own = (word for word in vocabulary if word not in SPECIAL_WORDS and not is_unknown_class(word))
        drops = self.punctuation == "drop" or not any(map(is_separator, islice(own, MOST_FREQUENT)))
        shown = {"lowercase": lowercase, "numbers": "N", "punctuation": "drop" if drops else "keep"}
        completed = self.model_copy(update=shown)
        completed._kept_words = frozenset(word for word in words if not (drops and is_separator(word)))
        return completed

    def split(self, text: str) -> list[str]:
        """Split a sentence into words: at white space or, with `tokenize`, by the conventions of its language.

        With `tokenize` a letter and its accent become one character, as which words are learned.
        """
        return splitter(self.language)(normalize("NFC", text)) if self.tokenize else text.split()

    def apply(self, words: Sequence[str], tags: Sequence[str] | None = None) -> Prepared:
        """Return the tokens of one sentence; `<eos>` is not added twice, nor to a sentence with nothing left."""
        kept = self._kept(words, tags)
        tokens = [self._normalise(words[index]) for index in kept]
        if self.eos and tokens and tokens[-1] != EOS:
            tokens.append(EOS)
        return Prepared(words, tokens, kept)

    def prepare_tree(self, tree: SpanTree) -> SpanTree:
        """Return the tree over the tokens that stay (never an added `<eos>`), without constituents that have none."""
        prepared = self.apply(tree.words, tree.tags)
        kept = prepared.kept
        tags = tuple(tree.tags[index] for index in kept)
        return SpanTree(tuple(prepared.tokens[: len(kept)]), tags, tuple(spans_over(kept, tree.spans)))

    def _kept(self, words: Sequence[str], tags: Sequence[str] | None) -> list[int]:
        if tags is not None and len(tags) != len(words):
            raise InputError(f"{len(words)} words come with {len(tags)} tags; give one tag a word")
        if self.punctuation == "keep":
            return list(range(len(words)))
        kept = self._kept_words
        if tags is None:
            return [index for index, word in enumerate(words) if word in kept or not is_punctuation(word)]
        # In Penn's trees the tag "." is that of separators, which are no kept words. In other trees `with_word_tags`
        # gives it to every mark.
        pairs = zip(words, tags, strict=True)
        return [
            index
            for index, (word, tag) in enumerate(pairs)
            if tag in PENN_WORD_TAGS or (tag == MARK_TAG and word in kept)
        ]

    def _normalise(self, word: str) -> str:
        if word in self._kept_words or word in SPECIAL_WORDS or (word == NUMBER and self.numbers == "N"):
            return word
        if self.tokenize:
            word = plain_apostrophes(word)
        if self.language != ENGLISH and "_" in word:
            word = last_of_phrase(word)
        if self.lowercase:
            word = word.lower()
        if not word.isalnum() and has_space(word):  # the first is quick, and true of most words
            word = _SPACE.sub("_", word)
        return _NUMBER.sub(NUMBER, word) if self.numbers == "N" else word


class TokenCache(dict[str, str | None]):
    """The token of each word of plain text, None where preprocessing drops the word; computed once for each.

    TokenCache(Preprocessing()).tokens(["The", "dog", "."])   # ["the", "dog"], as Preprocessing().apply gives
    """

    def __init__(self, preprocessing: Preprocessing) -> None:
        super().__init__()
        self._preprocessing = preprocessing.model_copy(update={"eos": False})
        self._eos = preprocessing.eos

    def __missing__(self, word: str) -> str | None:
        """Compute and keep what becomes of a word."""
        if len(self) >= MOST_CACHED:
            self.clear()
        tokens = self._preprocessing.apply([word]).tokens
        self[word] = token = tokens[0] if tokens else None
        return token

    def tokens(self, words: Iterable[str]) -> list[str]:
        """Return the tokens of a sentence without tags."""
        tokens = [token for word in words if (token := self[word]) is not None]
        if self._eos and tokens and tokens[-1] != EOS:
            tokens.append(EOS)
        return tokens


def spans_over(kept: Sequence[int], spans: Iterable[tuple[int, int, str]]) -> list[tuple[int, int, str]]:
    """Return spans over all words as spans over the words at the indices `kept`, without empty ones."""
    ends = ((bisect_left(kept, i), bisect_left(kept, j), label) for i, j, label in spans)
    return [(start, end, label) for start, end, label in ends if start < end]


def is_punctuation(word: str) -> bool:
    """Return whether a word of plain text is punctuation."""
    if word[:1] == "-" and word.upper() in ESCAPED_BRACKETS:
        return True
    return not any(character.isalnum() for character in word)


def is_separator(word: str) -> bool:
    """Return whether a mark of punctuation separates phrases: commas, brackets and the like, no hyphens or signs."""
    return (
        word in ("``", "''", "--") or word.upper() in ESCAPED_BRACKETS or (word != "" and SEPARATORS.issuperset(word))
    )


def has_space(word: str) -> bool:
    """Return whether a word holds white space of any kind, so that it cannot be a word of a line of text."""
    return _SPACE.search(word) is not None


def has_penn_tags(trees: Iterable[SpanTree]) -> bool:
    """Return whether at least half of the words that are not punctuation by their characters have a Penn word tag.

    Other tag sets share a few names with Penn's (SYM, NN, CD …), so that one such tag proves nothing.
    """
    words = penn = 0
    for tree in trees:
        for word, tag in zip(tree.words, tree.tags, strict=True):
            if not is_punctuation(word):
                words += 1
                penn += tag in PENN_WORD_TAGS
    return 2 * penn >= words


def with_word_tags(trees: Sequence[SpanTree], punctuation: str | None = None) -> list[SpanTree]:
    """Return the trees if their tags are Penn's, else with tags that tell words from punctuation.

    Punctuation is what has the tag `punctuation`, if one is given, and otherwise recognised by its characters.
    """
    if punctuation is not None:
        marks = [[tag == punctuation for tag in tree.tags] for tree in trees]
    elif has_penn_tags(trees):
        return list(trees)
    else:
        marks = [[is_punctuation(word) for word in tree.words] for tree in trees]
    return [
        SpanTree(tree.words, tuple(MARK_TAG if mark else "NN" for mark in of_tree), tree.spans)
        for tree, of_tree in zip(trees, marks, strict=True)
    ]
