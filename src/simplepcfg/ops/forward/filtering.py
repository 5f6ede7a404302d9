"""Filtering: the distribution of the state at each word given the words up to it, differentiable by autograd."""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from simplepcfg.ops.forward.arguments import ForwardArguments
from simplepcfg.ops.logs import safe_log, safe_logsumexp


def filtering(given: ForwardArguments) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield for each word P(state given the words before) [B, S] and log P(word given the words before) [B].

    Log-emissions count as 0 beyond the end of a sentence. The results are in the autograd graph of the arguments.
    """
    words = given.log_emissions
    batch, n, states = words.shape
    if given.lengths is not None:
        beyond = torch.arange(n) >= given.lengths[:, None]
        words = words.masked_fill(beyond.to(words.device)[..., None], 0.0)
    factors = [factor.to(words.dtype) for factor in given.factors]
    predicted = given.start.expand(batch, states)
    for t in range(n):
        known, log_word = filtered(predicted, words[:, t])
        yield predicted, log_word
        predicted = next_states(known, factors)


def next_states(rows: Tensor, factors: Sequence[Tensor]) -> Tensor:
    """Multiply rows [B, S] with the transition matrix."""
    for factor in factors:
        rows = rows @ factor if factor.dim() == 2 else torch.bmm(rows[:, None], factor)[:, 0]
    return rows


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
    log_words = torch.stack([log_word for _, log_word in filtering(given)], 1)  # [B, n]
    if given.lengths is not None:
        beyond = torch.arange(log_words.shape[1]) >= given.lengths[:, None]
        log_words = log_words.masked_fill(beyond.to(log_words.device), 0.0)
    impossible = (log_words == -torch.inf).any(1)
    return log_words.masked_fill(impossible[:, None], 0.0).sum(1).masked_fill(impossible, -torch.inf)
