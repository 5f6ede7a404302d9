"""N-gram models as sorted arrays: log-probabilities of words after the words before them, as a control for grammars."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from simplepcfg.data.encoded_text import EncodedText
from simplepcfg.data.preprocessing import Preprocessing
from simplepcfg.data.spelling import SpellingModel, spelling_log_probability
from simplepcfg.data.vocabulary import PAD_ID, Vocabulary
from simplepcfg.errors import InputError
from simplepcfg.linguistics.word_model import Words, WordSurprisal, word_records

Ngram = tuple[int, ...]
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
START, STOP = -1, -2  # ids of the start, which is never predicted, and of the end of a sentence
NONE = -1  # in place of the index of an n-gram that the model does not have
SENTENCES_AT_ONCE = 1 << 14


@dataclass(frozen=True, slots=True)
class Level:
    """The n-grams of one length, sorted by their keys; the place of an n-gram is its index.

    A word's code is its id in the vocabulary; the end of a sentence has the code of padding, its start the size of the
    vocabulary. The key of an n-gram is i · (size of the vocabulary + 1) + code of its last word, where i is the index
    of the words before it in the level below, and 0 for single words, of which all are there.
    """

    keys: Ints
    log_probabilities: Floats  # log p(last word | the words before it)
    log_backoffs: Floats  # log γ of the n-gram as a context; 0 where nothing follows it

    def find(self, keys: Ints) -> Ints:
        """Return the index of each key, or NONE, as for all keys below 0."""
        if not len(self.keys):
            return np.full_like(keys, NONE)
        places = np.searchsorted(self.keys, keys)
        places[places == len(self.keys)] = 0
        return np.where(self.keys[places] == keys, places, NONE)

    def __len__(self) -> int:
        """Number of n-grams."""
        return len(self.keys)


class NgramModel:
    """log p of n-grams and back-off weights; answers `score` and `surprisal` as a run does.

    `levels[k]` has log p(w | h) of every (k + 1)-gram h w that occurred, and of every single word, and the log of the
    back-off weight γ of every context. Other n-grams have γ(h) p(w | h without its first word).
    """

    def __init__(
        self,
        levels: Sequence[Level],
        vocabulary: Vocabulary,
        preprocessing: Preprocessing,
        name: str = "n-gram",
        spelling: SpellingModel | None = None,
    ) -> None:
        self.levels = list(levels)
        self.vocabulary = vocabulary
        self.of_training = preprocessing.model_copy(update={"eos": False})  # the model has its own end
        self.preprocessing = self.of_training.completed(vocabulary.words)
        self.name = name
        self.spelling = spelling
        self._log_spelling = partial(spelling_log_probability, spelling, vocabulary)
        self._entropy = lru_cache(maxsize=100_000)(self._entropy_after)

    @property
    def order(self) -> int:
        """The length of the longest n-grams."""
        return len(self.levels)

    def next_words(self, context: Ngram) -> Floats:
        """Return the probabilities of all words by id and, at the id of padding, of the end; they sum to 1."""
        size = len(self.vocabulary)
        probabilities = np.exp(self.levels[0].log_probabilities[:size])
        line = self._codes(self._known(context))
        if not len(line):
            return probabilities
        steps = islice(self._line_indices(line, np.arange(len(line))), self.order - 1)
        for indices, level, longer in zip(steps, self.levels[:-1], self.levels[1:], strict=False):
            index = indices[-1]
            if index == NONE:
                break
            probabilities *= np.exp(level.log_backoffs[index])
            first = index * (size + 1)
            some = slice(*np.searchsorted(longer.keys, (first, first + size + 1)))
            probabilities[longer.keys[some] - first] = np.exp(longer.log_probabilities[some])
        return probabilities

    def score(self, sentences: Sequence[Words]) -> list[float]:
        """Return log p (nats) of each sentence, its end and the spellings of unknown words included."""
        tokens = [self.preprocessing.apply(words).tokens for words in sentences]
        return [
            log_p + sum(map(self._log_spelling, sentence))
            for log_p, sentence in zip(self.token_log_probabilities(tokens), tokens, strict=True)
        ]

    def token_log_probabilities(self, sentences: Sequence[Words]) -> list[float]:
        """Return log p (nats) of each sentence of prepared tokens, its end included, and without spellings."""
        return [float(values.sum()) for values in self._values(sentences)]

    def surprisal(
        self, sentences: Sequence[Words], *, ends: bool = True, entropies: bool = False
    ) -> list[list[WordSurprisal]]:
        """Return a record for every word and, with `ends`, one for the end of each sentence; see ``Run.surprisal``."""
        prepared = [self.preprocessing.apply(words) for words in sentences]
        log_probabilities = self._values([item.tokens for item in prepared])
        records = []
        for item, values in zip(prepared, log_probabilities, strict=True):
            expected: list[float | None] = [None] * len(values)
            if entropies:
                line = (START, *self.vocabulary.encode(item.tokens))
                expected = [self._entropy(self._known(line[: place + 1])) for place in range(len(line))]
            rows = [(-log_p, entropy, None, None) for log_p, entropy in zip(values.tolist(), expected, strict=True)]
            records.append(word_records(item, self.vocabulary, rows, self._log_spelling))
        return records

    def _values(self, sentences: Sequence[Words]) -> Iterator[Floats]:
        """Yield log p of the words of each sentence and of its end."""
        for first in range(0, len(sentences), SENTENCES_AT_ONCE):
            text = EncodedText.of(map(self.vocabulary.encode, sentences[first : first + SENTENCES_AT_ONCE]))
            codes, depths = lines_of(text, len(self.vocabulary))
            values = self._line_values(codes, depths)[depths > 0]
            yield from np.split(values, np.cumsum(text.lengths + 1)[:-1])

    def _known(self, context: Ngram) -> Ngram:
        """Return the last words of a context, as many as the model looks at."""
        return context[max(len(context) - self.order + 1, 0) :]

    def _codes(self, ids: Sequence[int]) -> Ints:
        """Return the codes of ids, of START and of STOP (see ``Level``). Raises InputError for any other number."""
        size = len(self.vocabulary)
        marks = {START: size, STOP: PAD_ID}
        for number in ids:
            if number not in marks and not PAD_ID < number < size:
                raise InputError(f"{self.name}: {number} is not the id of a word; take 1 to {size - 1}, START or STOP")
        return np.array([marks.get(number, number) for number in ids], dtype=np.int64)

    def _line_values(self, codes: Ints, depths: Ints) -> Floats:
        """Return log p of every word of lines of codes, of which the start of a sentence has none."""
        levels, indices = self.levels, self._line_indices(codes, depths)
        before = next(indices)
        values = levels[0].log_probabilities[before]
        for shorter, level, ending in zip(levels[:-1], levels[1:], indices, strict=True):
            weights = _entries(shorter.log_backoffs, _one_before(before, depths), 0.0)
            values = _entries(level.log_probabilities, ending, values + weights)
            before = ending
        return values

    def _line_indices(self, codes: Ints, depths: Ints) -> Iterator[Ints]:
        """Yield for each level the index of the n-gram that ends at each place; NONE if it is new or begins before."""
        ending = codes
        yield ending
        for level in self.levels[1:]:
            context = _one_before(ending, depths)
            ending = level.find(context * (len(self.vocabulary) + 1) + codes)
            yield ending

    def _entropy_after(self, context: Ngram) -> float:
        probabilities = self.next_words(context)
        present = probabilities[probabilities > 0]
        return float(-(present * np.log(present)).sum())


def lines_of(text: EncodedText, size: int) -> tuple[Ints, Ints]:
    """Return the codes of all sentences, a start before and an end after each, and how many of a sentence are before.

    Both are one array for all sentences; `size` is that of the vocabulary.
    """
    codes = np.insert(text.with_marks(size, after=False), np.cumsum(text.lengths + 1), PAD_ID)
    lengths = text.lengths + 2
    return codes, np.arange(len(codes)) - np.repeat(np.cumsum(lengths) - lengths, lengths)


def _entries(table: Floats, indices: Ints, otherwise: Floats | float) -> Floats:
    """Return the entries of a table, which may be empty, at indices, and other values where these are NONE."""
    if not len(table):
        return np.broadcast_to(otherwise, indices.shape)
    return np.where(indices == NONE, otherwise, table[indices])


def _one_before(indices: Ints, depths: Ints) -> Ints:
    """Return the value one place before each, or NONE at the beginning of a line."""
    return np.where(depths == 0, NONE, np.roll(indices, 1))
