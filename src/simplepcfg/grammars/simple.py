"""A simple PCFG: root, left and right production probabilities, and emissions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from simplepcfg.errors import InputError, NumericalError
from simplepcfg.grammars.base import Grammar
from simplepcfg.grammars.dense import DenseGrammar
from simplepcfg.grammars.emissions import NO_EMISSIONS, Emissions
from simplepcfg.grammars.kept import Kept
from simplepcfg.grammars.prefix import PrefixTable
from simplepcfg.grammars.sampling import SampledSentences, sampled_sentences, tempered
from simplepcfg.ops.arguments import Sentences, SimpleRules
from simplepcfg.ops.autograd_context import requires_graph
from simplepcfg.ops.entropy import derivation_entropy
from simplepcfg.ops.inside import log_partition, log_partition_and_spans
from simplepcfg.ops.marginals import RuleCounts, rule_counts, symbol_marginals, tag_marginals
from simplepcfg.ops.marginals.given_trees import symbols_given_trees
from simplepcfg.ops.marginals.pruned import pruned_span_marginals
from simplepcfg.ops.prefix import (
    SENTENCE_THRESHOLD,
    Closure,
    GrowingPrefix,
    PrefixStates,
    left_corner_closure,
    prefix_states,
    pruned_prefix_states,
    termination_probabilities,
)
from simplepcfg.ops.sample import sample_derivations, sample_trees
from simplepcfg.ops.tensor_fields import with_tensors
from simplepcfg.ops.trees import LabelledTree, Trees, rule_log_probabilities
from simplepcfg.ops.viterbi import viterbi
from simplepcfg.ops.viterbi.k_best import k_best

LEAST_NONTERMINALS = 512  # with fewer nothing is pruned


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class SimpleGrammar(Grammar[SampledSentences, RuleCounts]):
    """A → B C with probability left[A, B] · right[A, C]; symbols are nonterminals first, then preterminals.

    Rows of the rules sum to 1. Without ``emissions`` the grammar is asked about log-emissions [B, n, P] in place of
    word ids. When sentences are drawn, each child of a rule is a choice of its own.
    """

    root: Tensor  # [N] or [B, N]
    left: Tensor  # [N, N + P] or [B, N, N + P]
    right: Tensor  # as left
    emissions: Emissions = NO_EMISSIONS
    precision: str | None = None
    backend: str = "auto"
    _closure: Kept[Closure] = field(default_factory=Kept, init=False, repr=False, compare=False)

    @property
    def nonterminals(self) -> int:
        return self.root.shape[-1]

    @property
    def span_numbers(self) -> int:
        return self.nonterminals

    def to_dense(self) -> DenseGrammar:
        """Return the same grammar with a probability for every A → B C: N (N + P)² numbers, if it is small."""
        return DenseGrammar(self.root, self.left[..., :, None] * self.right[..., None, :], self.emissions)

    @property
    def rules(self) -> SimpleRules:
        """The rules with the precision of their products, as the operations take them."""
        return SimpleRules(self.root, self.left, self.right, self.precision)

    def closure(self) -> Closure:
        """Return the left-corner closure that prefix probabilities need, without gradients.

        It is computed once, and again after rules were changed in place.
        """
        rules = self.rules
        with torch.no_grad():
            return self._closure.of(rules.tensors, lambda: left_corner_closure(rules))

    def _closure_to_prune(self) -> Closure | None:
        """Return the closure, or None where nothing is pruned because the exact forms take less time."""
        single = self.root.dim() == 1 and self.left.dim() == 2
        on_cpu = self.left.device.type == "cpu" and self.backend in ("auto", "torch")
        if not (single and on_cpu and self.nonterminals >= LEAST_NONTERMINALS):
            return None
        try:
            return self.closure()
        except (InputError, NumericalError):  # rows do not sum to 1, or never produce a word; trees do not need that
            return None

    def growing_prefix(self) -> GrowingPrefix:
        return GrowingPrefix(self.rules, self.closure())

    def termination_probability(self) -> Tensor:
        return termination_probabilities(self.rules)

    @property
    def _tree_backend(self) -> str:
        """The backend for single trees, which not every backend of the inside algorithm has."""
        return self.backend if self.backend in ("torch", "triton") else "auto"

    def _differentiated(self, sentences: Sentences) -> bool:
        return requires_graph(sentences.log_emissions, *self.rules.tensors, sentences.span_bonus)

    def _log_partition(self, sentences: Sentences) -> Tensor:
        return log_partition(self.rules, sentences, backend=self.backend)

    def _pruned_log_partition(self, sentences: Sentences) -> tuple[Tensor, Tensor]:
        closure = self._closure_to_prune() if sentences.span_bonus is None else None
        if closure is not None:
            pruned = pruned_prefix_states(self.rules, sentences, closure, threshold=SENTENCE_THRESHOLD)
            if pruned is not None:
                states, errors = pruned
                return states.log_sentence[sentences.last_posts()].to(self.root.dtype), errors.sum(-1)
        return Grammar._pruned_log_partition(self, sentences)

    def _span_marginals(self, sentences: Sentences) -> Tensor:
        graph = self._differentiated(sentences)
        return log_partition_and_spans(self.rules, sentences, backend=self.backend, create_graph=graph)[1]

    def _decoding_marginals(self, sentences: Sentences) -> Tensor:
        batch, n, _ = sentences.log_emissions.shape
        # The closure takes as long as the chart of about N spans, so that little text takes the exact chart.
        pays = bool(self._closure) or batch * n * n > 2 * self.nonterminals
        closure = self._closure_to_prune() if pays else None
        pruned = None if closure is None else pruned_span_marginals(self.rules, sentences, closure)
        return self._span_marginals(sentences) if pruned is None else pruned

    def _symbol_marginals(self, sentences: Sentences, spans: Tensor | None) -> Tensor:
        with torch.no_grad():
            return symbol_marginals(self.rules, sentences, spans=spans, backend=self.backend)[1]

    def _symbols_given_trees(
        self, log_emissions: Tensor, trees: Sequence[Sequence[tuple[int, int]]]
    ) -> tuple[list[Tensor], list[Tensor]]:
        if self.root.dim() == 1:
            return symbols_given_trees(self.rules, log_emissions, trees)
        each = [self.of_sentence(b).symbols_given_trees(log_emissions[b], trees=[trees[b]]) for b in range(len(trees))]
        return [nodes for (nodes,), _ in each], [words for _, (words,) in each]

    def _tag_marginals(self, sentences: Sentences) -> Tensor:
        graph = self._differentiated(sentences)
        return tag_marginals(self.rules, sentences, backend=self.backend, create_graph=graph)[1]

    def _rule_counts(self, sentences: Sentences) -> RuleCounts:
        graph = self._differentiated(sentences)
        return rule_counts(self.rules, sentences, backend=self.backend, create_graph=graph)[1]

    def _viterbi(self, sentences: Sentences) -> Trees:
        return viterbi(self.rules, sentences, backend=self._tree_backend)

    def _k_best(self, sentences: Sentences, k: int) -> list[list[LabelledTree]]:
        return k_best(self.rules, sentences, k, backend=self._tree_backend)

    def _sample_trees(self, sentences: Sentences, samples: int, generator: torch.Generator) -> Trees:
        return sample_trees(self.rules, sentences, samples, generator)

    def _sample(self, count: int, max_length: int, temperature: float, generator: torch.Generator) -> SampledSentences:
        rules = self.rules.detach()
        cooled = with_tensors(rules, lambda tensor: tempered(tensor, temperature))
        drawn = sample_derivations(cooled, count, max_length, generator)
        trees, lengths, _ = drawn
        log_rules = rule_log_probabilities(rules, torch.zeros_like(lengths), trees)
        return sampled_sentences(self.emissions, drawn, log_rules, temperature, generator, rules.left.dtype)

    def _entropy(self, sentences: Sentences) -> Tensor:
        return derivation_entropy(self.rules, sentences, backend=self.backend)

    def _prefix_states(self, sentences: Sentences, ends: bool = True) -> PrefixStates:
        return prefix_states(self.rules, sentences, closure=self.closure(), backend=self.backend, ends=ends)

    def _pruned_prefix_states(self, sentences: Sentences, ends: bool) -> tuple[PrefixTable, Tensor]:
        closure = self._closure_to_prune()
        pruned = None if closure is None else pruned_prefix_states(self.rules, sentences, closure, ends=ends)
        return pruned or Grammar._pruned_prefix_states(self, sentences, ends)
