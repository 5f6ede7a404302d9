"""A PCFG whose rules are a sum of rank-one terms, answered by the simple grammar over its ranks."""

from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from simplepcfg.errors import InputError
from simplepcfg.grammars import rank_sampling
from simplepcfg.grammars.dense import DenseGrammar
from simplepcfg.grammars.described import described
from simplepcfg.grammars.emissions import Emissions
from simplepcfg.grammars.questions import Answers
from simplepcfg.grammars.sampling import SampledSentences
from simplepcfg.grammars.simple import SimpleGrammar
from simplepcfg.ops.dense.counts import DenseRuleCounts
from simplepcfg.ops.prefix import Closure, GrowingPrefix, PrefixStates
from simplepcfg.ops.sample.ranks import Factors
from simplepcfg.ops.trees import LabelledTree, Trees

# Rules A → B C that are held to answer questions about nonterminals: N = 128 with P = 256 has 19 million.
MOST_RULES = 1 << 25


@dataclass(frozen=True, slots=True)
class RankGrammar(Answers):
    """A → B C with probability Σ_r up[A, r] · to_left[r, B] · to_right[r, C]; nonterminals first, then preterminals.

    A derivation that also says which r each rule took is one of a simple grammar whose nonterminals are the ranks:

        L[r, r'] = Σ_A to_left[r, A] up[A, r'],  L[r, T] = to_left[r, T],  R likewise,  root[r] = Σ_A root[A] up[A, r]

    Summed over ranks it gives every sentence and every bare tree the same probability as the grammar itself, so all
    questions about words, spans and tags are asked of it, and random trees are made of its. Other questions about
    nonterminals are not, since the best derivation with ranks is not the best one with symbols: they go to the dense
    grammar, where that is small enough to hold, and are refused elsewhere.
    """

    root: Tensor  # [N]
    up: Tensor  # [N, R]: π(A → r); rows sum to 1, as those of the others do
    to_left: Tensor  # [R, N + P]: π(r → B ·)
    to_right: Tensor  # [R, N + P]: π(r → · C)
    emissions: Emissions
    precision: str | None = None
    backend: str = "auto"
    _simple: list[SimpleGrammar] = field(default_factory=list, init=False, repr=False, compare=False)  # once computed
    _dense: list[DenseGrammar] = field(default_factory=list, init=False, repr=False, compare=False)  # likewise

    family = "a rank grammar"
    refusal = "it sums over the symbols of a tree; use an sn-pcfg"

    __repr__ = described

    @property
    def factors(self) -> Factors:
        """Root, up, to_left, to_right."""
        return self.root, self.up, self.to_left, self.to_right

    def with_factors(self, root: Tensor, up: Tensor, to_left: Tensor, to_right: Tensor) -> "RankGrammar":
        """Another grammar with the same emissions and settings."""
        return RankGrammar(root, up, to_left, to_right, self.emissions, self.precision, self.backend)

    def to_simple(self) -> SimpleGrammar:
        """The simple grammar over ranks: kept once computed, but made anew where the factors want gradients."""
        if self._differentiable:
            return self._make_simple()
        if not self._simple:
            self._simple.append(self._make_simple())
        return self._simple[0]

    def _make_simple(self) -> SimpleGrammar:
        nonterminals = self.root.shape[-1]
        up = self.up.to(self.to_left.dtype)
        left, right = (
            torch.cat((rules[..., :nonterminals] @ up, rules[..., nonterminals:]), -1)  # [R, R + P]
            for rules in (self.to_left, self.to_right)
        )
        root = (self.root.unsqueeze(-2) @ self.up).squeeze(-2)
        return SimpleGrammar(root, left, right, self.emissions, self.precision, self.backend)

    def to_dense(self) -> DenseGrammar:
        """The same grammar with a probability for every A → B C, kept as ``to_simple`` is; for small grammars only."""
        states, symbols = self.root.shape[-1], self.to_left.shape[-1]
        count = states * symbols**2
        if count > MOST_RULES:
            raise InputError(
                f"{self.family} of {states} nonterminals and {symbols - states} preterminals has {count} rules A → B C "
                f"and answers questions about nonterminals up to {MOST_RULES}; use a smaller one, or an sn-pcfg"
            )
        if self._differentiable:
            return self._make_dense()
        if not self._dense:
            self._dense.append(self._make_dense())
        return self._dense[0]

    def _make_dense(self) -> DenseGrammar:
        kind = self.root.dtype
        up, left, right = (factor.to(kind) for factor in (self.up, self.to_left, self.to_right))
        step = max(1, MOST_RULES // (self.to_left.shape[-1] * left.shape[0]))
        parts = [torch.matmul(left.T * some[:, None], right) for some in up.split(step)]  # [parents, S, S]
        return DenseGrammar(self.root, torch.cat(parts), self.emissions)

    @property
    def _differentiable(self) -> bool:
        return torch.is_grad_enabled() and any(tensor.requires_grad for tensor in self.factors)

    def detached(self) -> "RankGrammar":
        """The same numbers without a way back to weights."""
        plain = self.with_factors(*(factor.detach() for factor in self.factors))
        return replace(plain, emissions=self.emissions.detached())

    @property
    def span_numbers(self) -> int:
        """Numbers that one copy of the chart holds for each span."""
        return self.up.shape[-1]

    def log_partition(
        self, words: Tensor, lengths: Tensor | None = None, *, span_bonus: Tensor | None = None
    ) -> Tensor:
        """log p(sentence) in nats, summed over all trees: [B]."""
        return self.to_simple().log_partition(words, lengths, span_bonus=span_bonus)

    def span_marginals(
        self, words: Tensor, lengths: Tensor | None = None, *, span_bonus: Tensor | None = None
    ) -> Tensor:
        """Posterior probability of each span of width 2 or more: [B, n + 1, n + 1]."""
        return self.to_simple().span_marginals(words, lengths, span_bonus=span_bonus)

    def decode(
        self, words: Tensor, lengths: Tensor | None = None, *, span_bonus: Tensor | None = None
    ) -> list[list[tuple[int, int]]]:
        """The minimum-Bayes-risk tree of each sentence, as spans of width 2 or more in preorder."""
        return self.to_simple().decode(words, lengths, span_bonus=span_bonus)

    def tag_marginals(
        self, words: Tensor, lengths: Tensor | None = None, *, span_bonus: Tensor | None = None
    ) -> Tensor:
        """Posterior of each preterminal over each word: [B, n, P]."""
        return self.to_simple().tag_marginals(words, lengths, span_bonus=span_bonus)

    def viterbi(self, words: Tensor, lengths: Tensor | None = None, *, span_bonus: Tensor | None = None) -> Trees:
        """The most probable tree of each sentence with its symbols, ranks summed out; by the dense grammar."""
        return self.to_dense().viterbi(words, lengths, span_bonus=span_bonus)

    def k_best(
        self, words: Tensor, lengths: Tensor | None = None, *, k: int, span_bonus: Tensor | None = None
    ) -> list[list[LabelledTree]]:
        """The k most probable trees of each sentence with their symbols, ranks summed out; by the dense grammar."""
        return self.to_dense().k_best(words, lengths, k=k, span_bonus=span_bonus)

    def sample_trees(
        self,
        words: Tensor,
        lengths: Tensor | None = None,
        *,
        samples: int,
        generator: torch.Generator,
        span_bonus: Tensor | None = None,
    ) -> Trees:
        """Independent trees of each sentence in proportion to their probability; leading dimensions [B, samples].

        Of grammars of any size. Log-probabilities are those of words and symbols, ranks summed out.
        """
        return rank_sampling.sample_trees(self, words, lengths, samples, generator, span_bonus)

    def sample(
        self, count: int, *, max_length: int, generator: torch.Generator, temperature: float = 1.0
    ) -> SampledSentences:
        """Sentences with their trees, drawn from the grammar given that they have at most ``max_length`` words.

        Every choice is made with probabilities raised to 1 / ``temperature`` and normalised again: that of a rank, and
        those of its children.
        """
        return rank_sampling.sample(self, count, max_length, temperature, generator)

    def symbol_marginals(
        self,
        words: Tensor,
        lengths: Tensor | None = None,
        *,
        spans: Tensor | None = None,
        span_bonus: Tensor | None = None,
    ) -> Tensor:
        """Posterior of each nonterminal over each span of width 2 or more, as a dense grammar gives it."""
        return self.to_dense().symbol_marginals(words, lengths, spans=spans, span_bonus=span_bonus)

    def rule_counts(
        self, words: Tensor, lengths: Tensor | None = None, *, span_bonus: Tensor | None = None
    ) -> DenseRuleCounts:
        """Expected uses of each rule A → B C, as a dense grammar gives them."""
        return self.to_dense().rule_counts(words, lengths, span_bonus=span_bonus)

    def entropy(self, words: Tensor, lengths: Tensor | None = None, *, span_bonus: Tensor | None = None) -> Tensor:
        """Entropy in nats over derivations labelled with symbols, ranks summed out; by the dense grammar: [B] float64.

        That over derivations with ranks as labels is ``to_simple().entropy``: another distribution.
        """
        return self.to_dense().entropy(words, lengths, span_bonus=span_bonus)

    def kl_divergence(
        self,
        other: Any,
        words: Tensor,
        lengths: Tensor | None = None,
        *,
        span_bonus: Tensor | None = None,
    ) -> Tensor:
        """KL(self ‖ other) over derivations labelled with symbols, ranks summed out; by the dense grammars."""
        return self.to_dense().kl_divergence(other, words, lengths, span_bonus=span_bonus)

    def tree_entropy(self, words: Tensor, lengths: Tensor | None = None, *, span_bonus: Tensor | None = None) -> Tensor:
        """Entropy over bare trees, by listing them: [B] float64; sentences of more than nine words are refused."""
        return self.to_simple().tree_entropy(words, lengths, span_bonus=span_bonus)

    def tree_kl_divergence(
        self,
        other: Any,
        words: Tensor,
        lengths: Tensor | None = None,
        *,
        span_bonus: Tensor | None = None,
    ) -> Tensor:
        """KL(self ‖ other) over bare trees, whatever the symbols or the family: [B] float64; up to nine words."""
        return self.to_simple().tree_kl_divergence(other, words, lengths, span_bonus=span_bonus)

    def prefix_log_probabilities(self, words: Tensor, lengths: Tensor | None = None) -> Tensor:
        """log P(a sentence begins with the first m words) in nats, m = 0 … n: [B, n + 1] float64."""
        return self.to_simple().prefix_log_probabilities(words, lengths)

    def surprisal(self, words: Tensor, lengths: Tensor | None = None) -> Tensor:
        """−log P(word | the words before it) in nats: [B, n] float64."""
        return self.to_simple().surprisal(words, lengths)

    def prefix_states(self, words: Tensor, lengths: Tensor | None = None) -> PrefixStates:
        """What is known after each prefix; see ``SimpleGrammar.prefix_states``."""
        return self.to_simple().prefix_states(words, lengths)

    def next_word_log_probabilities(self, words: Tensor, lengths: Tensor | None = None) -> Tensor:
        """log P(next word | sentence as a prefix): [B, V + 1] float64, the last column for "it ends here"."""
        return self.to_simple().next_word_log_probabilities(words, lengths)

    def next_word_entropy(self, words: Tensor, lengths: Tensor | None = None) -> Tensor:
        """Entropy in nats of what comes after the first m words, m = 0 … n: [B, n + 1]."""
        return self.to_simple().next_word_entropy(words, lengths)

    def growing_prefix(self) -> GrowingPrefix:
        """An empty prefix to which words can be added one at a time."""
        return self.to_simple().growing_prefix()

    def closure(self) -> Closure:
        """The left-corner closure that prefix probabilities need, computed once and kept."""
        return self.to_simple().closure()

    def termination_probability(self) -> Tensor:
        """The probability that a derivation ever ends: a scalar."""
        return self.to_simple().termination_probability()
