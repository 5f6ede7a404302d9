"""Preparation of one tree: which words stay, and how words and labels are written."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from simplepcfg.data.preprocessing import PENN_WORD_TAGS, Preprocessing, has_space, is_punctuation, spans_over
from simplepcfg.data.trees import EMPTY_CONSTITUENTS, TRACES, SpanTree, escape_brackets, remove_wrappers
from simplepcfg.errors import InputError

PENN = "penn"  # in a list of tags: the 36 word tags
CHINESE_PUNCTUATION = ("PU",)
# Every conversion to bracketed files spells the tag of round brackets, $( in STTS, in its own way.
GERMAN_PUNCTUATION = ("$,", "$.", "$(", "$[", "$LRB", "$*LRB*", "$")
FRENCH_PUNCTUATION = ("PONCT", "PUNC")

# Traces that a conversion left without the tag -NONE-, such as *T*-1, *T1*-SB and *ICH*-2.
_TRACE_WORD = re.compile(r"\*(?:T\d*|ICH|RNR|EXP|PPA|PRO|pro|OP)\*(?:-\S+)?")
_FEATURES = "##"  # SPMRL writes (NC##number=s|gender=f## word)
SPACES, FOREIGN, KEPT_WORDS = "white space inside words, now _", "words with other tags", "words"
WRAPPERS = "wrappers without label"


@dataclass(frozen=True, kw_only=True)
class Conventions:
    """The switches of preparation; the defaults are those of unsupervised parsing on the Penn Treebank.

    `punctuation` says how punctuation is recognised: by `keep_tags` or `drop_tags`, by characters (no letter, no
    digit), or not at all.
    """

    punctuation: Literal["tags", "characters", "keep"] = "tags"
    keep_tags: tuple[str, ...] = (PENN,)
    drop_tags: tuple[str, ...] = ()
    lowercase: bool = True
    numbers: Literal["keep", "N"] = "N"
    vocabulary_size: int = 10_000
    min_count: int = 0

    def __post_init__(self) -> None:
        if self.punctuation == "tags" and bool(self.keep_tags) == bool(self.drop_tags):
            raise InputError("tags tell words from punctuation by a list that stays or a list that goes; give one")

    @cached_property
    def words_only(self) -> Preprocessing:
        """Return the preprocessing of case and numbers alone, by the rules that runs apply."""
        return Preprocessing(lowercase=self.lowercase, numbers=self.numbers, punctuation="keep")

    @cached_property
    def listed_tags(self) -> frozenset[str]:
        """Return the tags whose leaves stay or, if there are none, go; `penn` stands for the 36 word tags."""
        tags = self.keep_tags or self.drop_tags
        return frozenset().union(*(PENN_WORD_TAGS if tag == PENN else {tag} for tag in tags))

    def keeps(self, word: str, tag: str) -> bool:
        """Return whether a leaf with this word and tag is kept as a word."""
        if self.punctuation == "keep":
            return True
        if self.punctuation == "characters":
            return not is_punctuation(word)
        return (tag in self.listed_tags) == bool(self.keep_tags)


@dataclass(slots=True)
class Losses:
    """Counts of what was left out: by reason, and of leaves by their tag."""

    reasons: Counter[str] = field(default_factory=Counter)
    tags: Counter[str] = field(default_factory=Counter)


def prepare_tree(tree: SpanTree, conventions: Conventions, losses: Losses) -> SpanTree:
    """Return the tree as it is written to a prepared file, and count what is left out; it may be empty."""
    kept: list[int] = []
    tags: list[str] = []
    reasons = losses.reasons
    for index, (word, full_tag) in enumerate(zip(tree.words, tree.tags, strict=True)):
        tag = plain_label(full_tag).split("|", 1)[0] or full_tag  # of alternatives (VBG|NN) the first
        if word[0] == "*" and _TRACE_WORD.fullmatch(word):
            reasons[TRACES] += 1
        elif conventions.keeps(word, tag):
            kept.append(index)
            tags.append(tag)
        else:
            losses.tags[tag] += 1
            reasons[FOREIGN] += not is_punctuation(word)
    reasons[KEPT_WORDS] += len(kept)
    spans = spans_over(kept, tree.spans)
    reasons[EMPTY_CONSTITUENTS] += len(tree.spans) - len(spans)
    words = prepare_words([tree.words[index] for index in kept], conventions, losses)
    if wrappers := remove_wrappers(spans, len(kept)):
        reasons[WRAPPERS] += wrappers
    return SpanTree(tuple(words), tuple(tags), tuple((i, j, plain_label(label)) for i, j, label in spans))


def prepare_words(words: Sequence[str], conventions: Conventions, losses: Losses) -> list[str]:
    """Return words in a form that is the same in a line of text and in brackets; count those that held white space."""
    tokens = conventions.words_only.apply(words).tokens
    for index, token in enumerate(tokens):
        if not token.isalnum():  # what follows concerns few words, and this is quick
            tokens[index] = escape_brackets(token)
            losses.reasons[SPACES] += has_space(words[index])
    return tokens


def plain_label(label: str) -> str:
    """Return a label without morphology, function tags and indices: NP-SBJ=2 is NP."""
    if label.isalpha():
        return label
    start = label.find(_FEATURES, 1)
    if start > 0:
        label = label[:start]
    if label.startswith("-"):
        return label
    cut = [place for sign in "-=" if (place := label.find(sign, 1)) > 0]
    return label[: min(cut)] if cut else label
