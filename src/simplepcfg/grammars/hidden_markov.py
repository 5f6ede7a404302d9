"""A hidden Markov model: the chain of states that a right-linear grammar is, with the questions it can answer."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Never

import torch
from torch import Tensor

from simplepcfg.errors import InputError
from simplepcfg.grammars.base import Grammar
from simplepcfg.grammars.chain_sampling import SampledChains, sample_chains
from simplepcfg.grammars.emissions import NO_EMISSIONS, Emissions
from simplepcfg.ops.arguments import Sentences
from simplepcfg.ops.autograd_context import requires_graph
from simplepcfg.ops.forward import (
    ForwardArguments,
    GrowingForward,
    Transitions,
    best_states,
    check_arguments,
    forward_prefixes,
    state_marginals,
)
from simplepcfg.ops.forward.scaled import scaled_forward
from simplepcfg.ops.tag_prefixes import TagPrefixes


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class HiddenMarkovModel(Grammar[SampledChains, Never]):
    """p(words, states) = start[s₁] emit[s₁, w₁] Π transitions[s, s'] emit[s', w'].

    There is no probability of stopping: the strings of each length share a probability of 1. Where every sentence ends
    in the word `<eos>`, which stands nowhere else, log p of its words is that of the sentence; strings that go on after
    `<eos>` have some probability too, which is not given back to the others.

    Questions about spans, trees and rules raise ``InputError``, and so does every ``span_bonus``. ``tag_marginals`` are
    those of states. Nothing follows a whole sentence in ``next_word_entropy``; the last column of
    ``next_word_log_probabilities``, that of the end, is −inf.
    """

    start: Tensor  # [S] or [B, S]
    transitions: Transitions  # [S, S] or factors ([S, r], [r, S]); rows of the product sum to 1; or with [B, …]
    emissions: Emissions = NO_EMISSIONS
    precision: str | None = None

    family: ClassVar[str] = "hmm"
    alternative: ClassVar[str] = "it is a chain of states without constituents, use an sn-pcfg"

    @property
    def factors(self) -> tuple[Tensor, ...]:
        """The transitions as one matrix, or as the two whose product they are."""
        return (self.transitions,) if isinstance(self.transitions, Tensor) else self.transitions

    @property
    def span_numbers(self) -> int:
        return -(-self.start.shape[-1] // 16)  # a chain has states for each word, not for each span

    def best_states(self, words: Tensor, lengths: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Find the most probable states [B, n], −1 beyond a sentence, and log p of words and states [B]."""
        return best_states(self._arguments(self._sentences(words, lengths)))

    def sample(
        self,
        count: int,
        *,
        max_length: int,
        generator: torch.Generator,
        temperature: float = 1.0,
        end: int | None = None,
    ) -> SampledChains:
        """Draw sentences with their states, given that each ends with the word ``end``.

        The end comes within ``max_length`` words; without ``end`` sentences have ``max_length`` words each. Every
        choice is made with probabilities raised to 1 / ``temperature`` and renormalised; each factor of factored
        transitions is one choice. Raises InputError for rules with a batch dimension, and for arguments out of range.
        """
        return sample_chains(self.start, self.factors, self.emissions, count, max_length, temperature, end, generator)

    def growing_prefix(self) -> GrowingForward:
        return GrowingForward(self.start, self.transitions)

    def _sentences(self, words: Tensor, lengths: Tensor | None, span_bonus: Tensor | None = None) -> Sentences:
        if span_bonus is not None:
            raise InputError("span_bonus: a chain of states has no spans to constrain; leave constraints out")
        return Sentences.of(self.log_emissions(words, lengths), lengths)

    def _arguments(self, sentences: Sentences) -> ForwardArguments:
        chain = (sentences.log_emissions, self.start, self.transitions)
        return check_arguments(*chain, sentences.lengths, self.precision)

    def _log_partition(self, sentences: Sentences) -> Tensor:
        return scaled_forward(self._arguments(sentences))

    def _tag_marginals(self, sentences: Sentences) -> Tensor:
        graph = requires_graph(sentences.log_emissions, self.start, *self.factors)
        return state_marginals(self._arguments(sentences), create_graph=graph)[1]

    @torch.no_grad()
    def _prefix_states(self, sentences: Sentences, ends: bool = True) -> TagPrefixes:
        chain = (sentences.log_emissions, self.start, self.transitions)
        return forward_prefixes(*chain, lengths=sentences.lengths, precision=self.precision)

    def _next_tags(self, sentences: Sentences) -> tuple[Tensor, Tensor]:
        # With a word more, no prefix that is asked for is a whole sentence, after which nothing would come.
        at = sentences.last_posts()
        longer = torch.nn.functional.pad(sentences.log_emissions, (0, 0, 0, 1))
        states = self._prefix_states(replace(sentences, log_emissions=longer, lengths=at[1] + 1))
        tags = states.tags[at].double()
        return tags, tags.new_full((len(tags),), -torch.inf)
