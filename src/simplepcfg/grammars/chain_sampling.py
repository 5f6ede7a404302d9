"""Sentences with their states, drawn from a hidden Markov model, without rejection."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from simplepcfg.errors import InputError
from simplepcfg.grammars.emissions import Emissions
from simplepcfg.grammars.sampling import EMISSIONS_AT_ONCE, check_temperature, sample_words, sharpened, tempered


@dataclass(frozen=True, slots=True)
class SampledChains:
    """Sentences in the form that grammars take, and the states that each was drawn with."""

    words: Tensor  # [count, max_length], 0 beyond a sentence's length
    lengths: Tensor  # [count]
    states: Tensor  # [count, max_length], −1 beyond a sentence's length
    log_probabilities: Tensor  # [count] float64: of words and states under the model, whatever the temperature
    log_kept: float  # log P(the end comes within max_length words) of the distribution that was drawn from


@torch.no_grad()
def sample_chains(
    start: Tensor,
    factors: tuple[Tensor, ...],
    emissions: Emissions,
    count: int,
    max_length: int,
    temperature: float,
    end: int | None,
    generator: torch.Generator,
) -> SampledChains:
    """Draw sentences with their states; see ``HiddenMarkovModel.sample``.

    ``start`` [S] and ``factors``, the transitions [S, S] or the two matrices ([S, r], [r, S]) whose product they are.
    """
    if start.dim() != 1 or factors[0].dim() != 2:
        raise InputError(f"start has shape {list(start.shape)}; sentences are drawn from one model at a time")
    if count < 1 or max_length < 1:
        raise InputError(f"count = {count}, max_length = {max_length}; both must be at least 1")
    check_temperature(temperature)
    if end is not None and not 0 < end < emissions.vocabulary_size:
        raise InputError(f"end = {end}; give the id of a word, 1 to {emissions.vocabulary_size - 1}")
    plain = [rules.detach().double() for rules in (start, *factors)]
    start, *cooled = [tempered(rules, temperature) for rules in plain]
    ending = _ending(emissions, start, end, temperature)  # [S]
    # reach[k][s]: the probability that the end comes within k words, the first of which s emits.
    reach = [ending]
    for _ in range(max_length - 1):
        ahead = reach[-1]
        for factor in reversed(cooled):
            ahead = factor @ ahead
        reach.append(ending + (1 - ending) * ahead if end is not None else ending)
    kept = min(float(start @ reach[-1]), 1.0)  # sums of rounded shares may be a digit more
    if not kept > 0:
        raise InputError(f"no sentence of this model ends within max_length = {max_length} words; raise it")

    states = torch.full((count, max_length), -1, device=start.device)
    state = _draw((start * reach[-1]).expand(count, -1), generator)
    scores = plain[0][state].log()
    going = torch.ones(count, dtype=torch.bool, device=start.device)
    for t in range(max_length):
        states[:, t] = torch.where(going, state, -1)
        left = max_length - t  # words that may still come, this one included
        if end is not None:
            over = (ending / reach[left - 1]).nan_to_num(1.0)[state]
            uniforms = torch.rand(count, generator=generator, device=generator.device, dtype=torch.float64)
            going = going & (uniforms.to(over.device) >= over) & (left > 1)
        if left == 1 or not bool(going.any()):
            break
        rows = cooled[0][state]
        if len(cooled) == 2:
            rows = rows @ cooled[1]
        following = _draw(torch.where(going[:, None], rows * reach[left - 2], 1.0), generator)
        if len(cooled) == 2:
            chosen = (plain[1][state] * plain[2][:, following].T).sum(-1)
        else:
            chosen = plain[1][state, following]
        scores += torch.where(going, chosen.log(), 0.0)
        state = torch.where(going, following, state)
    lengths = (states >= 0).sum(1)
    if end is None:
        words, by_words = sample_words(emissions, states, temperature, generator)
        return SampledChains(words, lengths, states, scores + by_words, math.log(kept))
    # The last state of a sentence emits the end, and no other does.
    last = torch.arange(max_length, device=states.device) == lengths[:, None] - 1
    words, by_words = sample_words(emissions, states.masked_fill(last, -1), temperature, generator, without=end)
    log_end = emissions.of_words(end, end + 1)[0].double()
    scores = scores + by_words + log_end[states.gather(1, lengths[:, None] - 1)[:, 0]]
    return SampledChains(words.masked_fill(last, end), lengths, states, scores, math.log(kept))


def _ending(emissions: Emissions, start: Tensor, end: int | None, temperature: float) -> Tensor:
    """Return the probability that each state emits the end; 1 without an end, so that nothing is conditioned on."""
    states = start.shape[-1]
    if end is None:
        return torch.ones(states, dtype=torch.float64, device=start.device)
    if temperature == 1:
        return emissions.of_words(end, end + 1)[0].double().exp()
    every = torch.arange(states, device=start.device)
    parts = every.split(max(1, EMISSIONS_AT_ONCE // emissions.vocabulary_size))
    logs = (sharpened(emissions.of_preterminals(part).double(), temperature) for part in parts)
    return torch.cat([part.softmax(-1)[:, end] for part in logs])


def _draw(weights: Tensor, generator: torch.Generator) -> Tensor:
    """Draw an index of each row, with probability proportional to its weight."""
    return torch.multinomial(weights.to(generator.device), 1, generator=generator)[:, 0].to(weights.device)
