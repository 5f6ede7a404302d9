"""The algorithms that a family of grammars implements. Those that it does not implement raise InputError."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Generic, TypeVar

import torch
from torch import Tensor

from simplepcfg.errors import InputError
from simplepcfg.grammars.prefix import PrefixTable
from simplepcfg.ops.arguments import Sentences
from simplepcfg.ops.logs import log_share
from simplepcfg.ops.trees import LabelledTree, Trees

Sampled = TypeVar("Sampled", covariant=True)  # what `sample` returns: sentences with trees, or with states
Counts = TypeVar("Counts", covariant=True)  # what `rule_counts` returns


class Algorithms(Generic[Sampled, Counts]):
    """One method for each question, on sentences whose words have been checked and whose emissions are known.

    ``Grammar`` has the public method of each, with its documentation. A family overrides the methods that it can
    answer.
    """

    __slots__ = ()
    family: ClassVar[str] = "this grammar"  # the name that users know a family by, as the subject of an error
    alternative: ClassVar[str] = "use an sn-pcfg"  # what an error recommends instead

    def _unsupported(self, answer: str) -> InputError:
        """Return the error for a question that the family does not support."""
        return InputError(f"{self.family} has no {answer}; {self.alternative}")

    def _log_partition(self, sentences: Sentences) -> Tensor:
        raise self._unsupported("log-probability of sentences")

    def _pruned_log_partition(self, sentences: Sentences) -> tuple[Tensor, Tensor]:
        """Return log p and by about how much it is too small, where leaving out spans takes less time."""
        log_z = self._log_partition(sentences)
        return log_z, torch.zeros_like(log_z)

    def _span_marginals(self, sentences: Sentences) -> Tensor:
        raise self._unsupported("span marginals")

    def _decoding_marginals(self, sentences: Sentences) -> Tensor:
        """Return span marginals that are precise enough to choose the best tree, faster where that is possible."""
        return self._span_marginals(sentences)

    def _symbol_marginals(self, sentences: Sentences, spans: Tensor | None) -> Tensor:
        raise self._unsupported("marginals of symbols over spans")

    def _symbols_given_trees(
        self, log_emissions: Tensor, trees: Sequence[Sequence[tuple[int, int]]]
    ) -> tuple[list[Tensor], list[Tensor]]:
        raise self._unsupported("symbols of given trees")

    def _tag_marginals(self, sentences: Sentences) -> Tensor:
        raise self._unsupported("tag marginals")

    def _rule_counts(self, sentences: Sentences) -> Counts:
        raise self._unsupported("expected rule counts")

    def _viterbi(self, sentences: Sentences) -> Trees:
        raise self._unsupported("most probable trees")

    def _k_best(self, sentences: Sentences, k: int) -> list[list[LabelledTree]]:
        raise self._unsupported("k best trees")

    def _sample_trees(self, sentences: Sentences, samples: int, generator: torch.Generator) -> Trees:
        raise self._unsupported("random trees of a sentence")

    def _sample(self, count: int, max_length: int, temperature: float, generator: torch.Generator) -> Sampled:
        raise self._unsupported("random sentences")

    def _entropy(self, sentences: Sentences) -> Tensor:
        raise self._unsupported("entropy over derivations")

    def _prefix_states(self, sentences: Sentences, ends: bool = True) -> PrefixTable:
        raise self._unsupported("prefix probabilities")

    def _pruned_prefix_states(self, sentences: Sentences, ends: bool) -> tuple[PrefixTable, Tensor]:
        """Return states and by about how much surprisals are too large, where leaving out nodes takes less time."""
        states = self._prefix_states(sentences, ends)
        return states, torch.zeros_like(states.log_prefix)

    def _next_tags(self, sentences: Sentences) -> tuple[Tensor, Tensor]:
        """Return P(preterminal of the next word given a prefix) [B, P] and log P(the sentence ends here) [B]."""
        states, at = self._prefix_states(sentences), sentences.last_posts()
        return states.tags_at(*at), log_share(states.log_sentence[at], states.log_prefix[at])
