"""Completion of a prefix: the likeliest next words, the probability of the end, and random continuations."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from simplepcfg.data.vocabulary import EOS, PAD_ID
from simplepcfg.errors import InputError, NumericalError, require_whole
from simplepcfg.inference.trained_model import TrainedModel
from simplepcfg.ops.modes import without_modes
from simplepcfg.ops.tag_prefixes import GrowingTags
from simplepcfg.runs.device import seeded

MAX_LENGTH = 40
MAX_SAMPLES = 100_000  # continuations; all are held in memory
# The charts of continuations that are drawn at the same time stay below this.
CHART_BYTES = 256 << 20
# Largest difference from 1 of the sum of a distribution of next words.
MASS_TOLERANCE = 1e-2


@dataclass(frozen=True, slots=True)
class Continuation:
    """Words drawn after a prefix, and whether the sentence ended before it was truncated."""

    words: list[str]
    ended: bool


@dataclass(frozen=True, slots=True)
class Completion:
    """Distribution of the next word after a prefix, and random continuations."""

    tokens: list[str]  # the prefix after preprocessing
    unknown: list[str]  # its words that are not in the vocabulary, which the model reads as `<unk>`
    dropped: list[str]  # its words that preprocessing drops, such as punctuation
    log_probability: float  # nats: log P(a sentence begins so), the spellings of unknown words included
    words: list[tuple[str, float]]  # the likeliest next words and their probabilities
    end: float  # P(no word follows): `<eos>` where the run has it, or the end of the tree
    entropy: float  # nats, of the next word or end
    samples: list[Continuation]


@without_modes
def complete(
    run: TrainedModel, prefix: str | Sequence[str], k: int, samples: int, seed: int, max_length: int
) -> Completion:
    """Return the likeliest next words and random continuations of a prefix; see ``Run.complete``."""
    for name, value, least in (("k", k, 0), ("samples", samples, 0), ("max_length", max_length, 1)):
        require_whole(name, value, least)
    if samples > MAX_SAMPLES:
        raise InputError(f"samples = {samples}; draw at most {MAX_SAMPLES:,} at a time, with another seed each time")
    (prepared,) = run.prepare([prefix])
    tokens = prepared.tokens[: len(prepared.kept)]
    if EOS in tokens:
        raise InputError(f"the prefix holds {EOS}, which ends a sentence; give the words before it")
    if samples and len(tokens) > max_length:
        raise InputError(f"the prefix has {len(tokens)} words, more than max_length = {max_length}; raise that")
    seen = [run.vocabulary.listed(token) for token in tokens]
    state = run.prefixes.after(run.vocabulary.encode(tokens))
    if float(state.log_prefix) == -math.inf:
        raise InputError(f"no sentence of this grammar begins with {' '.join(seen)!r}; nothing can follow it")
    probabilities = _distribution(run, state)[0]
    ending = _ending(run)
    order = torch.argsort(probabilities[:-1], descending=True, stable=True).tolist()
    likeliest = [index for index in order[: k + 2] if index != PAD_ID and index not in ending][:k]
    return Completion(
        seen,
        [
            prepared.words[place]
            for place, token in zip(prepared.kept, tokens, strict=True)
            if token not in run.vocabulary
        ],
        [word for place, word in enumerate(prepared.words) if place not in set(prepared.kept)],
        float(state.log_prefix) + run.spellings_log_probability(tokens),
        [(run.vocabulary.words[index], float(probabilities[index])) for index in likeliest],
        float(probabilities[sorted(ending)].sum()),
        float(torch.special.entr(probabilities).sum()),
        _draw(run, state, samples, seeded(torch.device("cpu"), seed), max_length - len(tokens)) if samples else [],
    )


@torch.no_grad()
def _draw(
    run: TrainedModel, state: GrowingTags, samples: int, generator: torch.Generator, most: int
) -> list[Continuation]:
    """Draw continuations of up to ``most`` words, each word from its exact distribution after all words before it."""
    at_once = max(1, CHART_BYTES // state.bytes_per_prefix(state.length + most + 1))
    drawn: list[Continuation] = []
    ending = _ending(run)
    while len(drawn) < samples:
        count = min(at_once, samples - len(drawn))
        words: list[list[str]] = [[] for _ in range(count)]
        ended = [False] * count
        own = state.copy()
        own.select(torch.zeros(count, dtype=torch.int64))
        going = list(range(count))
        while going:
            choices = torch.multinomial(_distribution(run, own), 1, generator=generator).squeeze(1).tolist()
            stay = []  # rows of those that go on, each with one more word
            for row, (index, choice) in enumerate(zip(going, choices, strict=True)):
                ended[index] = choice in ending
                if not ended[index] and len(words[index]) < most:
                    words[index].append(run.vocabulary.words[choice])
                    stay.append(row)
            going = [going[row] for row in stay]
            if going:
                own.select(torch.tensor(stay))
                ids = torch.tensor([choices[row] for row in stay], device=run.device)[:, None]
                own.push(run.grammar.emissions.log_probabilities(ids)[:, 0])
        drawn += map(Continuation, words, ended)
    return drawn


def _distribution(run: TrainedModel, state: GrowingTags) -> Tensor:
    """Return P(next word) of every id and, last, P(end) after each prefix, [S, V + 1] on the CPU, summing to 1."""
    probabilities = run.prefixes.next_words(state).cpu()
    sums = probabilities.sum(-1, keepdim=True)
    if not bool(((sums - 1).abs() < MASS_TOLERANCE).all()):
        raise NumericalError(
            f"{run.name}: probabilities of the next word sum to {float(sums.flatten()[0]):.4g}; its weights are "
            "damaged, train it again"
        )
    return probabilities / sums


def _ending(run: TrainedModel) -> set[int]:
    """Return the columns of the next word's distribution that end a sentence."""
    end = {len(run.vocabulary)}
    return end | set(run.vocabulary.encode([EOS])) if run.preprocessing.eos and EOS in run.vocabulary else end
