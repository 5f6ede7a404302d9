"""Emissions of words by preterminals: as a table, or as features whose product is never made for all words."""

from dataclasses import dataclass, replace
from typing import Never, Self

import torch
from torch import Tensor

from simplepcfg.errors import InputError
from simplepcfg.ops.arguments import lengths_tensor
from simplepcfg.ops.neural import emission_log_probabilities, log_normaliser
from simplepcfg.ops.tensor_fields import described, with_tensors


class Emissions:
    """Gives the log-probability of each word of a batch under each preterminal.

    Its methods are documented here, and not again in the classes below.
    """

    __slots__ = ()
    __repr__ = described

    def log_probabilities(self, words: Tensor) -> Tensor:
        """Return the log-probabilities of ``words`` [B, n] under each preterminal: [B, n, P]."""
        raise NotImplementedError

    @property
    def vocabulary_size(self) -> int:
        """Number of word ids, padding included."""
        raise NotImplementedError

    def of_words(self, start: int, stop: int) -> Tensor:
        """Return log emit of the words ``start`` … ``stop`` − 1: [words, P] or [B, words, P]; −inf for padding."""
        raise NotImplementedError

    def of_preterminals(self, preterminals: Tensor) -> Tensor:
        """Return log emit of all words under some preterminals [U]: [U, V] or [B, U, V]; −inf for padding."""
        raise NotImplementedError

    def detached(self) -> Self:
        """Return the same numbers without gradients."""
        return with_tensors(self, torch.Tensor.detach)

    def of_sentence(self, sentence: int) -> Self:
        """Return the emissions of one sentence, where each sentence has its own."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class DenseEmissions(Emissions):
    """log emit[T, w] as a table over all words."""

    log_emit: Tensor  # [P, V] or [B, P, V]

    def log_probabilities(self, words: Tensor) -> Tensor:
        if self.log_emit.dim() == 2:
            return self.log_emit.T[words]
        index = words[:, None, :].expand(-1, self.log_emit.shape[1], -1)
        return self.log_emit.gather(2, index).transpose(1, 2)

    @property
    def vocabulary_size(self) -> int:
        return self.log_emit.shape[-1]

    def of_words(self, start: int, stop: int) -> Tensor:
        return self.log_emit[..., start:stop].transpose(-1, -2)

    def of_preterminals(self, preterminals: Tensor) -> Tensor:
        return self.log_emit[..., preterminals, :]

    def of_sentence(self, sentence: int) -> "DenseEmissions":
        return DenseEmissions(self.log_emit[sentence])


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class FactoredEmissions(Emissions):
    """emit[T, w] ∝ exp(features[T] · embedding[w]), normalised over the real words: id 0 is padding and has no row."""

    features: Tensor  # [P, D], or [B, P, D] where each sentence has its own
    embeddings: Tensor  # [V - 1, D]: word id w has row w - 1
    log_normaliser: Tensor  # [P] or [B, P]

    @staticmethod
    def normalised(features: Tensor, embeddings: Tensor) -> "FactoredEmissions":
        """Return the emissions with their normaliser, computed from some rows of [B · P, V] at a time."""
        sums = log_normaliser(features.flatten(0, -2), embeddings)
        return FactoredEmissions(features, embeddings, sums.view(features.shape[:-1]))

    def log_probabilities(self, words: Tensor) -> Tensor:
        _check_sentences(words, self.features)
        return self._of_rows(torch.nn.functional.embedding(_rows(words), self.embeddings))  # of [B, n, D]

    @property
    def vocabulary_size(self) -> int:
        return self.embeddings.shape[0] + 1

    def of_words(self, start: int, stop: int) -> Tensor:
        logs = self._of_rows(self.embeddings[max(start - 1, 0) : stop - 1])
        return torch.nn.functional.pad(logs, (0, 0, 1, 0), value=-torch.inf) if start == 0 else logs

    def of_preterminals(self, preterminals: Tensor) -> Tensor:
        scores = self._wide_features()[..., preterminals, :] @ self.embeddings.T
        logs = scores.sub(self.log_normaliser[..., preterminals, None]).clamp(max=0.0)
        return torch.nn.functional.pad(logs, (1, 0), value=-torch.inf)

    def of_sentence(self, sentence: int) -> "FactoredEmissions":
        return FactoredEmissions(self.features[sentence], self.embeddings, self.log_normaliser[sentence])

    def _of_rows(self, rows: Tensor) -> Tensor:
        """Compute the log-probabilities of words whose embeddings are ``rows`` [..., words, D].

        They are clamped to 0: where logits are in the millions, rounding would make p > 1.
        """
        scores = rows @ self._wide_features().transpose(-1, -2)
        return scores.sub(self.log_normaliser.unsqueeze(-2)).clamp(max=0.0)

    def _wide_features(self) -> Tensor:
        return self.features.to(self.embeddings.dtype)


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class BatchEmissions(Emissions):
    """Factored emissions for training: normalised in every batch, so that one backward pass has all gradients."""

    features: Tensor  # [P, D] or [B, P, D]
    embeddings: Tensor  # [V - 1, D]: word id w has row w - 1
    precision: str | None = None

    def log_probabilities(self, words: Tensor) -> Tensor:
        _check_sentences(words, self.features)
        return emission_log_probabilities(self.features, self.embeddings, _rows(words), precision=self.precision)

    @property
    def vocabulary_size(self) -> int:
        return self.embeddings.shape[0] + 1

    def of_words(self, start: int, stop: int) -> Tensor:
        return FactoredEmissions.normalised(self.features, self.embeddings).of_words(start, stop)

    def of_preterminals(self, preterminals: Tensor) -> Tensor:
        return FactoredEmissions.normalised(self.features, self.embeddings).of_preterminals(preterminals)

    def of_sentence(self, sentence: int) -> "BatchEmissions":
        return replace(self, features=self.features[sentence])


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class NoEmissions(Emissions):
    """The emissions of a grammar without a vocabulary, which is asked about log-emissions [B, n, P] only."""

    def _refuse(self, *_: object) -> Never:
        raise InputError(
            "this grammar has no emissions and knows no words; give log-emissions [B, n, P] in place of word ids, or "
            "give the grammar emissions"
        )

    log_probabilities = of_words = of_preterminals = _refuse  # type: ignore[assignment]

    @property
    def vocabulary_size(self) -> int:
        self._refuse()

    def of_sentence(self, sentence: int) -> "NoEmissions":
        return self


NO_EMISSIONS = NoEmissions()

# The number of words that are looked up at a time for a table.
TABLE_WORDS = 1024


def tabulated(emissions: Emissions, most_bytes: int) -> Emissions:
    """Return the same emissions as a table of all words, or as they are if it would need more than ``most_bytes``."""
    one = emissions.of_words(0, 1)
    words = emissions.vocabulary_size
    if isinstance(emissions, DenseEmissions) or one.dim() == 3 or one.nbytes * words > most_bytes:
        return emissions
    table = one.new_empty(one.shape[-1], words)
    for start in range(0, words, TABLE_WORDS):
        stop = min(start + TABLE_WORDS, words)
        table[:, start:stop] = emissions.of_words(start, stop).T
    return DenseEmissions(table)


def check_words(words: Tensor, lengths: Tensor | None, emissions: Emissions) -> None:
    """Raise InputError for an id inside a sentence that belongs to no word: padding, negative, or too large.

    Ids on a GPU are not checked, because the host would have to wait for it. A table of emissions may know a word 0;
    elsewhere 0 is padding.
    """
    check_word_ids(words, lengths, 0 if isinstance(emissions, DenseEmissions) else 1, emissions.vocabulary_size)


def check_word_ids(words: Tensor, lengths: Tensor | None, first: int, vocabulary_size: int) -> None:
    """Raise InputError unless ``words`` are integers [B, n] from ``first`` to ``vocabulary_size`` − 1 in sentences."""
    if not isinstance(words, Tensor):
        raise InputError(f"words are a {type(words).__name__}; give a tensor of word ids [B, n]")
    if words.dim() != 2 or words.is_floating_point() or words.is_complex() or words.dtype == torch.bool:
        raise InputError(
            f"words have shape {list(words.shape)} and dtype {words.dtype}; give word ids [B, n], integers"
        )
    if words.device.type != "cpu" or not words.numel():
        return
    least, largest = words.aminmax()
    if int(least) >= first and int(largest) < vocabulary_size:
        return
    wrong = (words < first) | (words >= vocabulary_size)
    if lengths is not None:
        lengths = lengths_tensor(lengths, words.shape[0])
        wrong &= torch.arange(words.shape[1]) < lengths.cpu()[:, None]
    for sentence, place in wrong.nonzero()[:1].tolist():
        word, end = int(words[sentence, place]), words.shape[1] if lengths is None else int(lengths[sentence])
        why = "padding" if word == 0 else "no word"
        raise InputError(
            f"words[{sentence}, {place}] = {word} is {why}, inside a sentence of {end} words; ids are {first} to "
            f"{vocabulary_size - 1}, and lengths say where a sentence ends"
        )


def _check_sentences(words: Tensor, features: Tensor) -> None:
    """Raise InputError if each sentence has its own features, and there are more or fewer sentences than those."""
    if features.dim() == 3 and words.shape[0] != features.shape[0]:
        raise InputError(
            f"{words.shape[0]} sentences for the emissions of {features.shape[0]}; give those that the grammar was "
            "made for"
        )


def _rows(words: Tensor) -> Tensor:
    """Return the row of each word; padding gets an arbitrary row, whose result is not used."""
    return (words - 1).clamp(min=0)
