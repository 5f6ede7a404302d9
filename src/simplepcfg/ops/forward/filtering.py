"""What is known of the state at each word given the words so far, in float64 and differentiable by everything."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from simplepcfg.ops.forward.arguments import ForwardArguments
from simplepcfg.ops.logs import safe_log, safe_logsumexp


@dataclass(frozen=True, slots=True)
class Chain:
    """The rules of a model in float64, and each word's log-emissions, 0 beyond a sentence."""

    log_emissions: Tensor  # [B, n, S]
    start: Tensor  # [S] or [B, S]
    factors: tuple[Tensor, ...]  # of the transitions

    @classmethod
    def of(cls, given: ForwardArguments) -> "Chain":
        """In the graph of what is given."""
        words = given.log_emissions.double()
        if given.lengths is not None:
            beyond = torch.arange(words.shape[1]) >= given.lengths[:, None]
            words = words.masked_fill(beyond.to(words.device)[..., None], 0.0)
        return cls(words, given.start.double(), tuple(factor.double() for factor in given.factors))

    def apply_transitions(self, rows: Tensor) -> Tensor:
        """Rows [B, S] times the transitions."""
        for factor in self.factors:
            rows = rows @ factor if factor.dim() == 2 else torch.bmm(rows[:, None], factor)[:, 0]
        return rows

    def steps(self) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """At each word P(state | words before) [B, S], P(state | words up to it) [B, S], log P(word | before) [B].

        From a word of probability 0 on the former two are 0 and the last is −inf, with a gradient of 0.
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
