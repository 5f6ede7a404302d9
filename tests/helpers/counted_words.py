"""Vocabularies of a few sentences."""

from collections import Counter
from collections.abc import Iterable
from itertools import chain

from simplepcfg.data.vocabulary import Vocabulary


def vocabulary_of(sentences: Iterable[Iterable[str]], size: int | None = None, min_count: int = 1) -> Vocabulary:
    """Return the vocabulary of prepared sentences; see `Vocabulary.from_counts`."""
    return Vocabulary.from_counts(Counter(chain.from_iterable(sentences)), size, min_count)
