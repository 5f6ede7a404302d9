"""What a test asks of a language model: scores of sentences, surprisals of words, and which words it knows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from simplepcfg.data.preprocessing import Preprocessing
from simplepcfg.data.raw_text import plain_apostrophes, tokenize
from simplepcfg.data.vocabulary import Vocabulary

END = "<end>"
Words = Sequence[str]


@dataclass(frozen=True, slots=True)
class WordSurprisal:
    """One word of a sentence, or its end; in nats. None where the model does not look at the word: punctuation."""

    word: str
    token: str | None  # as the model sees it: prepared, and `<unk>` where the vocabulary does not have it
    surprisal: float | None  # −log P(token | the tokens before it)
    entropy: float | None  # of what could have stood here: any word, or the end


class WordModel(Protocol):
    """A run, or an n-gram model: anything that gives the words of a sentence probabilities from left to right."""

    @property
    def name(self) -> str:
        """What tables call it."""

    @property
    def vocabulary(self) -> Vocabulary:
        """The words that it knows."""

    @property
    def preprocessing(self) -> Preprocessing:
        """What happens to words before the model sees them."""

    def score(self, sentences: Sequence[Words], /) -> list[float]:
        """log p (nats) of each sentence, its end included."""

    def surprisal(self, sentences: Sequence[Words], /) -> Sequence[Sequence[WordSurprisal]]:
        """For each sentence a record a word, then for an `<eos>` that was added, then for its end."""


def words_of_item(text: str) -> list[str]:
    """The words of one sentence as people write it, by Penn's conventions, with the apostrophe of a typewriter."""
    return [plain_apostrophes(token) for token in tokenize(text)]


def has_unknown(model: WordModel, words: Words) -> bool:
    """Whether the model sees a word of a sentence as unknown."""
    return not all(map(model.vocabulary.knows, model.preprocessing.apply(words).tokens))
