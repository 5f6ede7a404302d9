"""Perplexity with its denominator."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import torch

from simplepcfg.data.vocabulary import EOS, UNK
from simplepcfg.errors import InputError, NumericalError, counted


class SentenceLikelihood(NamedTuple):
    """Log-likelihood and number of tokens of one sentence; `place` is its index in the text, from 0."""

    place: int
    log_likelihood: float  # nats; −inf where it is impossible
    tokens: int


@dataclass(frozen=True, slots=True)
class PerplexityReport:
    """A perplexity with everything that is needed to recompute it under another convention."""

    log_likelihood: float  # nats, summed over the sentences that have a probability
    tokens: int  # the denominator
    perplexity: float  # infinite as soon as one sentence is impossible
    sentences: int  # sentences in the sums
    skipped_one_word: int  # left out of both sums: no tree over one word
    impossible: int  # sentences of probability zero
    eos: bool  # whether the text carries its own end-of-sentence word
    by_sentence: tuple[SentenceLikelihood, ...] = field(default=(), repr=False)

    @property
    def convention(self) -> str:
        """Description of how tokens were counted."""
        return "words, <eos> counted once a sentence" if self.eos else "sum of (length + 1)"

    def describe(self) -> str:
        """Return one line with the perplexity, its denominator, and what was left out."""
        text = f"perplexity {self.perplexity:.2f} per token ({self.tokens:,} tokens: {self.convention}"
        text += f"; {counted(self.sentences, 'sentence')}"
        if self.skipped_one_word:
            text += f"; {counted(self.skipped_one_word, 'one-word sentence')} left out"
        if self.impossible:
            text += f"; {counted(self.impossible, 'sentence')} of probability 0"
        return text + ")"

    @property
    def rank(self) -> tuple[int, float]:
        """Sort key, larger is better: fewer impossible sentences first, then the higher likelihood."""
        return (-self.impossible, self.log_likelihood)


@dataclass(frozen=True, slots=True)
class OpenVocabulary:
    """The likelihood of a text as it is spelled, in which unknown words differ: per word and per character."""

    log_likelihood: float  # nats: that of the tokens and of the spellings of unknown words
    tokens: int  # those of the perplexity over a closed vocabulary
    characters: int  # of the prepared words, with the space or line break after each

    @property
    def perplexity(self) -> float:
        """Perplexity per token."""
        return _exp(-self.log_likelihood / self.tokens)

    @property
    def character_perplexity(self) -> float:
        """Perplexity per character."""
        return _exp(-self.log_likelihood / self.characters)


def open_vocabulary(
    closed: PerplexityReport, tokens: Sequence[Sequence[str]], log_spelling: Callable[[str], float]
) -> OpenVocabulary | None:
    """Add the spellings of unknown words to a perplexity of sentences of prepared tokens.

    `log_spelling` is 0 for known words. None where a sentence is impossible, or where the text says `<unk>` itself, so
    that nobody knows how a word is spelled.
    """
    words = [word for item in closed.by_sentence for word in tokens[item.place] if word != EOS]
    if closed.impossible or not words or UNK in words:
        return None
    spelled = math.fsum(map(log_spelling, words))
    characters = sum(len(word) + 1 for word in words)
    return OpenVocabulary(closed.log_likelihood + spelled, closed.tokens, characters)


def perplexity(
    log_likelihood: torch.Tensor | Sequence[float], lengths: torch.Tensor | Sequence[int], eos: bool
) -> PerplexityReport:
    """Compute the perplexity of sentences from their log-likelihoods (nats) and lengths (`<eos>` included).

    With `eos` the denominator is the number of tokens, which include one `<eos>` a sentence. Without it the end of a
    sentence is one more event, so that each sentence counts length + 1. One-word sentences are in neither sum. Raises
    InputError if the numbers of both differ and NumericalError for NaN.

    >>> perplexity([-6.0, -9.0], [2, 3], eos=False).tokens
    7
    """
    values = torch.as_tensor(log_likelihood, dtype=torch.float64).cpu()
    sizes = torch.as_tensor(lengths, dtype=torch.int64).cpu()
    if values.shape != sizes.shape:
        raise InputError(f"{values.numel()} log-likelihoods for {sizes.numel()} lengths; give one of each a sentence")
    counted = sizes >= 2
    places = counted.nonzero()[:, 0].tolist()
    values, sizes, one_word = values[counted], sizes[counted], int((~counted).sum())
    if torch.isnan(values).any():
        where = int(torch.isnan(values).nonzero()[0])
        raise NumericalError(
            f"the log-likelihood of scored sentence {where} is NaN: weights have left the "
            "range; train a new run with a lower training.learning_rate"
        )
    possible = torch.isfinite(values)
    impossible = int((~possible).sum())
    total = float(values[possible].sum())
    events = sizes if eos else sizes + 1
    tokens = int(events.sum())
    result = math.inf if impossible else _exp(-total / tokens) if tokens else math.nan
    shares = map(SentenceLikelihood, places, values.tolist(), events.tolist())
    return PerplexityReport(total, tokens, result, len(sizes), one_word, impossible, eos, tuple(shares))


def _exp(value: float) -> float:
    """Return exp(value), or infinity where a double overflows."""
    try:
        return math.exp(value)
    except OverflowError:
        return math.inf
