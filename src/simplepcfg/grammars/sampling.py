"""Sentences with their trees, drawn from a grammar itself."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from simplepcfg.errors import InputError
from simplepcfg.grammars.emissions import Emissions
from simplepcfg.ops.trees import Trees, TreeTensors

# Emission probabilities, or rules in float64, that are held at a time.
EMISSIONS_AT_ONCE = 1 << 24


@dataclass(frozen=True, slots=True)
class SampledSentences:
    """Sentences in the form that grammars take, and the tree that each was drawn with."""

    words: Tensor  # [count, max_length], 0 beyond a sentence's length
    lengths: Tensor  # [count]
    trees: Trees  # their log-probabilities are those of sentence and tree under the grammar, whatever the temperature
    log_kept: float  # log P(length ≤ max_length) of the distribution that was drawn from


def sampled_sentences(
    emissions: Emissions,
    derivations: tuple[TreeTensors, Tensor, Tensor],
    log_rules: Tensor,
    temperature: float,
    generator: torch.Generator,
    dtype: torch.dtype,
) -> SampledSentences:
    """Draw the words of derivations, which ``ops.sample.sample_derivations`` returned.

    ``log_rules`` [count] float64 are the log-probabilities of the derivations without their words. Those of the trees
    have the type of the rules, ``dtype``, and float32 at least: in bfloat16 a log of hundreds is off by whole nats.
    """
    trees, lengths, log_kept = derivations
    words, log_words = sample_words(emissions, trees[3], temperature, generator)
    log_probabilities = (log_words + log_rules).to(torch.promote_types(dtype, torch.float32))
    return SampledSentences(words, lengths, Trees(*trees, log_probabilities), float(log_kept))


def tempered(rules: Tensor, temperature: float) -> Tensor:
    """Return each row raised to 1 / temperature and renormalised, in its dtype; a row of zeros stays zero."""
    if temperature == 1:
        return rules
    columns = rules.shape[-1]
    parts = []
    for rows in rules.reshape(-1, columns).split(max(1, EMISSIONS_AT_ONCE // columns)):  # float64 of some at a time
        logs = sharpened(rows.double().log(), temperature)
        parts.append(logs.softmax(-1).masked_fill(logs.amax(-1, keepdim=True) == -math.inf, 0.0).to(rules.dtype))
    return torch.cat(parts).view(rules.shape)


def sharpened(logs: Tensor, temperature: float) -> Tensor:
    """Divide float64 logarithms by the temperature, relative to the largest of their row, which stays 0."""
    top = logs.amax(-1, keepdim=True)
    below = logs - top.masked_fill(top == -math.inf, 0.0)
    return (below / temperature).masked_fill(below == 0, 0.0)


def check_temperature(temperature: float) -> None:
    """Raise InputError unless the temperature is finite and above 0."""
    if not (temperature > 0 and math.isfinite(temperature)):
        raise InputError(f"temperature = {temperature}; it must be finite and above 0, 1 is the grammar as it is")


def sample_words(
    emissions: Emissions, tags: Tensor, temperature: float, generator: torch.Generator, without: int | None = None
) -> tuple[Tensor, Tensor]:
    """Draw a word for each tag [T, n] that is not -1: the words [T, n], and log p of each row's words, [T] float64.

    The word ``without`` is not drawn. Only preterminals that occur have their emissions computed, and not all of these
    at once.
    """
    words, scores = torch.zeros_like(tags), torch.zeros(tags.shape, dtype=torch.float64, device=tags.device)
    uniforms = torch.rand(tags.shape, generator=generator, device=generator.device, dtype=torch.float64).to(tags.device)
    used, row = tags[tags >= 0].unique(return_inverse=True)
    rows = torch.full_like(tags, -1)
    rows[tags >= 0] = row
    vocabulary = emissions.vocabulary_size
    step = max(1, EMISSIONS_AT_ONCE // vocabulary)
    for first, some in enumerate(used.split(step)):
        logs = emissions.of_preterminals(some).detach()  # [U, V]
        if without is not None:
            logs = logs.index_fill(-1, torch.tensor(without, device=logs.device), -math.inf)
        sums = sharpened(logs.double(), temperature).softmax(-1).cumsum(-1)
        if bool(sums.isnan().any()):
            raise InputError(f"preterminal {int(some[sums[:, 0].isnan()][0])} emits no word; give it one")
        here = (rows >= first * step) & (rows < first * step + some.shape[0])
        which = rows[here] - first * step
        # The sums of row r run from r to r + 1, so that one search finds the words of all rows.
        place = torch.arange(some.shape[0], device=tags.device)[:, None]
        goal = which + uniforms[here].clamp(max=1 - 2.0**-30)
        ladder = (sums / sums[:, -1:] + place).view(-1)
        word = (torch.searchsorted(ladder, goal, right=True) - which * vocabulary).clamp(0, vocabulary - 1)
        words[here] = word
        scores[here] = logs[which, word].double()
    return words, scores.sum(1)
