"""The spelling of words that are not in a vocabulary: how often each was seen, and below that a character n-gram model.

A grammar gives an unknown word the probability of its class, or of `<unk>`, which is that of all words of the class
together. Times the probability of its spelling among these, it is that of the one word that was written, so that
sentences with different unknown words can be compared.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path

import torch

from simplepcfg.data.character_ngrams import EDGE, ORDER, CharacterNgrams
from simplepcfg.data.unknown_classes import is_capitalised_class
from simplepcfg.data.vocabulary import SPECIAL_WORDS, Vocabulary
from simplepcfg.errors import InputError

CODE_POINTS = 0x110000  # characters that Unicode can have: a character that was never seen is one of them
LEAST_TYPES = 100  # with fewer different words outside the vocabulary, words that were seen once are learned from too


class SpellingModel:
    """P(spelling | class) of unknown words, by Witten-Bell interpolation of words and, below them, of their characters.

    Let a class c have n(c) words of the training text, with repetitions, and t(c) different ones. Then

        P(w | c)     =  (n(w) + t(c) · Q(w | c)) / (n(c) + t(c))
        Q(w | c)     =  Π Q(character | the four after it, c), from the last character to the first, the edge included
        Q(x | h, c)  =  (n(hx, c) + t(h, c) · Q(x | h)) / (n(h, c) + t(h, c))
        Q(x | h)     =  (n(hx) + t(h) · Q(x | h without its farthest character)) / (n(h) + t(h))

    where n(h, c) is how often a context h stands in the list of different words of the class and t(h, c) how many
    different characters follow it, and n(h) and t(h) are those of all classes. The empty context goes back to all of
    Unicode alike. So the P(w | c) of all strings sum to 1 for every c, and those of the words of the class to less.
    Words are read from their end, which decides most classes; words of a capitalised class are read without their first
    capital.
    """

    def __init__(self, counts: Mapping[str, int], vocabulary: Vocabulary, unknown_tokens: int | None = None) -> None:
        """Take unknown words with how often each was seen; known ones, which lend their letters alone, have 0.

        `unknown_tokens` is how many words of the training text were unknown, if these are not all listed.
        """
        self._counts, self._vocabulary = dict(counts), vocabulary
        self._classes: dict[int, tuple[CharacterNgrams, int, int]] = {}  # those that were asked for
        self.unknown_tokens = sum(self._counts.values()) if unknown_tokens is None else unknown_tokens

    @classmethod
    def of_unknown_words(cls, counts: Mapping[str, int], vocabulary: Vocabulary) -> SpellingModel:
        """Learn from the words of a text that are not in its vocabulary.

        Where these are few, the words that occur once are the next best likeness of words that were never seen.
        """
        unknown = {word: count for word, count in counts.items() if word not in vocabulary}
        if len(unknown) < LEAST_TYPES:
            rare = (word for word, count in counts.items() if count == 1 and word not in SPECIAL_WORDS)
            unknown = dict.fromkeys(rare, 0) | unknown
        all_unknown = sum(count for word, count in counts.items() if not vocabulary.knows(word))
        return cls(unknown, vocabulary, all_unknown)

    def log_probability(self, word: str) -> float:
        """Return the natural log-probability of an unknown word's spelling among the words of its class.

        >>> model = SpellingModel({"cats": 2, "hats": 1}, Vocabulary(["<pad>", "<unk>"]))
        >>> round(math.exp(model.log_probability("cats")), 2), model.log_probability("xyz") < -15
        (0.52, True)
        """
        (class_id,) = self._vocabulary.encode([word])
        letters = self.log_probability_of_letters(word, class_id)
        _, tokens, types = self._class(class_id)
        if not types:
            return letters
        seen, log_unseen = self._counts.get(word, 0), math.log(types) + letters
        log_sum = log_unseen if not seen else math.log(seen) + math.log1p(math.exp(log_unseen - math.log(seen)))
        return log_sum - math.log(tokens + types)

    def log_probability_of_letters(self, word: str, class_id: int) -> float:
        """Return the natural log-probability of a word's characters and its edge, as those of an unseen word."""
        (letters,) = self._read_from_end([word], class_id)
        padded = EDGE * (ORDER - 1) + letters + EDGE
        return sum(
            math.log(self.character_probability(padded[end], padded[end - ORDER + 1 : end], class_id))
            for end in range(ORDER - 1, len(padded))
        )

    def character_probability(self, character: str, context: str, class_id: int) -> float:
        """Return Q(character | context, class), the context being the characters after it, the nearest one last."""
        shared = self._ngrams.probability(character, context, 1 / CODE_POINTS)
        return self._class(class_id)[0].probability(character, context, shared, shortest=ORDER - 1)

    def _read_from_end(self, words: Iterable[str], class_id: int) -> Iterator[str]:
        """Yield words from their last character to their first, without the capital that their class tells of.

        Words of a class stay different: a letter loses its capital only where the lower-case one has no other.
        """
        is_capitalised = is_capitalised_class(self._vocabulary.words[class_id])
        for word in words:
            if is_capitalised and (first := word[:1].lower()).upper() == word[:1]:
                yield word[:0:-1] + first
            else:
                yield word[::-1]

    @cached_property
    def _words_by_class(self) -> dict[int, list[str]]:
        words: dict[int, list[str]] = {}
        for class_id, word in zip(self._vocabulary.encode(self._counts), self._counts, strict=True):
            words.setdefault(class_id, []).append(word)
        return words

    @cached_property
    def _ngrams(self) -> CharacterNgrams:
        """The n-grams of all words, counted when first needed."""
        return CharacterNgrams(
            word for class_id, words in self._words_by_class.items() for word in self._read_from_end(words, class_id)
        )

    def _class(self, class_id: int) -> tuple[CharacterNgrams, int, int]:
        """Return the n-grams of a class, n(c) and t(c)."""
        if class_id not in self._classes:
            words = self._words_by_class.get(class_id, [])
            counts = [self._counts[word] for word in words if self._counts[word]]
            ngrams = CharacterNgrams(self._read_from_end(words, class_id))
            self._classes[class_id] = ngrams, sum(counts), len(counts)
        return self._classes[class_id]

    def to_tensors(self) -> dict[str, torch.Tensor]:
        """Return words and counts as tensors, which `from_tensors` reads."""
        words = sorted(self._counts)
        return {
            "words": torch.frombuffer(bytearray(EDGE.join(words).encode() or b"\0"), dtype=torch.uint8),
            "counts": torch.tensor([self._counts[word] for word in words], dtype=torch.int32),
            "unknown_tokens": torch.tensor(self.unknown_tokens),
        }

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, torch.Tensor], vocabulary: Vocabulary, path: Path) -> SpellingModel:
        """Read what `to_tensors` wrote; InputError, which names the file, if it is something else."""
        try:
            counts = tensors["counts"].tolist()
            words = tensors["words"].numpy().tobytes().decode().split(EDGE) if counts else []
            return cls(dict(zip(words, counts, strict=True)), vocabulary, int(tensors["unknown_tokens"]))
        except (KeyError, ValueError) as error:
            raise InputError(f"{path}: no spellings of unknown words ({error}); train the run again") from None


def spelling_log_probability(spelling: SpellingModel | None, vocabulary: Vocabulary, token: str) -> float:
    """Return the log-probability (nats) of a token's spelling among words of its class: 0 for known words, and without
    a spelling model."""
    if spelling is None or token in vocabulary:
        return 0.0
    return spelling.log_probability(token)
