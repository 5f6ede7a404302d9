"""Filtering: the distribution of the state at each word given the words up to it, differentiable by autograd."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from simplepcfg.ops.forward.arguments import ForwardArguments
from simplepcfg.ops.logs import safe_log, safe_logsumexp


@dataclass(frozen=True, slots=True)
class Chain:
    """A hidden Markov model with the log-emissions of a batch, which are 0 beyond the end of a sentence."""

    log_emissions: Tensor  # [B, n, S]
    start: Tensor  # [S] or [B, S]
    factors: tuple[Tensor, ...]  # factors of the transitions

    @classmethod
    def of(cls, given: ForwardArguments) -> "Chain":
        """Convert checked arguments, keeping their autograd graph."""
        words = given.log_emissions
        if given.lengths is not None:
            beyond = torch.arange(words.shape[1]) >= given.lengths[:, None]
            words = words.masked_fill(beyond.to(words.device)[..., None], 0.0)
        return cls(words, given.start, tuple(factor.to(words.dtype) for factor in given.factors))

    def apply_transitions(self, rows: Tensor) -> Tensor:
        """Multiply rows [B, S] with the transition matrix."""
        for factor in self.factors:
            rows = rows @ factor if factor.dim() == 2 else torch.bmm(rows[:, None], factor)[:, 0]
        return rows

    def steps(self) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """Yield for each word P(state given the words before) [B, S], and the results of ``filtered``."""
        batch, n, states = self.log_emissions.shape
        predicted = self.start.expand(batch, states)
        for t in range(n):
            known, log_word = filtered(predicted, self.log_emissions[:, t])
            yield predicted, known, log_word
            predicted = self.apply_transitions(known)


def filtered(predicted: Tensor, log_emissions: Tensor) -> tuple[Tensor, Tensor]:
    """Compute P(state given the words up to this one) [B, S] and log P(word given the words before) [B].

    For a word of probability 0 the former is 0 and the latter −inf, with a gradient of 0.
    """
    logs = safe_log(predicted) + log_emissions
    log_word = safe_logsumexp(logs, -1)
    return (logs - torch.where(log_word > -torch.inf, log_word, 0.0)[:, None]).exp(), log_word


def filtered_log_p(given: ForwardArguments) -> Tensor:
    """Compute log p of each sentence, [B], as a sum over its words; −inf with a gradient of 0 where one is impossible.

    It can be differentiated any number of times.
    """
    log_words = torch.stack([log_word for _, _, log_word in Chain.of(given).steps()], 1)  # [B, n]
    if given.lengths is not None:
        beyond = torch.arange(log_words.shape[1]) >= given.lengths[:, None]
        log_words = log_words.masked_fill(beyond.to(log_words.device), 0.0)
    impossible = (log_words == -torch.inf).any(1)
    return log_words.masked_fill(impossible[:, None], 0.0).sum(1).masked_fill(impossible, -torch.inf)
