"""A simple PCFG: root, left and right production probabilities, and emissions."""

from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from simplepcfg.grammars import posteriors, prefix, sampling
from simplepcfg.grammars.dense import DenseGrammar
from simplepcfg.grammars.described import described
from simplepcfg.grammars.emissions import Emissions
from simplepcfg.grammars.sampling import SampledSentences
from simplepcfg.ops.inside import inside
from simplepcfg.ops.marginals import RuleCounts
from simplepcfg.ops.mbr import best_trees
from simplepcfg.ops.prefix import (
    Closure,
    GrowingPrefix,
    PrefixStates,
    left_corner_closure,
    termination_probabilities,
)
from simplepcfg.ops.sample import sample_trees
from simplepcfg.ops.trees import LabelledTree, Trees
from simplepcfg.ops.viterbi import viterbi
from simplepcfg.ops.viterbi.k_best import k_best


@dataclass(frozen=True, slots=True)
class SimpleGrammar:
    """A → B C with probability left[A, B] · right[A, C]; symbols are nonterminals first, then preterminals.

    Rules may have a leading batch dimension: one grammar a sentence, as compound models give. Sentences are word ids
    ``[B, n]``, 0 where a shorter sentence is padded, with ``lengths`` ``[B]`` where they differ. On a CPU an id inside
    a sentence that is no word's is refused (to ``DenseEmissions`` 0 is a word, too); on a GPU, where looking would
    make the host wait, it is not seen.
    """

    root: Tensor  # [N] or [B, N]
    left: Tensor  # [N, N + P] or [B, N, N + P]
    right: Tensor
    emissions: Emissions
    precision: str | None = None
    backend: str = "auto"
    _closure: list[Closure] = field(default_factory=list, init=False, repr=False, compare=False)  # once computed

    __repr__ = described

    def detached(self) -> "SimpleGrammar":
        """The same numbers without a way back to weights: no answer of it pays for gradients."""
        return replace(
            self,
            root=self.root.detach(),
            left=self.left.detach(),
            right=self.right.detach(),
            emissions=self.emissions.detached(),
        )

    def of_sentence(self, sentence: int) -> "SimpleGrammar":
        """The grammar of one sentence, where each has its own: rules without a batch dimension."""
        return replace(
            self,
            root=self.root[sentence],
            left=self.left[sentence],
            right=self.right[sentence],
            emissions=self.emissions.of_sentence(sentence),
        )

    def log_partition(
        self, words: Tensor, lengths: Tensor | None = None, *, span_bonus: Tensor | None = None
    ) -> Tensor:
        """log p(sentence) in nats, summed over all trees: [B]."""
        return inside(
            *posteriors.rules_of(self, words, lengths), lengths=lengths, span_bonus=span_bonus, **posteriors.how(self)
        )

    def span_marginals(
        self, words: Tensor, lengths: Tensor | None = None, *, span_bonus: Tensor | None = None
    ) -> Tensor:
        """Posterior probability of each span of width 2 or more: [B, n + 1, n + 1]; differentiable where rules are."""
        return posteriors.spans(self, words, lengths, span_bonus)

    def decode(
        self, words: Tensor, lengths: Tensor | None = None, *, span_bonus: Tensor | None = None
    ) -> list[list[tuple[int, int]]]:
        """The minimum-Bayes-risk tree of each sentence, as spans of width 2 or more in preorder.

        A span whose bonus is -inf is in no tree; where that leaves none, the sentence is named in an error.
        """
        forbidden = None if span_bonus is None else span_bonus == -torch.inf
        with torch.no_grad():
            return best_trees(self.span_marginals(words, lengths, span_bonus=span_bonus), lengths, forbidden)

    def viterbi(self, words: Tensor, lengths: Tensor | None = None, *, span_bonus: Tensor | None = None) -> Trees:
        """The most probable tree of each sentence with its symbols; ``.listed()`` gives them one by one.

        Its log-probability is that of words and tree, differentiable where rules are; -inf where there is no tree.
        """
        rules = posteriors.rules_of(self, words, lengths)
        return viterbi(*rules, lengths=lengths, span_bonus=span_bonus, backend=self._tree_backend)

    def k_best(
        self, words: Tensor, lengths: Tensor | None = None, *, k: int, span_bonus: Tensor | None = None
    ) -> list[list[LabelledTree]]:
        """The k most probable trees of each sentence with their symbols, best first; fewer where there are fewer."""
        rules = posteriors.rules_of(self, words, lengths)
        return k_best(*rules, k, lengths=lengths, span_bonus=span_bonus, backend=self._tree_backend)

    def sample_trees(
        self,
        words: Tensor,
        lengths: Tensor | None = None,
        *,
        samples: int,
        generator: torch.Generator,
        span_bonus: Tensor | None = None,
    ) -> Trees:
        """Independent trees of each sentence in proportion to their probability; leading dimensions [B, samples]."""
        rules = posteriors.rules_of(self, words, lengths)
        return sample_trees(
            *rules,
            samples,
            generator,
            lengths=lengths,
            span_bonus=span_bonus,
            precision=self.precision,
            backend=self._tree_backend,
        )

    def sample(
        self, count: int, *, max_length: int, generator: torch.Generator, temperature: float = 1.0
    ) -> SampledSentences:
        """Sentences with their trees, drawn from the grammar given that they have at most ``max_length`` words.

        Every choice is made with probabilities raised to 1 / ``temperature`` and normalised again: below 1 likelier
        ones come more often. Rules must be one grammar's, without a batch dimension.
        """
        return sampling.sample(self, count, max_length, temperature, generator)

    @property
    def _tree_backend(self) -> str:
        """Backends of the inside algorithm that single trees do not have leave the choice open."""
        return self.backend if self.backend in ("naive", "torch", "triton") else "auto"

    def symbol_marginals(
        self,
        words: Tensor,
        lengths: Tensor | None = None,
        *,
        spans: Tensor | None = None,
        span_bonus: Tensor | None = None,
    ) -> Tensor:
        """Posterior of each nonterminal over each span of width 2 or more: [B, n + 1, n + 1, N], not differentiable.

        With ``spans`` [K, 3], rows of (sentence, start, end), only of those: [K, N].
        """
        return posteriors.symbols(self, words, lengths, spans, span_bonus)

    def tag_marginals(
        self, words: Tensor, lengths: Tensor | None = None, *, span_bonus: Tensor | None = None
    ) -> Tensor:
        """Posterior of each preterminal over each word: [B, n, P]; differentiable where rules are."""
        return posteriors.tags(self, words, lengths, span_bonus)

    def rule_counts(
        self, words: Tensor, lengths: Tensor | None = None, *, span_bonus: Tensor | None = None
    ) -> RuleCounts:
        """Expected uses of each rule, summed over the batch where it shares rules; differentiable where rules are."""
        return posteriors.counts(self, words, lengths, span_bonus)

    def entropy(self, words: Tensor, lengths: Tensor | None = None, *, span_bonus: Tensor | None = None) -> Tensor:
        """Entropy in nats of the distribution over labelled derivations: [B] float64, differentiable where rules are.

        -inf where a sentence has no derivation, and so no distribution.
        """
        return posteriors.entropy(self, words, lengths, span_bonus)

    def kl_divergence(
        self,
        other: "SimpleGrammar",
        words: Tensor,
        lengths: Tensor | None = None,
        *,
        span_bonus: Tensor | None = None,
    ) -> Tensor:
        """KL(self ‖ other) in nats over labelled derivations; both need the same symbols: [B] float64.

        +inf where the other lacks a rule that is used, -inf where this one has no derivation.
        """
        return posteriors.divergence(self, other, words, lengths, span_bonus)

    def tree_entropy(self, words: Tensor, lengths: Tensor | None = None, *, span_bonus: Tensor | None = None) -> Tensor:
        """Entropy over bare trees, by listing them: [B] float64; sentences of more than nine words are refused."""
        return posteriors.entropy_of_trees(self, words, lengths, span_bonus)

    def tree_kl_divergence(
        self,
        other: Any,
        words: Tensor,
        lengths: Tensor | None = None,
        *,
        span_bonus: Tensor | None = None,
    ) -> Tensor:
        """KL(self ‖ other) over bare trees, whatever the symbols or the family: [B] float64; up to nine words."""
        return posteriors.divergence_of_trees(self, other, words, lengths, span_bonus)

    def prefix_log_probabilities(self, words: Tensor, lengths: Tensor | None = None) -> Tensor:
        """log P(a sentence begins with the first m words) in nats, m = 0 … n: [B, n + 1] float64, differentiable."""
        return prefix.log_prefixes(self, words, lengths)

    def surprisal(self, words: Tensor, lengths: Tensor | None = None) -> Tensor:
        """−log P(word | the words before it) in nats: [B, n] float64; 0 beyond a sentence's length."""
        return prefix.surprisals(self.prefix_log_probabilities(words, lengths), lengths)

    def prefix_states(self, words: Tensor, lengths: Tensor | None = None) -> PrefixStates:
        """What is known after each prefix, the empty one and the whole sentence included; with no gradients."""
        return prefix.states_of(self, words, lengths)

    def next_word_log_probabilities(self, words: Tensor, lengths: Tensor | None = None) -> Tensor:
        """log P(next word | sentence as a prefix): [B, V + 1] float64, the last column for "it ends here".

        Words may be [B, 0] and lengths 0: the first word. Rows sum to 1, or to 0 after an impossible prefix.
        """
        return prefix.log_next_words(self, words, lengths)

    def next_word_entropy(self, words: Tensor, lengths: Tensor | None = None) -> Tensor:
        """Entropy in nats of what comes after the first m words, a word or the end, m = 0 … n: [B, n + 1]."""
        return prefix.next_word_entropies(self.prefix_states(words, lengths), self.emissions)

    def growing_prefix(self) -> GrowingPrefix:
        """An empty prefix to which words can be added one at a time, at the cost of one inside pass in all."""
        return GrowingPrefix(self.root, self.left, self.right, self.closure())

    def termination_probability(self) -> Tensor:
        """The probability that a derivation ever ends: below 1 the rest are endless sentences; a scalar or [B]."""
        return termination_probabilities(self.root, self.left, self.right)

    def to_dense(self) -> DenseGrammar:
        """The same grammar with a probability for every A → B C: N (N + P)² numbers, for small grammars only."""
        rules = self.left[..., :, None] * self.right[..., None, :]
        return DenseGrammar(self.root, rules, self.emissions)

    def closure(self) -> Closure:
        """The left-corner closure that prefix probabilities need, computed once and kept; without gradients."""
        if not self._closure:
            with torch.no_grad():
                self._closure.append(left_corner_closure(self.root, self.left, self.right))
        return self._closure[0]
