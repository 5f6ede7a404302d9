"""Sentences as word ids in one array of 32-bit integers."""

from __future__ import annotations

import hashlib
from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import count
from typing import overload

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

# A whole text is gone through in blocks of so many sentences or ids.
BLOCK_SENTENCES, BLOCK_IDS = 1 << 16, 1 << 22


class EncodedText(Sequence[list[int]]):
    """A sequence of sentences, each a list of word ids when it is asked for.

    Sentence k has the ids `tokens[starts[k] : starts[k] + lengths[k]]`. A selection shares the array of ids.

        text = EncodedText.of([[5, 6, 7], [8]])
        text[0], text.lengths.tolist()   # [5, 6, 7], [3, 1]
    """

    __slots__ = ("lengths", "starts", "tokens")

    def __init__(self, tokens: NDArray[np.int32], starts: Ints, lengths: Ints) -> None:
        self.tokens, self.starts, self.lengths = tokens, starts, lengths

    @classmethod
    def of(cls, sentences: Iterable[Sequence[int]]) -> EncodedText:
        """Return the encoded text of sentences of word ids."""
        tokens, lengths = array("i"), array("q")
        for sentence in sentences:
            tokens.extend(sentence)
            lengths.append(len(sentence))
        sizes = np.array(lengths, dtype=np.int64)
        return cls(np.frombuffer(tokens, dtype=np.int32), np.cumsum(sizes) - sizes, sizes)

    def __len__(self) -> int:
        """Number of sentences."""
        return len(self.lengths)

    @overload
    def __getitem__(self, index: int) -> list[int]: ...

    @overload
    def __getitem__(self, index: slice) -> EncodedText: ...

    def __getitem__(self, index: int | slice) -> list[int] | EncodedText:
        """Return the ids of one sentence, or a text of some of them."""
        if isinstance(index, slice):
            return EncodedText(self.tokens, self.starts[index], self.lengths[index])
        start = self.starts[index]
        ids: list[int] = self.tokens[start : start + self.lengths[index]].tolist()
        return ids

    def select(self, indices: Ints | Sequence[int]) -> EncodedText:
        """Return the text of the sentences with these indices, in their order."""
        chosen = np.asarray(indices, dtype=np.int64)
        return EncodedText(self.tokens, self.starts[chosen], self.lengths[chosen])

    def blocks(self, sentences: int = BLOCK_SENTENCES) -> Iterator[EncodedText]:
        """Yield the text in parts of so many sentences; the last may be smaller."""
        return (self[start : start + sentences] for start in range(0, len(self), sentences))

    def flat(self) -> Ints:
        """Return the ids of all sentences one after the other, [tokens]."""
        before = np.cumsum(self.lengths) - self.lengths
        places = np.repeat(self.starts - before, self.lengths) + np.arange(self.lengths.sum())
        return self.tokens[places].astype(np.int64)

    def padded(self, value: int) -> Ints:
        """Return the ids of all sentences, [sentences, longest], with `value` after the end of each."""
        width = int(self.lengths.max(initial=0))
        columns = np.arange(width)
        inside = columns < self.lengths[:, None]
        places = np.where(inside, self.starts[:, None] + columns, 0)
        return np.where(inside, self.tokens[places] if inside.any() else value, value).astype(np.int64)

    def with_marks(self, marks: Ints | int, *, after: bool) -> Ints:
        """Return the ids of all sentences with a mark before or after each, [tokens + sentences].

        `marks` is one mark for all sentences, or one for each, [sentences].
        """
        ends = np.cumsum(self.lengths + 1)
        at_marks = np.zeros(int(ends[-1]) if len(ends) else 0, dtype=bool)
        at_marks[ends - 1 if after else ends - 1 - self.lengths] = True
        ids = np.empty(len(at_marks), dtype=np.int64)
        ids[at_marks] = marks
        ids[~at_marks] = self.flat()
        return ids

    def fingerprint(self) -> str:
        """Return the SHA-256 of the sentences' lengths and word ids, in order."""
        digest = hashlib.sha256()
        for block in self.blocks():
            digest.update(block.with_marks(block.lengths, after=False).data)
        return digest.hexdigest()

    def counts(self, size: int) -> Ints:
        """Return how often each of the ids 0 … size − 1 occurs, [size]."""
        counts = np.zeros(size, dtype=np.int64)
        for block in self.blocks():
            counts += np.bincount(block.flat(), minlength=size)
        return counts


class TextEncoder:
    """Reads sentences of words into encoded texts, in one pass; ids count words in the order in which they occur.

    Only the different words are held as strings. `finish` gives all words the ids of a vocabulary.
    """

    def __init__(self) -> None:
        self._ids: dict[str, int] = defaultdict(count().__next__)  # each new word gets the next number
        self._texts: list[EncodedText] = []

    @property
    def words(self) -> list[str]:
        """Return the words by their ids."""
        return list(self._ids)

    def read(self, sentences: Iterable[Sequence[str]]) -> EncodedText:
        """Return the text of sentences of words, some of which may be empty."""
        identify = self._ids.__getitem__
        text = EncodedText.of([identify(word) for word in sentence] for sentence in sentences)
        self._texts.append(text)
        return text

    def finish(self, ids: Sequence[int]) -> None:
        """Replace the id of each word by another, `ids[id]`, in all texts that were read, and in their selections."""
        mapping = np.asarray(ids, dtype=np.int32)
        for text in self._texts:
            for start in range(0, len(text.tokens), BLOCK_IDS):
                block = text.tokens[start : start + BLOCK_IDS]
                block[:] = mapping[block]
        self._texts.clear()


class DecodedText(Sequence[list[str]]):
    """The words of an encoded text, decoded when they are asked for."""

    def __init__(self, text: EncodedText, words: Sequence[str]) -> None:
        self._text, self._words = text, words

    def __len__(self) -> int:
        """Number of sentences."""
        return len(self._text)

    @overload
    def __getitem__(self, index: int) -> list[str]: ...

    @overload
    def __getitem__(self, index: slice) -> DecodedText: ...

    def __getitem__(self, index: int | slice) -> list[str] | DecodedText:
        """Return the words of one sentence, or a text of some of them."""
        if isinstance(index, slice):
            return DecodedText(self._text[index], self._words)
        return [self._words[number] for number in self._text[index]]


def sentence_lengths(sentences: Sequence[Sequence[object]]) -> list[int]:
    """Return the number of words of each sentence; an encoded text is not read for it."""
    if isinstance(sentences, EncodedText):
        lengths: list[int] = sentences.lengths.tolist()
        return lengths
    return [len(sentence) for sentence in sentences]
