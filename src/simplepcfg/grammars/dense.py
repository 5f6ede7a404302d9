"""An ordinary PCFG: a probability for every A → B C, in one dense tensor."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from simplepcfg.grammars.base import Grammar
from simplepcfg.grammars.emissions import NO_EMISSIONS, Emissions
from simplepcfg.grammars.sampling import SampledSentences, sampled_sentences, tempered
from simplepcfg.ops.arguments import Sentences
from simplepcfg.ops.autograd_context import requires_graph
from simplepcfg.ops.dense import DenseArguments, check_dense_arguments, dense_inside
from simplepcfg.ops.dense.marginals import (
    DenseRuleCounts,
    dense_entropy,
    dense_rule_counts,
    dense_span_marginals,
    dense_symbol_marginals,
    dense_tag_marginals,
)
from simplepcfg.ops.dense.prefix import (
    GrowingDensePrefix,
    dense_prefixes,
    dense_termination_probabilities,
)
from simplepcfg.ops.dense.sample import dense_sample_derivations, dense_sample_trees
from simplepcfg.ops.dense.trees import dense_k_best, dense_rule_log_probabilities, dense_viterbi
from simplepcfg.ops.marginals import flat_cells
from simplepcfg.ops.tag_prefixes import TagPrefixes
from simplepcfg.ops.trees import LabelledTree, Trees


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class DenseGrammar(Grammar[SampledSentences, DenseRuleCounts]):
    """A → B C with probability rules[A, B, C]; symbols are nonterminals first, then preterminals.

    Without ``emissions`` the grammar is asked about log-emissions [B, n, P] in place of word ids. Tag marginals and
    rule counts are not differentiable. When sentences are drawn, both children of a rule are one choice.
    """

    root: Tensor  # [N] or [B, N]
    rules: Tensor  # [N, S, S] or [B, N, S, S], S = N + P
    emissions: Emissions = NO_EMISSIONS

    @property
    def nonterminals(self) -> int:
        return self.root.shape[-1]

    @property
    def span_numbers(self) -> int:
        return self.nonterminals * (5 + self.nonterminals // 6) // 2  # symbols, and the share of children and pairs

    def growing_prefix(self) -> GrowingDensePrefix:
        return GrowingDensePrefix(self.root, self.rules)

    def termination_probability(self) -> Tensor:
        return dense_termination_probabilities(self.root, self.rules)

    def _inputs(self, sentences: Sentences) -> tuple[Tensor, Tensor, Tensor]:
        return sentences.log_emissions, self.root, self.rules

    def _arguments(self, sentences: Sentences) -> DenseArguments:
        return check_dense_arguments(*self._inputs(sentences), sentences.lengths, sentences.span_bonus)

    def _log_partition(self, sentences: Sentences) -> Tensor:
        return dense_inside(*self._inputs(sentences), lengths=sentences.lengths, span_bonus=sentences.span_bonus)

    def _span_marginals(self, sentences: Sentences) -> Tensor:
        graph = requires_graph(*self._inputs(sentences), sentences.span_bonus)
        return dense_span_marginals(self._arguments(sentences), create_graph=graph)[1]

    def _symbol_marginals(self, sentences: Sentences, spans: Tensor | None) -> Tensor:
        _, marginals = dense_symbol_marginals(self._arguments(sentences))
        if spans is None:
            return marginals
        return marginals.flatten(0, 2)[flat_cells(spans, *sentences.log_emissions.shape[:2]).to(marginals.device)]

    def _tag_marginals(self, sentences: Sentences) -> Tensor:
        return dense_tag_marginals(self._arguments(sentences))[1]

    def _rule_counts(self, sentences: Sentences) -> DenseRuleCounts:
        return dense_rule_counts(self._arguments(sentences))[1]

    def _viterbi(self, sentences: Sentences) -> Trees:
        return dense_viterbi(self._arguments(sentences))

    def _k_best(self, sentences: Sentences, k: int) -> list[list[LabelledTree]]:
        return dense_k_best(self._arguments(sentences), k)

    def _sample_trees(self, sentences: Sentences, samples: int, generator: torch.Generator) -> Trees:
        return dense_sample_trees(self._arguments(sentences), samples, generator)

    def _sample(self, count: int, max_length: int, temperature: float, generator: torch.Generator) -> SampledSentences:
        root, rules = self.root.detach(), self.rules.detach()
        cooled = tempered(rules.flatten(-2), temperature).view(rules.shape)
        drawn = dense_sample_derivations(tempered(root, temperature), cooled, count, max_length, generator)
        trees, lengths, _ = drawn
        log_rules = dense_rule_log_probabilities(root, rules, torch.zeros_like(lengths), trees)
        return sampled_sentences(self.emissions, drawn, log_rules, temperature, generator, rules.dtype)

    def _entropy(self, sentences: Sentences) -> Tensor:
        return dense_entropy(self._arguments(sentences))

    def _prefix_states(self, sentences: Sentences, ends: bool = True) -> TagPrefixes:
        return dense_prefixes(*self._inputs(sentences), lengths=sentences.lengths)
