"""Surprisal, the next word and its entropy, from the probabilities of tags. Nothing of size P × V is stored."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from simplepcfg.grammars.emissions import Emissions
from simplepcfg.ops.logs import log_share
from simplepcfg.ops.prefix import PrefixStates
from simplepcfg.ops.tag_prefixes import TagPrefixes

PrefixTable = PrefixStates | TagPrefixes  # the states after each prefix of a batch, of all families of grammars

# So many words, and so many prefixes, are processed at a time that float64 numbers for each preterminal fit into this.
CHUNK_BYTES, PREFIX_BYTES = 64 << 20, 256 << 20


def surprisals(log_prefix: Tensor, lengths: Tensor | None = None) -> Tensor:
    """Compute −log P(word | the words before): [B, n]; inf from an impossible word on, 0 beyond the length."""
    impossible = log_prefix == -math.inf
    finite = log_prefix.masked_fill(impossible, 0.0)
    values = (finite[:, :-1] - finite[:, 1:]).masked_fill(impossible[:, 1:], math.inf)
    if lengths is None:
        return values
    beyond = torch.arange(values.shape[1], device=values.device) >= lengths.to(values.device)[:, None]
    return values.masked_fill(beyond, 0.0)


def log_words_after(emissions: Emissions, tags: Tensor, log_end: Tensor) -> Tensor:
    """Compute log P(next word | prefix) of every word and, last, of the end: [B, V + 1]; ``tags`` are [B, P]."""
    with torch.no_grad():
        every = torch.cat(list(_next_words(emissions, tags[:, None])), -1)[:, 0]
        return torch.cat([every.log(), log_end[:, None]], -1)


def next_word_entropies(states: PrefixTable, emissions: Emissions) -> Tensor:
    """Compute the entropy in nats of what follows each prefix, a word or the end: [B, n + 1]; 0 beyond a sentence.

    It is [B, n] where the states leave out what follows whole sentences. Probabilities of words are in the precision of
    the emissions, and their entropies are summed in float64.
    """
    with torch.no_grad():
        batch, posts = states.log_sentence.shape
        log_prefix = states.log_prefix[:, :posts]
        entropy: Tensor = torch.special.entr(log_share(states.log_sentence, log_prefix).exp())
        one = emissions.of_words(0, 1)
        kind = one.dtype
        if one.dim() == 2 and not one.is_cuda:
            # Only prefixes that exist. A GPU would have to wait until the host knows how many there are.
            sentences, places = (log_prefix > -math.inf).nonzero(as_tuple=True)
            for part in _chunks(len(sentences), 8 * states.preterminals, PREFIX_BYTES):
                at = (sentences[part], places[part])
                for probabilities in _next_words(emissions, states.tags_at(*at, kind)[None]):
                    entropy[at] += torch.special.entr(probabilities[0]).sum(-1, dtype=torch.float64)
            return entropy
        for positions in _chunks(posts, 8 * batch * states.preterminals, PREFIX_BYTES):
            for probabilities in _next_words(emissions, states.next_tags(positions, kind)):
                # Each term −p log p is small, and only the sum of so many needs float64.
                entropy[:, positions] += torch.special.entr(probabilities).sum(-1, dtype=torch.float64)
        return entropy


class SurprisalParts(NamedTuple):
    """Surprisals in two parts, neither of which is negative: [B, n] float64 each, in nats."""

    syntactic: Tensor  # KL(preterminals given the word and those before ‖ given those before)
    lexical: Tensor  # the expected −log P(word | preterminal), given the word and those before


def surprisal_parts(states: PrefixTable, log_emissions: Tensor, lengths: Tensor | None = None) -> SurprisalParts:
    """Split surprisals into a syntactic and a lexical part; docs/conventions/surprisal.md proves that they add up.

    ``states`` say what follows each prefix of the sentences, whose ``log_emissions`` [B, n, P] are at most 0. Both
    parts are inf for an impossible word and what follows it, and 0 beyond the length.
    """
    with torch.no_grad():
        total = surprisals(states.log_prefix, lengths)
        lexical = torch.zeros_like(total)
        exists = torch.ones_like(total) if lengths is None else torch.arange(total.shape[1]) < lengths.cpu()[:, None]
        sentences, places = exists.to(total.device).nonzero(as_tuple=True)
        for part in _chunks(len(sentences), 24 * states.preterminals, PREFIX_BYTES):
            at = (sentences[part], places[part])
            words = log_emissions[at]
            joint = states.tags_at(*at, words.dtype).log_().add_(words)
            posterior = joint.masked_fill_((joint == -math.inf).all(-1, keepdim=True), 0.0).softmax(-1)
            lexical[at] = -torch.where(posterior > 0, posterior * words, 0.0).sum(-1, dtype=torch.float64)
        # Rounding can make a sum over preterminals larger than the surprisal, which comes from another sum.
        lexical = torch.minimum(lexical, total)
        possible = total < math.inf
        lexical, syntactic = (part.where(possible, total) for part in (lexical, total - lexical))
        return SurprisalParts(syntactic, lexical)


def _next_words(emissions: Emissions, tags: Tensor) -> Iterator[Tensor]:
    """Yield P(next word | prefix) of some words at a time, in the order of their ids: [B, positions, words] each."""
    copies, prefixes, preterminals = tags.shape
    own = emissions.of_words(0, 1).dim() == 3
    # The emissions of the words, and what they become: a number for each prefix.
    each = 8 * (preterminals * (copies if own else 1) + copies * prefixes)
    for ids in _chunks(emissions.vocabulary_size, each, CHUNK_BYTES):
        emit = emissions.of_words(ids.start, ids.stop).to(tags.dtype).exp()  # [words, P] or [B, words, P]
        yield torch.matmul(tags, emit.transpose(-1, -2))


def _chunks(count: int, bytes_each: int, most: int) -> Iterator[slice]:
    step = max(1, most // bytes_each)
    return (slice(start, min(start + step, count)) for start in range(0, count, step))
