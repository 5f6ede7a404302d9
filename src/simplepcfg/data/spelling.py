"""The spelling of words that are not in a vocabulary: a character n-gram model.

A grammar gives an unknown word the probability of `<unk>`, or of its class, which is that of all unknown words
together. Times the probability of its spelling among them, it is that of the one word that was written, so that
sentences with different unknown words can be compared.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path

import torch

from simplepcfg.data.vocabulary import SPECIAL_WORDS, Vocabulary
from simplepcfg.errors import InputError

ORDER = 4  # characters of the longest n-gram, the predicted one included
EDGE = "\n"  # stands before the first and after the last character; no word contains it
SEPARATOR = "\0"  # between stored n-grams; no word contains it
CODE_POINTS = 0x110000  # characters that Unicode can have: a character that was never seen is one of them
LEAST_TYPES = 100  # with fewer different words outside the vocabulary, words that were seen once are learned from too


class SpellingModel:
    """P(spelling) of a word, a product over its characters and its end, each given the three characters before it.

    Witten-Bell interpolation: a context h that was followed n(h) times by t(h) different characters has

        P(c | h) = (n(hc) + t(h) · P(c | h without its first character)) / (n(h) + t(h))

    and the empty context goes back to all of Unicode alike. The spellings of all words sum to 1.
    """

    def __init__(self, counts: Mapping[str, int], unknown_tokens: int | None = None) -> None:
        self._counts = dict(counts)
        # How many words of the training text, with repetitions, were unknown; None where that was not stored.
        self.unknown_tokens = unknown_tokens

    @cached_property
    def _contexts(self) -> dict[str, tuple[int, int]]:
        """For each context, how often a character followed it, and how many different ones did."""
        totals: Counter[str] = Counter()
        types: Counter[str] = Counter()
        for ngram, count in self._counts.items():
            totals[ngram[:-1]] += count
            types[ngram[:-1]] += 1
        return {context: (totals[context], types[context]) for context in totals}

    @classmethod
    def from_words(cls, words: Mapping[str, int], unknown_tokens: int | None = None) -> SpellingModel:
        """Learn from words and how often each occurs."""
        counts: Counter[str] = Counter()
        for word, count in words.items():
            padded = EDGE * (ORDER - 1) + word + EDGE
            for end in range(ORDER - 1, len(padded)):
                for start in range(end - ORDER + 1, end + 1):
                    counts[padded[start : end + 1]] += count
        return cls(counts, unknown_tokens)

    @classmethod
    def of_unknown_words(cls, counts: Mapping[str, int], vocabulary: Vocabulary) -> SpellingModel:
        """Learn from the words of a text that are not in its vocabulary.

        Where these are few, the words that occur once are the next best likeness of words that were never seen.
        """
        unknown = {word: count for word, count in counts.items() if word not in vocabulary}
        if len(unknown) < LEAST_TYPES:
            unknown |= {word: 1 for word, count in counts.items() if count == 1 and word not in SPECIAL_WORDS}
        return cls.from_words(unknown, sum(count for word, count in counts.items() if not vocabulary.knows(word)))

    def log_probability(self, word: str) -> float:
        """Return the natural log-probability of a word's spelling.

        >>> model = SpellingModel.from_words({"cats": 2, "hats": 1})
        >>> round(math.exp(model.log_probability("cats")), 2), model.log_probability("xyz") < -15
        (0.47, True)
        """
        padded = EDGE * (ORDER - 1) + word + EDGE
        return sum(
            math.log(self._probability(padded[end - ORDER + 1 : end], padded[end]))
            for end in range(ORDER - 1, len(padded))
        )

    def _probability(self, context: str, character: str) -> float:
        """Return P(character | context)."""
        shorter = self._probability(context[1:], character) if context else 1 / CODE_POINTS
        if context not in self._contexts:
            return shorter
        total, types = self._contexts[context]
        return (self._counts.get(context + character, 0) + types * shorter) / (total + types)

    def to_tensors(self) -> dict[str, torch.Tensor]:
        """Return the counts as tensors, which `from_tensors` reads."""
        ngrams = sorted(self._counts)
        text = SEPARATOR.join(ngrams).encode()
        return {
            "ngrams": torch.frombuffer(bytearray(text or b"\0"), dtype=torch.uint8),
            "counts": torch.tensor([self._counts[ngram] for ngram in ngrams], dtype=torch.int32),
            "unknown_tokens": torch.tensor(-1 if self.unknown_tokens is None else self.unknown_tokens),
        }

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, torch.Tensor], path: Path) -> SpellingModel:
        """Read what `to_tensors` wrote; InputError, which names the file, if it is something else."""
        try:
            counts = tensors["counts"].tolist()
            ngrams = tensors["ngrams"].numpy().tobytes().decode().split(SEPARATOR) if counts else []
            if len(ngrams) != len(counts):
                raise ValueError(f"{len(ngrams)} n-grams and {len(counts)} counts")
        except (KeyError, ValueError) as error:
            raise InputError(f"{path}: no spellings of unknown words ({error}); train the run again") from None
        tokens = int(tensors.get("unknown_tokens", torch.tensor(-1)))
        return cls(dict(zip(ngrams, counts, strict=True)), None if tokens < 0 else tokens)


def spelling_log_probability(spelling: SpellingModel | None, vocabulary: Vocabulary, token: str) -> float:
    """Return the log-probability (nats) of a token's spelling: 0 for known words, and without a spelling model."""
    return 0.0 if spelling is None or token in vocabulary else spelling.log_probability(token)
