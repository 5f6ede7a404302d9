"""The interface of a language model in tests: scores of sentences, surprisals of words, and which words it knows."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from simplepcfg.data.penn_words import plain_apostrophes, tokenize
from simplepcfg.data.preprocessing import Prepared, Preprocessing
from simplepcfg.data.vocabulary import EOS, Vocabulary

END = "<end>"
BRACKETS = {"(": "-LRB-", ")": "-RRB-", "[": "-LSB-", "]": "-RSB-", "{": "-LCB-", "}": "-RCB-"}
# Marks that texts write in one of several ways.
_GROUPS = (*BRACKETS.items(), ("—", "--", "–"), ("...", "…"))
_ALIKE = {mark: marks for marks in _GROUPS for mark in marks}
STRAIGHT_MARK = '"'
QUOTATION_BEGINS, QUOTATION_ENDS = ("``", "“", STRAIGHT_MARK), ("''", "”", STRAIGHT_MARK)
_MARKS = {*_ALIKE, *QUOTATION_BEGINS, *QUOTATION_ENDS}
Words = Sequence[str]
# What tables have of a word or a region: fields of its record, with the unit behind the name.
INFORMATION = ("surprisal", "entropy", "syntactic_surprisal", "lexical_surprisal", "entropy_reduction")
ENTROPIES = frozenset(["entropy", "entropy_reduction"])  # those that are computed only where they are asked for


@dataclass(frozen=True, slots=True)
class WordSurprisal:
    """One word of a sentence, or its end; in nats. None where the model does not look at the word: punctuation."""

    word: str
    token: str | None  # as the model sees it: prepared, and `<unk>` where the vocabulary does not have it
    surprisal: float | None  # −log P(token | the tokens before it)
    entropy: float | None  # where it was asked for: of what could have stood here, any word or the end
    syntactic_surprisal: float | None = None  # how far the word changes what is known of its preterminal
    lexical_surprisal: float | None = None  # the rest: the choice of the word; None for a model without preterminals
    entropy_reduction: float | None = None  # by how much the entropy falls through the word, or 0


class WordReader(Protocol):
    """Anything that reads sentences by a vocabulary."""

    @property
    def vocabulary(self) -> Vocabulary:
        """The words that it knows."""

    @property
    def preprocessing(self) -> Preprocessing:
        """What happens to words before the model sees them."""


class WordModel(WordReader, Protocol):
    """A run or an n-gram model: anything that gives the words of a sentence probabilities from left to right."""

    @property
    def name(self) -> str:
        """What tables call it."""

    def score(self, sentences: Sequence[Words], /) -> list[float]:
        """Return log p (nats) of each sentence, its end included."""

    def surprisal(
        self, sentences: Sequence[Words], /, *, ends: bool = True, entropies: bool = False
    ) -> Sequence[Sequence[WordSurprisal]]:
        """Return, for each sentence, a record a word, then one for an `<eos>` that was added, then one for its end.

        With `ends=False` the records after the words may be left out. Entropies are None unless
        they are asked for.
        """


def word_records(
    prepared: Prepared,
    vocabulary: Vocabulary,
    values: Sequence[tuple[float, float | None, float | None, float | None]],
    log_spelling: Callable[[str], float],
) -> list[WordSurprisal]:
    """Make the records of a sentence from the values of each prepared token and, if they are there, of the end.

    These are surprisal, entropy and the two parts of surprisal. The surprisal of an unknown word and its lexical part
    include that of the spelling. A sentence of which preprocessing leaves nothing has no end.
    """
    scored = []
    for token, (surprisal, entropy, syntactic, lexical) in zip(prepared.tokens, values, strict=False):
        spelling = -log_spelling(token)
        lexical = None if lexical is None else lexical + spelling
        scored.append((vocabulary.listed(token), surprisal + spelling, entropy, syntactic, lexical))
    records = [WordSurprisal(word, None, None, None) for word in prepared.words]
    for place, score in zip(prepared.kept, scored, strict=False):
        records[place] = WordSurprisal(prepared.words[place], *score)
    records += [WordSurprisal(EOS, *score) for score in scored[len(prepared.kept) :]]
    if len(values) > len(prepared.tokens) > 0:
        records.append(WordSurprisal(END, END, *values[-1]))
    reductions = entropy_reductions([record.entropy for record in records])
    return [replace(record, entropy_reduction=value) for record, value in zip(records, reductions, strict=True)]


def entropy_reductions(entropies: Sequence[float | None]) -> list[float | None]:
    """Return how far entropy falls from each to the next one that is not None, or 0; None where one is missing."""
    reductions: list[float | None] = []
    after: float | None = None
    for entropy in reversed(entropies):
        reductions.append(None if entropy is None or after is None else max(0.0, entropy - after))
        after = after if entropy is None else entropy
    return reductions[::-1]


def words_of_item(text: str) -> list[str]:
    """Split a sentence as people write it into words, by Penn's conventions, with the apostrophe of a typewriter."""
    return [plain_apostrophes(token) for token in tokenize(text)]


def with_known_marks(model: WordReader, words: Words) -> list[str]:
    """Write brackets, quotation marks, dashes and dots as the model's text mostly has them, such as `-LRB-` for `(`.

    That is the spelling with the lowest id, as vocabularies begin with frequent words. Every
    second straight quotation mark of a sentence ends a quotation.
    """
    if _MARKS.isdisjoint(words):
        return list(words)

    def rank(word: str) -> float:
        tokens = model.preprocessing.apply([word]).tokens
        if not tokens:  # a word that the model does not look at may stay
            return -1
        return model.vocabulary.encode(tokens)[0] if tokens[0] in model.vocabulary else math.inf

    known, straight = [], 0
    for word in words:
        spellings = _ALIKE.get(word, ())
        if word in QUOTATION_BEGINS + QUOTATION_ENDS:
            begins = straight % 2 == 0 if word == STRAIGHT_MARK else word in QUOTATION_BEGINS
            straight += word == STRAIGHT_MARK
            both = (QUOTATION_BEGINS, QUOTATION_ENDS) if begins else (QUOTATION_ENDS, QUOTATION_BEGINS)
            spellings = next((marks for marks in both if min(map(rank, marks)) < math.inf), ())
        known.append(min((word, *spellings), key=rank) if spellings else word)
    return known


def has_unknown(model: WordReader, words: Words) -> bool:
    """Tell whether the model sees a word of a sentence as unknown."""
    return not all(map(model.vocabulary.knows, model.preprocessing.apply(words).tokens))
