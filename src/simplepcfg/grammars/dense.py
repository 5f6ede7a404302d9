"""An ordinary PCFG: a probability for every A → B C, in one dense tensor."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor

from simplepcfg.errors import InputError
from simplepcfg.grammars import posteriors, prefix, sampling
from simplepcfg.grammars.described import described
from simplepcfg.grammars.emissions import Emissions, check_words
from simplepcfg.grammars.questions import Answers
from simplepcfg.grammars.sampling import SampledSentences
from simplepcfg.ops.dense import dense_inside, dense_span_posteriors, dense_symbol_posteriors
from simplepcfg.ops.dense.counts import DenseRuleCounts, dense_rule_counts, dense_tag_posteriors
from simplepcfg.ops.dense.entropy import dense_entropy, dense_kl
from simplepcfg.ops.dense.growing import GrowingDensePrefix
from simplepcfg.ops.dense.k_best import dense_k_best
from simplepcfg.ops.dense.prefix import DensePrefixes, dense_prefixes
from simplepcfg.ops.dense.sample import dense_sample_trees
from simplepcfg.ops.dense.termination import dense_termination_probabilities
from simplepcfg.ops.dense.viterbi import dense_viterbi
from simplepcfg.ops.marginals.wanted_spans import flat_cells
from simplepcfg.ops.mbr import best_trees
from simplepcfg.ops.trees import LabelledTree, Trees


@dataclass(frozen=True, slots=True)
class DenseGrammar(Answers):
    """A → B C with probability rules[A, B, C]; symbols are nonterminals first, then preterminals.

    Rules may have a leading batch dimension: one grammar a sentence, as compound models give. Sentences are word ids
    ``[B, n]``, 0 where a shorter sentence is padded, with ``lengths`` ``[B]`` where they differ.
    """

    root: Tensor  # [N] or [B, N]
    rules: Tensor  # [N, S, S] or [B, N, S, S], S = N + P
    emissions: Emissions
    backend: str = "auto"

    family: ClassVar[str] = "a dense grammar (n-pcfg, c-pcfg)"
    refusal: ClassVar[str] = "use an sn-pcfg"

    __repr__ = described

    def detached(self) -> "DenseGrammar":
        """The same numbers without a way back to weights."""
        return replace(self, root=self.root.detach(), rules=self.rules.detach(), emissions=self.emissions.detached())

    def of_sentence(self, sentence: int) -> "DenseGrammar":
        """The grammar of one sentence, where each has its own: rules without a batch dimension."""
        emissions = self.emissions.of_sentence(sentence)
        return replace(self, root=self.root[sentence], rules=self.rules[sentence], emissions=emissions)

    @property
    def span_numbers(self) -> int:
        """Numbers in memory for each span of a sentence: its symbols, and its share of matrices and pairs."""
        return 4 * self.root.shape[-1]

    def log_partition(
        self, words: Tensor, lengths: Tensor | None = None, *, span_bonus: Tensor | None = None
    ) -> Tensor:
        """log p(sentence) in nats, summed over all trees: [B]."""
        return dense_inside(*self._inputs(words, lengths), lengths=lengths, span_bonus=span_bonus, backend=self.backend)

    def span_marginals(
        self, words: Tensor, lengths: Tensor | None = None, *, span_bonus: Tensor | None = None
    ) -> Tensor:
        """Posterior probability of each span of width 2 or more: [B, n + 1, n + 1]; differentiable where rules are."""
        inputs = self._inputs(words, lengths)
        given = inputs if span_bonus is None else (*inputs, span_bonus)
        _, found = dense_span_posteriors(
            *inputs,
            lengths=lengths,
            span_bonus=span_bonus,
            backend=self.backend,
            create_graph=torch.is_grad_enabled() and any(tensor.requires_grad for tensor in given),
        )
        return found

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
        return dense_viterbi(*self._inputs(words, lengths), lengths=lengths, span_bonus=span_bonus)

    def k_best(
        self, words: Tensor, lengths: Tensor | None = None, *, k: int, span_bonus: Tensor | None = None
    ) -> list[list[LabelledTree]]:
        """The k most probable trees of each sentence with their symbols, best first; fewer where there are fewer."""
        return dense_k_best(*self._inputs(words, lengths), k, lengths=lengths, span_bonus=span_bonus)

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
        backend = self.backend if self.backend in ("naive", "torch") else "auto"
        return dense_sample_trees(
            *self._inputs(words, lengths), samples, generator, lengths=lengths, span_bonus=span_bonus, backend=backend
        )

    def sample(
        self, count: int, *, max_length: int, generator: torch.Generator, temperature: float = 1.0
    ) -> SampledSentences:
        """Sentences with their trees, drawn from the grammar given that they have at most ``max_length`` words.

        Every choice is made with probabilities raised to 1 / ``temperature`` and normalised again; both children of a
        rule are one choice. Rules must be one grammar's, without a batch dimension.
        """
        return sampling.sample_dense(self, count, max_length, temperature, generator)

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
        _, found = dense_symbol_posteriors(*self._inputs(words, lengths), lengths=lengths, span_bonus=span_bonus)
        if spans is None:
            return found
        return found.flatten(0, 2)[flat_cells(spans, *words.shape).to(found.device)]

    def tag_marginals(
        self, words: Tensor, lengths: Tensor | None = None, *, span_bonus: Tensor | None = None
    ) -> Tensor:
        """Posterior of each preterminal over each word: [B, n, P], not differentiable."""
        return dense_tag_posteriors(*self._inputs(words, lengths), lengths=lengths, span_bonus=span_bonus)[1]

    def rule_counts(
        self, words: Tensor, lengths: Tensor | None = None, *, span_bonus: Tensor | None = None
    ) -> DenseRuleCounts:
        """Expected uses of each rule, summed over the batch where it shares rules; not differentiable."""
        return dense_rule_counts(*self._inputs(words, lengths), lengths=lengths, span_bonus=span_bonus)[1]

    def entropy(self, words: Tensor, lengths: Tensor | None = None, *, span_bonus: Tensor | None = None) -> Tensor:
        """Entropy in nats of the distribution over labelled derivations: [B] float64, differentiable where rules are.

        -inf where a sentence has no derivation, and so no distribution.
        """
        return dense_entropy(*self._inputs(words, lengths), lengths=lengths, span_bonus=span_bonus)

    def kl_divergence(
        self,
        other: Any,
        words: Tensor,
        lengths: Tensor | None = None,
        *,
        span_bonus: Tensor | None = None,
    ) -> Tensor:
        """KL(self ‖ other) in nats over labelled derivations: [B] float64, differentiable where rules are.

        The other is a dense grammar of the same symbols, or one that has a ``to_dense()``. +inf where it lacks a rule
        that is used, -inf where this one has no derivation.
        """
        if not isinstance(other, DenseGrammar):
            if not hasattr(other, "to_dense"):
                raise InputError(f"{type(other).__name__} has no labelled derivations to compare; give another grammar")
            other = other.to_dense()
        return dense_kl(
            self._inputs(words, lengths), other._inputs(words, lengths), lengths=lengths, span_bonus=span_bonus
        )

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
        return dense_prefixes(*self._inputs(words, lengths), lengths=lengths).log_prefix

    def surprisal(self, words: Tensor, lengths: Tensor | None = None) -> Tensor:
        """−log P(word | the words before it) in nats: [B, n] float64; 0 beyond a sentence's length."""
        return prefix.surprisals(self.prefix_log_probabilities(words, lengths), lengths)

    def prefix_states(self, words: Tensor, lengths: Tensor | None = None) -> DensePrefixes:
        """What is known after each prefix, the empty one and the whole sentence included; with no gradients."""
        with torch.no_grad():
            return dense_prefixes(*self._inputs(words, lengths), lengths=lengths)

    def next_word_log_probabilities(self, words: Tensor, lengths: Tensor | None = None) -> Tensor:
        """log P(next word | sentence as a prefix): [B, V + 1] float64, the last column for "it ends here".

        Words may be [B, 0] and lengths 0: the first word. Rows sum to 1, or to 0 after an impossible prefix.
        """
        states = self.prefix_states(words, lengths)
        batch, n = words.shape
        ends = torch.full((batch,), n, device=words.device) if lengths is None else lengths.to(words.device)
        at = (torch.arange(batch, device=words.device), ends)
        log_prefix = states.log_prefix[at]
        log_end = states.log_sentence[at] - torch.where(log_prefix > -torch.inf, log_prefix, 0.0)
        return prefix.log_words_after(self.emissions, states.tags[at], log_end)

    def next_word_entropy(self, words: Tensor, lengths: Tensor | None = None) -> Tensor:
        """Entropy in nats of what comes after the first m words, a word or the end, m = 0 … n: [B, n + 1]."""
        return prefix.next_word_entropies(self.prefix_states(words, lengths), self.emissions)

    def growing_prefix(self) -> GrowingDensePrefix:
        """An empty prefix to which words can be added one at a time, at the cost of one inside pass in all."""
        return GrowingDensePrefix(self.root, self.rules)

    def termination_probability(self) -> Tensor:
        """The probability that a derivation ever ends: below 1 the rest are endless sentences; a scalar or [B]."""
        return dense_termination_probabilities(self.root, self.rules)

    def _inputs(self, words: Tensor, lengths: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """Log-emissions of the words, root, rules; every question comes by here, and its word ids are checked."""
        check_words(words, lengths, self.emissions)
        return self.emissions.log_probabilities(words), self.root, self.rules
