"""Filtering: the distribution of the state at each word given the words up to it, in float64 and differentiable."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from simplepcfg.ops.forward.arguments import ForwardArguments
from simplepcfg.ops.logs import safe_log, safe_logsumexp


@dataclass(frozen=True, slots=True)
class Chain:
    """A hidden Markov model in float64 with the log-emissions of a batch, which are 0 beyond the end of a sentence."""

    log_emissions: Tensor  # [B, n, S]
    start: Tensor  # [S] or [B, S]
    factors: tuple[Tensor, ...]  # factors of the transitions

    @classmethod
    def of(cls, given: ForwardArguments) -> "Chain":
        """Convert checked arguments, keeping their autograd graph."""
        words = given.log_emissions.double()
        if given.lengths is not None:
            beyond = torch.arange(words.shape[1]) >= given.lengths[:, None]
            words = words.masked_fill(beyond.to(words.device)[..., None], 0.0)
        return cls(words, given.start.double(), tuple(factor.double() for factor in given.factors))

    def apply_transitions(self, rows: Tensor) -> Tensor:
        """Multiply rows [B, S] with the transition matrix."""
        for factor in self.factors:
            rows = rows @ factor if factor.dim() == 2 else torch.bmm(rows[:, None], factor)[:, 0]
        return rows

    def steps(self) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """Yield for each word P(state given the words before) [B, S], P(state given the words up to it) [B, S] and
        log P(word given the words before) [B].

        From a word of probability 0 on, the former two are 0 and the last is −inf, with a gradient of 0.
        """
        batch, n, states = self.log_emissions.shape
        predicted = self.start.expand(batch, states)
        for t in range(n):
            logs = safe_log(predicted) + self.log_emissions[:, t]
            log_word = safe_logsumexp(logs, -1)
            possible = log_word > -torch.inf
            known = (logs - torch.where(possible, log_word, 0.0)[:, None]).exp()
            yield predicted, known, log_word
            predicted = self.apply_transitions(known)
