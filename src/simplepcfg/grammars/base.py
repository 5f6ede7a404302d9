"""The interface of every grammar: its questions, with their arguments and documentation, written once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import torch
from torch import Tensor

from simplepcfg.errors import InputError
from simplepcfg.grammars.algorithms import Algorithms, Counts, Sampled
from simplepcfg.grammars.emissions import Emissions, check_words
from simplepcfg.grammars.prefix import (
    PrefixTable,
    SurprisalParts,
    log_words_after,
    next_word_entropies,
    surprisal_parts,
    surprisals,
)
from simplepcfg.grammars.sampling import check_temperature
from simplepcfg.ops.arguments import Sentences
from simplepcfg.ops.mbr import best_trees
from simplepcfg.ops.modes import without_modes
from simplepcfg.ops.tag_prefixes import GrowingTags
from simplepcfg.ops.tensor_fields import described, with_tensors
from simplepcfg.ops.trees import LabelledTree, Trees


class Grammar(Algorithms[Sampled, Counts]):
    """Rule probabilities with the questions that one can ask of them. Families are frozen dataclasses of tensors.

    The questions share these arguments:

    - ``words``: word ids ``[B, n]``, 0 where a shorter sentence is padded. A grammar can also be asked about
      sentences that have no word ids: a floating-point tensor ``[B, n, P]`` in place of ``words`` holds the
      log-probability of each word under each preterminal; ``[n, P]`` is a batch of one sentence.
    - ``lengths`` ``[B]``: the number of words of each sentence, where they differ; a tensor or a list of integers.
    - ``span_bonus`` ``[B, n + 1, n + 1]``: a log-weight for every tree that has the span (i, j), 0 ≤ i < j ≤ n;
      −inf forbids the span.

    Rules may have a leading batch dimension: one grammar for each sentence, as compound models have.

    Answers are in nats. Every question raises ``InputError`` for an id inside a sentence that belongs to no word (on a
    CPU; on a GPU looking would make the host wait, and nothing is checked), for shapes that do not fit, and where the
    family does not support it. docs/questions.md lists which answers can be differentiated.
    """

    __slots__ = ()
    emissions: Emissions

    __repr__ = described

    def detached(self) -> Self:
        """Return the same grammar without gradients, so that no answer pays for them."""
        return with_tensors(self, torch.Tensor.detach, emissions=self.emissions.detached())

    def of_sentence(self, sentence: int) -> Self:
        """Return the grammar of one sentence of a batch in which each has its own rules."""
        return with_tensors(self, lambda rules: rules[sentence], emissions=self.emissions.of_sentence(sentence))

    @property
    def nonterminals(self) -> int:
        """The number of nonterminals. Raises InputError where there are none."""
        raise self._unsupported("nonterminals")

    @property
    def span_numbers(self) -> int:
        """Floating-point numbers that a chart holds for each span of a sentence, by which memory is estimated."""
        raise self._unsupported("chart")

    @without_modes
    def log_emissions(self, words: Tensor, lengths: Tensor | None = None) -> Tensor:
        """Return the log-probability of each word under each preterminal: [B, n, P].

        Raises InputError for an id inside a sentence that belongs to no word. Given log-emissions, it returns them.
        """
        if isinstance(words, Tensor) and words.is_floating_point():
            if words.dim() not in (2, 3):
                raise InputError(f"log-emissions have shape {list(words.shape)}; give [B, n, P], or [n, P] for one")
            return words if words.dim() == 3 else words[None]
        check_words(words, lengths, self.emissions)
        # Torch takes an index of bytes for a mask, and none of 16 bits.
        words = words if words.dtype in (torch.int32, torch.int64) else words.long()
        return self.emissions.log_probabilities(words)

    def _sentences(self, words: Tensor, lengths: Tensor | None, span_bonus: Tensor | None = None) -> Sentences:
        return Sentences.of(self.log_emissions(words, lengths), lengths, span_bonus)

    @without_modes
    def log_partition(
        self, words: Tensor, lengths: Tensor | None = None, *, span_bonus: Tensor | None = None
    ) -> Tensor:
        """Compute log p of each sentence, summed over all derivations: [B]; −inf where there is none."""
        return self._log_partition(self._sentences(words, lengths, span_bonus))

    @without_modes
    def pruned_log_partition(
        self, words: Tensor, lengths: Tensor | None = None, *, span_bonus: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Compute log p of each sentence without improbable spans where that takes less time, and its estimated error.

        Both are [B]; the error is by about how much log p is too small. See ops/prefix/README.md.
        """
        with torch.no_grad():
            return self._pruned_log_partition(self._sentences(words, lengths, span_bonus))

    @without_modes
    def span_marginals(
        self, words: Tensor, lengths: Tensor | None = None, *, span_bonus: Tensor | None = None
    ) -> Tensor:
        """Compute the posterior probability of each span of two or more words: [B, n + 1, n + 1], 0 elsewhere."""
        return self._span_marginals(self._sentences(words, lengths, span_bonus))

    @without_modes
    def decode(
        self,
        words: Tensor,
        lengths: Tensor | None = None,
        *,
        span_bonus: Tensor | None = None,
        final_bonus: float = 0.0,
        exact: bool = False,
    ) -> list[list[tuple[int, int]]]:
        """Find the minimum-Bayes-risk tree of each sentence: its spans of two or more words, in preorder.

        A span whose bonus is −inf is in no tree. Raises InputError, which names the sentence, where that leaves none.
        ``final_bonus`` is that of ``best_trees``. Unless ``exact``, spans and symbols that are improbable may be left
        out on a CPU, and some trees of large grammars then differ; see ops/marginals/README.md.
        """
        sentences = self._sentences(words, lengths, span_bonus)
        forbidden = None if span_bonus is None else span_bonus == -torch.inf
        with torch.no_grad():
            spans = self._span_marginals(sentences) if exact else self._decoding_marginals(sentences)
            return best_trees(spans, lengths, forbidden, final_bonus)

    @without_modes
    def viterbi(self, words: Tensor, lengths: Tensor | None = None, *, span_bonus: Tensor | None = None) -> Trees:
        """Find the most probable tree of each sentence with its symbols; ``.to_list()`` gives the trees one by one.

        The log-probability of a tree is that of words and tree; −inf where a sentence has no tree.
        """
        return self._viterbi(self._sentences(words, lengths, span_bonus))

    @without_modes
    def k_best(
        self, words: Tensor, lengths: Tensor | None = None, *, k: int, span_bonus: Tensor | None = None
    ) -> list[list[LabelledTree]]:
        """Find the k most probable trees of each sentence with their symbols, best first; fewer if there are fewer.

        Raises InputError for a k below 1.
        """
        return self._k_best(self._sentences(words, lengths, span_bonus), k)

    @without_modes
    def sample_trees(
        self,
        words: Tensor,
        lengths: Tensor | None = None,
        *,
        samples: int,
        generator: torch.Generator,
        span_bonus: Tensor | None = None,
    ) -> Trees:
        """Draw independent trees of each sentence from their posterior: tensors with leading dimensions [B, samples].

        Raises InputError where ``samples`` is below 1.
        """
        return self._sample_trees(self._sentences(words, lengths, span_bonus), samples, generator)

    @without_modes
    def sample(self, count: int, *, max_length: int, generator: torch.Generator, temperature: float = 1.0) -> Sampled:
        """Draw sentences with their derivations, given that they have at most ``max_length`` words.

        Every choice is made with probabilities raised to 1 / ``temperature`` and renormalised: below 1, probable ones
        come more often. Raises InputError for rules with a batch dimension, and for counts, lengths or temperatures
        that are not positive.
        """
        check_temperature(temperature)
        return self._sample(count, max_length, temperature, generator)

    @without_modes
    def symbol_marginals(
        self,
        words: Tensor,
        lengths: Tensor | None = None,
        *,
        spans: Tensor | None = None,
        span_bonus: Tensor | None = None,
    ) -> Tensor:
        """Compute the posterior probability of each nonterminal over each span: [B, n + 1, n + 1, N].

        With ``spans`` [K, 3], rows of (sentence, start, end), of those spans only: [K, N]. Not differentiable.
        """
        return self._symbol_marginals(self._sentences(words, lengths, span_bonus), spans)

    @without_modes
    def symbols_given_trees(
        self, words: Tensor, lengths: Tensor | None = None, *, trees: Sequence[Sequence[tuple[int, int]]]
    ) -> tuple[list[Tensor], list[Tensor]]:
        """Compute P(symbol | sentence, tree) of the nodes and words of binary trees, such as those of ``decode``.

        For each sentence there is a tensor [spans, N], in the order of the spans of its tree, and one [words, P]. This
        takes a small part of the time of ``decode``. Not differentiable.
        """
        return self._symbols_given_trees(self.log_emissions(words, lengths), trees)

    @without_modes
    def tag_marginals(
        self, words: Tensor, lengths: Tensor | None = None, *, span_bonus: Tensor | None = None
    ) -> Tensor:
        """Compute the posterior probability of each preterminal (or state) over each word: [B, n, P]."""
        return self._tag_marginals(self._sentences(words, lengths, span_bonus))

    @without_modes
    def rule_counts(self, words: Tensor, lengths: Tensor | None = None, *, span_bonus: Tensor | None = None) -> Counts:
        """Compute the expected number of uses of each rule, summed over the batch where it shares its rules."""
        return self._rule_counts(self._sentences(words, lengths, span_bonus))

    @without_modes
    def entropy(self, words: Tensor, lengths: Tensor | None = None, *, span_bonus: Tensor | None = None) -> Tensor:
        """Compute the entropy of the distribution over labelled derivations: [B] float64.

        It is −inf where a sentence has no derivation, and hence no distribution.
        """
        return self._entropy(self._sentences(words, lengths, span_bonus))

    @without_modes
    def prefix_log_probabilities(self, words: Tensor, lengths: Tensor | None = None) -> Tensor:
        """Compute log P(a sentence begins with the first m words), m = 0 … n: [B, n + 1] float64."""
        return self.prefix_states(words, lengths, ends=False).log_prefix

    @without_modes
    def surprisal(self, words: Tensor, lengths: Tensor | None = None) -> Tensor:
        """Compute −log P(word | the words before it): [B, n] float64; 0 beyond the length of a sentence."""
        with torch.no_grad():
            sentences = self._sentences(words, lengths)
            return surprisals(self._prefix_states(sentences, ends=False).log_prefix, sentences.lengths)

    @without_modes
    def surprisal_parts(self, words: Tensor, lengths: Tensor | None = None) -> SurprisalParts:
        """Split the surprisal of each word into a syntactic and a lexical part: [B, n] float64 each.

        The syntactic part is KL(P(T | the words up to this one) ‖ P(T | the words before it)) over the preterminal T of
        the word, the lexical one the expected −log P(word | T) under the first of the two. Their sum is the surprisal,
        and neither is negative; a grammar whose preterminals are split into equal copies has the same parts.
        """
        with torch.no_grad():
            sentences = self._sentences(words, lengths)
            states = self._prefix_states(sentences, ends=False)
        return surprisal_parts(states, sentences.log_emissions, sentences.lengths)

    @without_modes
    def prefix_states(self, words: Tensor, lengths: Tensor | None = None, *, ends: bool = True) -> PrefixTable:
        """Compute what follows each prefix, the empty one and the whole sentence included; not differentiable.

        With ``ends=False`` what follows the whole sentence may be left out.
        """
        with torch.no_grad():
            return self._prefix_states(self._sentences(words, lengths), ends)

    @without_modes
    def pruned_prefix_states(
        self, words: Tensor, lengths: Tensor | None = None, *, ends: bool = True
    ) -> tuple[PrefixTable, Tensor]:
        """Compute ``prefix_states`` without improbable nodes where that takes less time, and the estimated error.

        The error, [B, n + 1], is by about how many nats the surprisal of each word, and of the end, is too large. See
        ops/prefix/README.md.
        """
        with torch.no_grad():
            return self._pruned_prefix_states(self._sentences(words, lengths), ends)

    @without_modes
    def next_word_log_probabilities(self, words: Tensor, lengths: Tensor | None = None) -> Tensor:
        """Compute log P(next word | sentence as a prefix): [B, V + 1] float64, the last column for its end.

        ``words`` may be [B, 0] and lengths 0, for the first word. Rows sum to 1, or to 0 after an impossible prefix.
        """
        with torch.no_grad():
            return log_words_after(self.emissions, *self._next_tags(self._sentences(words, lengths)))

    @without_modes
    def next_word_entropy(self, words: Tensor, lengths: Tensor | None = None) -> Tensor:
        """Compute the entropy of what follows the first m words, a word or the end, m = 0 … n: [B, n + 1]."""
        return next_word_entropies(self.prefix_states(words, lengths), self.emissions)

    def growing_prefix(self) -> GrowingTags:
        """Return an empty prefix to which words can be added one at a time."""
        raise self._unsupported("prefix probabilities")

    def termination_probability(self) -> Tensor:
        """Compute the probability that a derivation ever ends: a scalar, or [B]; below 1 the rest never end."""
        raise self._unsupported("probability of ending")
