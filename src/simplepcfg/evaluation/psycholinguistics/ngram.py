"""An n-gram model by interpolated modified Kneser-Ney smoothing (Chen and Goodman 1998), as a control beside grammars.

With a(h w) the adjusted count of an n-gram, its own count for the longest n-grams and for those that begin with the
start of a sentence, else the number of different words before it:

    p(w | h) = (a(h w) − D(a(h w))) / a(h ·) + γ(h) p(w | h without its first word)
    γ(h)     = (D1 N1(h ·) + D2 N2(h ·) + D3 N3+(h ·)) / a(h ·)

where Nk(h ·) is the number of words w with a(h w) = k, a(h ·) the sum over all w, and below the unigrams lies the
uniform distribution over the vocabulary and the end. A context that never occurred gives way to the next shorter one.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from simplepcfg.data.preprocessing import Preprocessing
from simplepcfg.data.vocabulary import EOS, PAD_ID, Vocabulary
from simplepcfg.errors import InputError
from simplepcfg.evaluation.psycholinguistics.word_model import Words, WordSurprisal, word_records

Ngram = tuple[int, ...]
START, STOP = -1, -2  # ids of the start, which is never predicted, and of the end of a sentence
RESERVED = {START: "<s>", STOP: "</s>"}  # what files call the two
FALLBACK_DISCOUNTS = (0.5, 1.0, 1.5)  # where a text is too small to estimate them
MOST_ORDER = 10


class NgramModel:
    """log p of n-grams and back-off weights; answers `score` and `surprisal` as a run does.

    `log_probabilities[k]` has log p(w | h) of every (k + 1)-gram h w that occurred, and of every unigram;
    `log_backoffs[k]` has log γ(h) of every context h of k + 1 words. Other n-grams have γ(h) p(w | shorter h).
    """

    def __init__(
        self,
        log_probabilities: Sequence[dict[Ngram, float]],
        log_backoffs: Sequence[dict[Ngram, float]],
        vocabulary: Vocabulary,
        preprocessing: Preprocessing,
        name: str = "n-gram",
    ) -> None:
        self.log_probabilities = list(log_probabilities)
        self.log_backoffs = list(log_backoffs)
        self.vocabulary = vocabulary
        self.preprocessing = preprocessing.model_copy(update={"eos": False})  # the model has its own end
        self.name = name
        self._following: list[dict[Ngram, tuple[NDArray[np.int64], NDArray[np.float64]]]] | None = None
        self._entropy = lru_cache(maxsize=100_000)(self._entropy_after)

    @property
    def order(self) -> int:
        """The length of the longest n-grams."""
        return len(self.log_probabilities)

    def log_probability(self, word: int, context: Ngram) -> float:
        """log p of a word's id, or of STOP, after a context, of which the last `order` − 1 words count."""
        known = context[len(context) - min(len(context), self.order - 1) :]
        weight = 0.0
        while True:
            found = self.log_probabilities[len(known)].get((*known, word))
            if found is not None:
                return weight + found
            if not known:
                raise InputError(f"{self.name}: {word} is not the id of a word")
            weight += self.log_backoffs[len(known) - 1].get(known, 0.0)
            known = known[1:]

    def next_words(self, context: Ngram) -> NDArray[np.float64]:
        """Probabilities of all words by their ids and, in place of padding, of the end, [vocabulary]; they sum to 1."""
        if self._following is None:
            self._following = self._by_context()
        found = np.zeros(len(self.vocabulary))
        known = context[len(context) - min(len(context), self.order - 1) :]
        for length in range(len(known) + 1):
            inner = known[len(known) - length :]
            if length:
                found *= math.exp(self.log_backoffs[length - 1].get(inner, 0.0))
            if inner in self._following[length]:
                ids, probabilities = self._following[length][inner]
                found[ids] = probabilities
        return found

    def score(self, sentences: Sequence[Words]) -> list[float]:
        """log p (nats) of each sentence, its end included."""
        return self.token_log_probabilities([self.preprocessing.apply(words).tokens for words in sentences])

    def token_log_probabilities(self, sentences: Sequence[Words]) -> list[float]:
        """log p (nats) of each sentence of prepared tokens, its end included."""
        return [
            sum(self.log_probability(word, context) for word, context in self._events(self.vocabulary.encode(tokens)))
            for tokens in sentences
        ]

    def surprisal(self, sentences: Sequence[Words], *, ends: bool = True) -> list[list[WordSurprisal]]:
        """A record for every word and one for the end of each sentence, with `ends` or not; see ``Run.surprisal``."""
        return [self._records(words) for words in sentences]

    def _records(self, words: Words) -> list[WordSurprisal]:
        prepared = self.preprocessing.apply(words)
        values = [
            (
                -self.log_probability(word, context),
                self._entropy(context[-(self.order - 1) :] if self.order > 1 else ()),
            )
            for word, context in self._events(self.vocabulary.encode(prepared.tokens))
        ]
        return word_records(words, prepared, self.vocabulary, values)

    def _events(self, ids: Sequence[int]) -> Iterable[tuple[int, Ngram]]:
        """Each word and the end, with all that stands before it."""
        line = (START, *ids, STOP)
        return ((line[place], line[max(0, place - self.order + 1) : place]) for place in range(1, len(line)))

    def _entropy_after(self, context: Ngram) -> float:
        probabilities = self.next_words(context)
        present = probabilities[probabilities > 0]
        return float(-(present * np.log(present)).sum())

    def _by_context(self) -> list[dict[Ngram, tuple[NDArray[np.int64], NDArray[np.float64]]]]:
        tables = []
        for level in self.log_probabilities:
            grouped: dict[Ngram, list[tuple[int, float]]] = defaultdict(list)
            for (*context, word), value in level.items():
                grouped[tuple(context)].append((PAD_ID if word == STOP else word, value))
            tables.append(
                {
                    context: (np.array([word for word, _ in pairs]), np.exp([value for _, value in pairs]))
                    for context, pairs in grouped.items()
                }
            )
        return tables


@dataclass(frozen=True, slots=True)
class Discounts:
    """What is taken off n-grams of the adjusted counts 1, 2, and 3 or more."""

    one: float
    two: float
    more: float

    def of(self, count: int) -> float:
        """That of an adjusted count."""
        return (self.one, self.two, self.more)[min(count, 3) - 1]

    @classmethod
    def estimated(cls, counts: Iterable[int]) -> Discounts:
        """Chen and Goodman's estimates from the numbers of n-grams that occur once, twice, three and four times."""
        seen = Counter(count for count in counts if count <= 4)
        n1, n2, n3, n4 = (seen[k] for k in range(1, 5))
        if not (n1 and n2 and n3 and n4):
            return cls(*FALLBACK_DISCOUNTS)
        share = n1 / (n1 + 2 * n2)
        found = (1 - 2 * share * n2 / n1, 2 - 3 * share * n3 / n2, 3 - 4 * share * n4 / n3)
        return (
            cls(*found) if all(0 < value <= k for k, value in enumerate(found, start=1)) else cls(*FALLBACK_DISCOUNTS)
        )


def train_ngram(
    sentences: Iterable[Sequence[str]],
    vocabulary: Vocabulary,
    preprocessing: Preprocessing,
    order: int = 3,
    name: str = "n-gram",
) -> NgramModel:
    """Estimate a model from sentences of prepared tokens, which are read once and not held.

    Words outside the vocabulary count as `<unk>`; an `<eos>` at the end of a sentence is the model's own end.
    """
    if not 1 <= order <= MOST_ORDER:
        raise InputError(f"order = {order}; take 1 to {MOST_ORDER}, usually 3")
    for mark in RESERVED.values():
        if mark in vocabulary:
            raise InputError(f"the vocabulary has the word {mark}, which n-gram models keep for themselves; replace it")
    contents = (tokens[:-1] if tokens and tokens[-1] == EOS else tokens for tokens in sentences)
    adjusted = _adjusted_counts(((START, *vocabulary.encode(tokens), STOP) for tokens in contents if tokens), order)
    if not adjusted[0]:
        raise InputError("no sentence with words to learn an n-gram model from; give more text")
    events = [*range(PAD_ID + 1, len(vocabulary)), STOP]
    log_probabilities: list[dict[Ngram, float]] = []
    log_backoffs: list[dict[Ngram, float]] = []
    for length, counts in enumerate(adjusted, start=1):
        discounts = Discounts.estimated(counts.values())
        totals: Counter[Ngram] = Counter()
        removed: dict[Ngram, float] = defaultdict(float)
        for ngram, count in counts.items():
            totals[ngram[:-1]] += count
            removed[ngram[:-1]] += discounts.of(count)
        weights = {context: removed[context] / total for context, total in totals.items()}
        if length == 1:
            probabilities: dict[Ngram, float] = {(word,): weights[()] / len(events) for word in events}
            for ngram, count in counts.items():
                probabilities[ngram] += (count - discounts.of(count)) / totals[()]
        else:
            log_backoffs.append({context: math.log(weight) for context, weight in weights.items()})
            shorter = NgramModel(log_probabilities, log_backoffs[:-1], vocabulary, preprocessing)
            probabilities = {
                ngram: (count - discounts.of(count)) / totals[ngram[:-1]]
                + weights[ngram[:-1]] * math.exp(shorter.log_probability(ngram[-1], ngram[1:-1]))
                for ngram, count in counts.items()
            }
        log_probabilities.append({ngram: math.log(value) for ngram, value in probabilities.items()})
    return NgramModel(log_probabilities, log_backoffs, vocabulary, preprocessing, name)


def _adjusted_counts(lines: Iterable[Ngram], order: int) -> list[Counter[Ngram]]:
    """For each length the adjusted counts of n-grams that end in a word or in the end of a sentence."""
    counts: list[Counter[Ngram]] = [Counter() for _ in range(order)]
    for line in lines:
        for end in range(2, len(line) + 1):
            for length in range(1, min(order, end) + 1):
                counts[length - 1][line[end - length : end]] += 1
    adjusted: list[Counter[Ngram]] = [Counter() for _ in range(order - 1)]
    for length in range(1, order):
        for ngram in counts[length]:  # every longer n-gram is one more word before its ending
            adjusted[length - 1][ngram[1:]] += 1
        for ngram, count in counts[length - 1].items():
            if ngram[0] == START:
                adjusted[length - 1][ngram] = count
    return [*adjusted, counts[-1]]
