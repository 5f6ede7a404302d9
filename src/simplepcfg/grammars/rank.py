"""A PCFG whose rules are a sum of rank-one terms, answered by the simple grammar over its ranks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import wraps
from inspect import getdoc
from typing import ClassVar, Concatenate, ParamSpec, TypeVar

import torch
from torch import Tensor

from simplepcfg.errors import InputError
from simplepcfg.grammars.base import Grammar
from simplepcfg.grammars.dense import DenseGrammar
from simplepcfg.grammars.emissions import NO_EMISSIONS, Emissions
from simplepcfg.grammars.kept import Kept
from simplepcfg.grammars.sampling import SampledSentences, sampled_sentences, tempered
from simplepcfg.grammars.simple import SimpleGrammar
from simplepcfg.ops.arguments import Sentences
from simplepcfg.ops.autograd_context import requires_graph
from simplepcfg.ops.dense.marginals import DenseRuleCounts
from simplepcfg.ops.modes import without_modes
from simplepcfg.ops.sample import sample_derivations
from simplepcfg.ops.sample.ranks import Factors, rank_rule_log_probabilities, with_symbols
from simplepcfg.ops.tensor_fields import with_tensors
from simplepcfg.ops.trees import Trees, scored_trees

# Rules A → B C that are held to answer questions about nonterminals: N = 128 with P = 256 has 19 million.
MOST_RULES = 1 << 25

Arguments = ParamSpec("Arguments")
Answer = TypeVar("Answer")
Family = TypeVar("Family", SimpleGrammar, DenseGrammar)


def _by(
    family: str, method: Callable[Concatenate[Family, Arguments], Answer]
) -> Callable[Concatenate[RankGrammar, Arguments], Answer]:
    """Answer a question by the grammar that the method ``family`` returns."""

    @wraps(method)
    def answer(grammar: RankGrammar, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Answer:
        return method(getattr(grammar, family)(), *args, **kwargs)

    answer.__doc__ = getdoc(method)  # which may be that of the base class
    return answer


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class RankGrammar(Grammar[SampledSentences, DenseRuleCounts]):
    """A → B C with probability Σ_r up[A, r] · to_left[r, B] · to_right[r, C]; nonterminals first, then preterminals.

    A derivation that also says which r each rule took is one of a simple grammar whose nonterminals are the ranks:

        L[r, r'] = Σ_A to_left[r, A] up[A, r'],  L[r, T] = to_left[r, T],  R likewise,  root[r] = Σ_A root[A] up[A, r]

    Summed over ranks it gives every sentence and every unlabelled tree the same probability as the grammar itself, so
    it answers all questions about words, spans and tags, and random trees are drawn from it. Other questions about
    nonterminals go to the dense grammar, since the best derivation with ranks is not the best one with symbols; they
    raise ``InputError`` where that grammar is too large to hold. The entropy over derivations with ranks as labels is
    ``to_simple().entropy``: another distribution. When sentences are drawn, the rank of a rule is a choice, and so is
    each of its children.
    """

    root: Tensor  # [N]
    up: Tensor  # [N, R]: π(A → r); rows sum to 1, as those of the others do
    to_left: Tensor  # [R, N + P]: π(r → B ·)
    to_right: Tensor  # [R, N + P]: π(r → · C)
    emissions: Emissions = NO_EMISSIONS
    precision: str | None = None
    backend: str = "auto"
    _simple: Kept[SimpleGrammar] = field(default_factory=Kept, init=False, repr=False, compare=False)
    _dense: Kept[DenseGrammar] = field(default_factory=Kept, init=False, repr=False, compare=False)

    family: ClassVar[str] = "a rank grammar"

    _log_partition = _by("to_simple", SimpleGrammar._log_partition)
    _pruned_log_partition = _by("to_simple", SimpleGrammar._pruned_log_partition)
    _span_marginals = _by("to_simple", SimpleGrammar._span_marginals)
    _decoding_marginals = _by("to_simple", SimpleGrammar._decoding_marginals)
    _tag_marginals = _by("to_simple", SimpleGrammar._tag_marginals)
    _prefix_states = _by("to_simple", SimpleGrammar._prefix_states)
    _pruned_prefix_states = _by("to_simple", SimpleGrammar._pruned_prefix_states)
    growing_prefix = _by("to_simple", SimpleGrammar.growing_prefix)
    termination_probability = _by("to_simple", SimpleGrammar.termination_probability)
    closure = _by("to_simple", SimpleGrammar.closure)

    _viterbi = _by("to_dense", DenseGrammar._viterbi)
    _k_best = _by("to_dense", DenseGrammar._k_best)
    _symbol_marginals = _by("to_dense", DenseGrammar._symbol_marginals)
    _rule_counts = _by("to_dense", DenseGrammar._rule_counts)
    _entropy = _by("to_dense", DenseGrammar._entropy)

    @property
    def factors(self) -> Factors:
        """Root, up, to_left, to_right."""
        return self.root, self.up, self.to_left, self.to_right

    @property
    def nonterminals(self) -> int:
        return self.root.shape[-1]

    @property
    def span_numbers(self) -> int:
        return self.up.shape[-1]

    @without_modes
    def to_simple(self) -> SimpleGrammar:
        """Return the simple grammar over ranks.

        It is kept once computed, but made anew where factors need gradients, and after they were changed in place.
        """
        if requires_graph(*self.factors):
            return self._make_simple()
        return self._simple.of(self.factors, self._make_simple)

    def _make_simple(self) -> SimpleGrammar:
        nonterminals = self.nonterminals
        up = self.up.to(self.to_left.dtype)
        left, right = (
            torch.cat((rules[..., :nonterminals] @ up, rules[..., nonterminals:]), -1)  # [R, R + P]
            for rules in (self.to_left, self.to_right)
        )
        root = (self.root.unsqueeze(-2) @ self.up).squeeze(-2)
        return SimpleGrammar(root, left, right, self.emissions, self.precision, self.backend)

    @without_modes
    def to_dense(self) -> DenseGrammar:
        """Return the same grammar with a probability for every A → B C, kept as ``to_simple`` is.

        Raises InputError for grammars with more than ``MOST_RULES`` such rules.
        """
        states, symbols = self.nonterminals, self.to_left.shape[-1]
        count = states * symbols**2
        if count > MOST_RULES:
            raise InputError(
                f"{self.family} of {states} nonterminals and {symbols - states} preterminals has {count} rules A → B C "
                f"and answers questions about nonterminals up to {MOST_RULES}; use a smaller one, or an sn-pcfg"
            )
        if requires_graph(*self.factors):
            return self._make_dense()
        return self._dense.of(self.factors, self._make_dense)

    def _make_dense(self) -> DenseGrammar:
        kind = self.root.dtype
        up, left, right = (factor.to(kind) for factor in (self.up, self.to_left, self.to_right))
        step = max(1, MOST_RULES // (self.to_left.shape[-1] * left.shape[0]))
        parts = [torch.matmul(left.T * some[:, None], right) for some in up.split(step)]  # [parents, S, S]
        return DenseGrammar(self.root, torch.cat(parts), self.emissions)

    def _sample(self, count: int, max_length: int, temperature: float, generator: torch.Generator) -> SampledSentences:
        plain = self.detached()
        cooled = with_tensors(plain, lambda factor: tempered(factor, temperature))
        ranks, lengths, log_kept = sample_derivations(cooled.to_simple().rules, count, max_length, generator)
        trees = with_symbols(cooled.factors, ranks, generator)
        log_rules = rank_rule_log_probabilities(plain.factors, trees)
        drawn = (trees, lengths, log_kept)
        return sampled_sentences(plain.emissions, drawn, log_rules, temperature, generator, plain.root.dtype)

    def _sample_trees(self, sentences: Sentences, samples: int, generator: torch.Generator) -> Trees:
        """Draw trees of any grammar, however large: ranks are drawn first, then symbols given ranks."""
        with torch.no_grad():
            drawn = self.to_simple()._sample_trees(sentences, samples, generator)
        batch, device = sentences.log_emissions.shape[0], sentences.log_emissions.device
        by_ranks = drawn.view(batch * samples)
        if not by_ranks.labels.shape[1]:  # single words have no tree
            return drawn
        ranks = (by_ranks.spans, by_ranks.splits, by_ranks.labels, by_ranks.tags)
        trees = with_symbols(self.factors, ranks, generator)
        sentence = torch.arange(batch, device=device).repeat_interleave(samples, output_size=batch * samples)
        log_rules = rank_rule_log_probabilities(self.factors, trees)
        scored = scored_trees(trees, log_rules, sentences.log_emissions, sentences.span_bonus, sentence)
        return scored.view(batch, samples)
