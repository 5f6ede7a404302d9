"""A hidden Markov model: the chain of states that a right-linear grammar is, with the questions it can answer."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor

from simplepcfg.errors import InputError
from simplepcfg.grammars import chain_sampling, prefix
from simplepcfg.grammars.chain_sampling import SampledChains
from simplepcfg.grammars.described import described
from simplepcfg.grammars.emissions import Emissions, check_words
from simplepcfg.grammars.questions import Answers
from simplepcfg.ops.forward import (
    ForwardPrefixes,
    GrowingForward,
    Transitions,
    best_states,
    forward,
    forward_prefixes,
    k_best_states,
    prefix_log_probabilities,
    state_entropy,
    state_posteriors,
)


@dataclass(frozen=True, slots=True)
class HiddenMarkovModel(Answers):
    """p(words, states) = start[s₁] emit[s₁, w₁] Π transitions[s, s'] emit[s', w'].

    There is no probability of stopping: the strings of each length share a probability of 1. Where every sentence ends
    in the word `<eos>`, which stands nowhere else, log p of its words is that of the sentence; strings that go on after
    `<eos>` have some probability too, which is not given back to the others.
    """

    start: Tensor  # [S] or [B, S]
    transitions: Transitions  # [S, S] or factors ([S, r], [r, S]); rows of the product sum to 1; or with [B, …]
    emissions: Emissions
    precision: str | None = None
    backend: str = "auto"

    family: ClassVar[str] = "hmm"
    refusal: ClassVar[str] = "it is a chain of states without constituents, use an sn-pcfg"

    __repr__ = described

    @property
    def factors(self) -> tuple[Tensor, ...]:
        """The transitions as one matrix, or as the two whose product they are."""
        return (self.transitions,) if isinstance(self.transitions, Tensor) else self.transitions

    def detached(self) -> "HiddenMarkovModel":
        """The same numbers without a way back to weights."""
        factors = tuple(factor.detach() for factor in self.factors)
        return replace(
            self,
            start=self.start.detach(),
            transitions=factors[0] if len(factors) == 1 else (factors[0], factors[1]),
            emissions=self.emissions.detached(),
        )

    @property
    def span_numbers(self) -> int:
        """What a cell of words × words stands for in memory: a chain has states for each word, not for each span."""
        return -(-self.start.shape[-1] // 16)

    def log_partition(
        self, words: Tensor, lengths: Tensor | None = None, *, span_bonus: Tensor | None = None
    ) -> Tensor:
        """log p(words) in nats, summed over all sequences of states: [B]."""
        self._refuse(span_bonus)
        return forward(self._log_emissions(words, lengths), *self._chain, lengths=lengths, **self._how)

    def tag_marginals(
        self, words: Tensor, lengths: Tensor | None = None, *, span_bonus: Tensor | None = None
    ) -> Tensor:
        """Posterior of each state over each word: [B, n, S]; differentiable where rules are."""
        self._refuse(span_bonus)
        logs = self._log_emissions(words, lengths)
        graph = self._in_graph(logs)
        _, found = state_posteriors(logs, *self._chain, lengths=lengths, create_graph=graph, **self._how)
        return found

    def best_states(self, words: Tensor, lengths: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """The most probable states [B, n], −1 beyond a sentence, and log p of words and states [B]."""
        return best_states(self._log_emissions(words, lengths), *self._chain, lengths=lengths)

    def k_best_states(self, words: Tensor, lengths: Tensor | None = None, *, k: int) -> tuple[Tensor, Tensor]:
        """The k most probable sequences of states [B, k, n], best first, and log p of words and states [B, k] float64.

        −1 beyond a sentence; −1 and −inf where there are fewer.
        """
        return k_best_states(self._log_emissions(words, lengths), *self._chain, k, lengths=lengths)

    def entropy(self, words: Tensor, lengths: Tensor | None = None, *, span_bonus: Tensor | None = None) -> Tensor:
        """Entropy in nats of the distribution over sequences of states: [B] float64, differentiable where rules are.

        −inf where a sentence has no sequence of states, and so no distribution.
        """
        self._refuse(span_bonus)
        return state_entropy(self._log_emissions(words, lengths), *self._chain, lengths=lengths)

    def sample(
        self,
        count: int,
        *,
        max_length: int,
        generator: torch.Generator,
        temperature: float = 1.0,
        end: int | None = None,
    ) -> SampledChains:
        """Sentences with their states, given that the word ``end`` comes within ``max_length`` words, and ends them.

        Without ``end``, ``max_length`` words each. Every choice is made with probabilities raised to 1 /
        ``temperature`` and normalised again; of factored transitions each factor is one.
        """
        return chain_sampling.sample(self, count, max_length, temperature, end, generator)

    def prefix_log_probabilities(self, words: Tensor, lengths: Tensor | None = None) -> Tensor:
        """log P(a text begins with the first m words) in nats, m = 0 … n: [B, n + 1] float64, differentiable."""
        logs = self._log_emissions(words, lengths)
        if self._in_graph(logs):
            return prefix_log_probabilities(logs, *self._chain, lengths=lengths)
        return self.prefix_states(words, lengths).log_prefix

    def surprisal(self, words: Tensor, lengths: Tensor | None = None) -> Tensor:
        """−log P(word | the words before it) in nats: [B, n] float64; 0 beyond a sentence's length."""
        return prefix.surprisals(self.prefix_log_probabilities(words, lengths), lengths)

    def prefix_states(self, words: Tensor, lengths: Tensor | None = None) -> ForwardPrefixes:
        """What is known after each prefix, the empty one and the whole sentence included; with no gradients."""
        with torch.no_grad():
            logs = self._log_emissions(words, lengths)
            return forward_prefixes(logs, *self._chain, lengths=lengths, precision=self.precision)

    def next_word_log_probabilities(self, words: Tensor, lengths: Tensor | None = None) -> Tensor:
        """log P(next word | sentence as a prefix): [B, V + 1] float64; the last column, "it ends here", is −inf."""
        # With a word more, no prefix that is asked for is a whole sentence, after which nothing would come.
        batch, n = words.shape
        ends = torch.full((batch,), n) if lengths is None else lengths.cpu()
        longer = torch.nn.functional.pad(words, (0, 1), value=1)
        states = self.prefix_states(longer, ends + 1)
        at = (torch.arange(batch, device=states.belief.device), ends.to(states.belief.device))
        log_end = torch.full((batch,), -torch.inf, dtype=torch.float64, device=states.belief.device)
        return prefix.log_words_after(self.emissions, states.belief[at].double(), log_end)

    def next_word_entropy(self, words: Tensor, lengths: Tensor | None = None) -> Tensor:
        """Entropy in nats of what comes after the first m words, m = 0 … n: [B, n + 1]; 0 after the whole sentence."""
        return prefix.next_word_entropies(self.prefix_states(words, lengths), self.emissions)

    def growing_prefix(self) -> GrowingForward:
        """An empty prefix to which words can be added one at a time."""
        return GrowingForward(self.start, self.transitions)

    def _log_emissions(self, words: Tensor, lengths: Tensor | None) -> Tensor:
        """[B, n, S]; every question comes by here, and its word ids are checked."""
        check_words(words, lengths, self.emissions)
        return self.emissions.log_probabilities(words)

    @property
    def _chain(self) -> tuple[Tensor, Transitions]:
        return self.start, self.transitions

    @property
    def _how(self) -> dict[str, Any]:
        return {"precision": self.precision, "backend": self.backend}

    def _in_graph(self, log_emissions: Tensor) -> bool:
        return torch.is_grad_enabled() and any(t.requires_grad for t in (log_emissions, self.start, *self.factors))

    def _refuse(self, span_bonus: Tensor | None) -> None:
        if span_bonus is not None:
            raise InputError("span_bonus: a chain of states has no spans to constrain; leave constraints out")
