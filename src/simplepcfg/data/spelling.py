"""The spelling of words that are not in a vocabulary: how often each was seen, and below that a character n-gram model.

A grammar gives an unknown word the probability of its class, or of `<unk>`, which is that of all words of the class
together. Times the probability of its spelling among these, it is that of the one word that was written, so that
sentences with different unknown words can be compared.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path

import torch

from simplepcfg.data.vocabulary import SPECIAL_WORDS, UNK_ID, Vocabulary
from simplepcfg.errors import InputError

ORDER = 4  # characters of the longest n-gram, the predicted one included
EDGE = "\n"  # stands before the first and after the last character, and between stored words; no word contains it
CODE_POINTS = 0x110000  # characters that Unicode can have: a character that was never seen is one of them
LEAST_TYPES = 100  # with fewer different words outside the vocabulary, words that were seen once are learned from too


class SpellingModel:
    """P(spelling | class) of unknown words, by Witten-Bell interpolation of words and, below them, of their characters.

    Let a class c have n(c) words of the training text, with repetitions, and t(c) different ones, of t in all. Then

        P(w | c)  =  (n(w) + t(c) · P(w) / S(c)) / (n(c) + t(c))             with S(c) = t(c) / t
        P(w)      =  Π P(character | the three before it), its end included
        P(x | h)  =  (n(hx) + t(h) · P(x | h without its first character)) / (n(h) + t(h))

    where n(h) is how often a context h stands in the list of different words and t(h) how many different characters
    follow it. The empty context goes back to all of Unicode alike, so that the P(w) of all strings sum to 1; S(c), the
    share of the class in the different words, stands for its share in that sum.
    """

    def __init__(
        self,
        counts: Mapping[str, int],
        classes: Mapping[int, tuple[int, int]] | None = None,
        unknown_tokens: int | None = None,
    ) -> None:
        """Take unknown words with how often each was seen; known ones, which lend their letters alone, have 0.

        `classes` are n(c) and t(c) by the id that a class has in the vocabulary; if there is none, `<unk>` is the only
        one. `unknown_tokens` is how many words of the training text were unknown, if these are not all listed.
        """
        self._counts = dict(counts)
        seen = [count for count in self._counts.values() if count]
        self._classes = dict(classes) if classes is not None else {UNK_ID: (sum(seen), len(seen))}
        self._types = sum(types for _, types in self._classes.values())
        self.unknown_tokens = sum(seen) if unknown_tokens is None else unknown_tokens

    @classmethod
    def of_unknown_words(cls, counts: Mapping[str, int], vocabulary: Vocabulary) -> SpellingModel:
        """Learn from the words of a text that are not in its vocabulary.

        Where these are few, the words that occur once are the next best likeness of words that were never seen.
        """
        unknown = {word: count for word, count in counts.items() if word not in vocabulary}
        tokens, types = Counter[int](), Counter[int]()
        for name, count in zip(vocabulary.encode(unknown), unknown.values(), strict=True):
            tokens[name] += count
            types[name] += 1
        if len(unknown) < LEAST_TYPES:
            rare = (word for word, count in counts.items() if count == 1 and word not in SPECIAL_WORDS)
            unknown = dict.fromkeys(rare, 0) | unknown
        all_unknown = sum(count for word, count in counts.items() if not vocabulary.knows(word))
        return cls(unknown, {name: (tokens[name], types[name]) for name in types}, all_unknown)

    def log_probability(self, word: str, class_id: int = UNK_ID) -> float:
        """Return the natural log-probability of a word's spelling among the words of its class.

        >>> model = SpellingModel({"cats": 2, "hats": 1})
        >>> round(math.exp(model.log_probability("cats")), 2), model.log_probability("xyz") < -15
        (0.54, True)
        """
        tokens, types = self._classes.get(class_id, (0, 0))
        letters = self.log_probability_of_letters(word)
        if not types:
            return letters
        seen, log_share = self._counts.get(word, 0), math.log(types / self._types)
        log_unseen = math.log(types) + min(letters - log_share, 0.0)  # a share is an estimate, and may be too small
        log_sum = log_unseen if not seen else math.log(seen) + math.log1p(math.exp(log_unseen - math.log(seen)))
        return log_sum - math.log(tokens + types)

    def log_probability_of_letters(self, word: str) -> float:
        """Return the natural log-probability of a string of characters and its end, whether it is a word or not."""
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
        return (self._ngrams.get(context + character, 0) + types * shorter) / (total + types)

    @cached_property
    def _ngrams(self) -> Counter[str]:
        """How often each n-gram of up to ORDER characters stands in the list of words: counted when first needed."""
        padded = (EDGE * (ORDER - 1) + word + EDGE for word in self._counts)
        longest = Counter(text[end - ORDER : end] for text in padded for end in range(ORDER, len(text) + 1))
        ngrams = longest.copy()
        for ngram, count in longest.items():
            for start in range(1, ORDER):
                ngrams[ngram[start:]] += count
        return ngrams

    @cached_property
    def _contexts(self) -> dict[str, tuple[int, int]]:
        """For each context, how often a character followed it, and how many different ones did."""
        totals: Counter[str] = Counter()
        types: Counter[str] = Counter()
        for ngram, count in self._ngrams.items():
            totals[ngram[:-1]] += count
            types[ngram[:-1]] += 1
        return {context: (totals[context], types[context]) for context in totals}

    def to_tensors(self) -> dict[str, torch.Tensor]:
        """Return words and counts as tensors, which `from_tensors` reads."""
        words = sorted(self._counts)
        classes = [[name, *self._classes[name]] for name in sorted(self._classes)]
        return {
            "words": torch.frombuffer(bytearray(EDGE.join(words).encode() or b"\0"), dtype=torch.uint8),
            "counts": torch.tensor([self._counts[word] for word in words], dtype=torch.int32),
            "classes": torch.tensor(classes, dtype=torch.int64).reshape(-1, 3),
            "unknown_tokens": torch.tensor(self.unknown_tokens),
        }

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, torch.Tensor], path: Path) -> SpellingModel:
        """Read what `to_tensors` wrote; InputError, which names the file, if it is something else."""
        try:
            counts = tensors["counts"].tolist()
            words = tensors["words"].numpy().tobytes().decode().split(EDGE) if counts else []
            classes = {name: (tokens, types) for name, tokens, types in tensors["classes"].tolist()}
            return cls(dict(zip(words, counts, strict=True)), classes, int(tensors["unknown_tokens"]))
        except (KeyError, ValueError) as error:
            raise InputError(f"{path}: no spellings of unknown words ({error}); train the run again") from None


def spelling_log_probability(spelling: SpellingModel | None, vocabulary: Vocabulary, token: str) -> float:
    """Return the log-probability (nats) of a token's spelling among words of its class: 0 for known words, and without
    a spelling model."""
    if spelling is None or token in vocabulary:
        return 0.0
    return spelling.log_probability(token, *vocabulary.encode([token]))
