"""A simple PCFG: root, left and right production probabilities, and emissions."""

from dataclasses import dataclass

import torch
from torch import Tensor

from simplepcfg.grammars.emissions import Emissions
from simplepcfg.ops.inside import inside, span_posteriors
from simplepcfg.ops.mbr import best_trees


@dataclass(frozen=True, slots=True)
class SimpleGrammar:
    """A → B C with probability left[A, B] · right[A, C]; symbols are nonterminals first, then preterminals.

    Rules may have a leading batch dimension: one grammar a sentence, as compound models give. Sentences are word ids
    ``[B, n]``, 0 where a shorter sentence is padded, with ``lengths`` ``[B]`` where they differ.
    """

    root: Tensor  # [N] or [B, N]
    left: Tensor  # [N, N + P] or [B, N, N + P]
    right: Tensor
    emissions: Emissions
    precision: str | None = None
    backend: str = "auto"

    def log_partition(
        self, words: Tensor, lengths: Tensor | None = None, *, span_bonus: Tensor | None = None
    ) -> Tensor:
        """log p(sentence) in nats, summed over all trees: [B]."""
        return inside(
            self.emissions.log_probabilities(words),
            self.root,
            self.left,
            self.right,
            lengths=lengths,
            span_bonus=span_bonus,
            precision=self.precision,
            backend=self.backend,
        )

    def span_marginals(
        self, words: Tensor, lengths: Tensor | None = None, *, span_bonus: Tensor | None = None
    ) -> Tensor:
        """Posterior probability of each span of width 2 or more: [B, n + 1, n + 1]; differentiable where rules are."""
        log_emissions = self.emissions.log_probabilities(words)
        inputs = (log_emissions, self.root, self.left, self.right)
        given = inputs if span_bonus is None else (*inputs, span_bonus)
        _, posteriors = span_posteriors(
            *inputs,
            lengths=lengths,
            span_bonus=span_bonus,
            precision=self.precision,
            backend=self.backend,
            create_graph=torch.is_grad_enabled() and any(tensor.requires_grad for tensor in given),
        )
        return posteriors

    def decode(
        self, words: Tensor, lengths: Tensor | None = None, *, span_bonus: Tensor | None = None
    ) -> list[list[tuple[int, int]]]:
        """The minimum-Bayes-risk tree of each sentence, as spans of width 2 or more in preorder."""
        with torch.no_grad():
            return best_trees(self.span_marginals(words, lengths, span_bonus=span_bonus), lengths)
