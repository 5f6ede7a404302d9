"""The Viterbi algorithm of hidden Markov models."""

import torch
from torch import Tensor

from simplepcfg.ops.autocast import without_autocast
from simplepcfg.ops.forward.arguments import Transitions, check_arguments

# The number of log-probabilities of pairs of states that are held at a time.
PAIRS_AT_ONCE = 1 << 24


@without_autocast
@torch.no_grad()
def best_states(
    log_emissions: Tensor, start: Tensor, transitions: Transitions, *, lengths: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Find the most probable sequence of states of each sentence.

    The arguments are those of ``forward``.

    Returns:
        ``(states, log_probability)``: ``[B, n]``, −1 beyond the end of a sentence and for a sentence of probability 0;
        and log p(words, states), ``[B]``. Low-rank transitions are multiplied for some states at a time, which saves
        memory but no time.
    """
    given = check_arguments(log_emissions, start, transitions, lengths, None)
    batch, n, states = log_emissions.shape
    factors = [factor.to(given.log_emissions.dtype) for factor in given.factors]
    score = given.start.log() + given.log_emissions[:, 0]  # [B, S]
    came_from = torch.empty(n, batch, states, dtype=torch.int64, device=score.device)
    every = torch.arange(states, device=score.device).expand(batch, states)
    step = max(1, PAIRS_AT_ONCE // (batch * states))
    for t in range(1, n):
        parts = [_best_before(score, factors, slice(k, min(k + step, states))) for k in range(0, states, step)]
        best, which = (torch.cat(part, -1) for part in zip(*parts, strict=True))
        here = best + given.log_emissions[:, t]
        active = given.active(t)
        score = here if active is None else torch.where(active, here, score)
        came_from[t] = which if active is None else torch.where(active, which, every)
    log_best, last = score.max(-1)
    found = torch.empty(batch, n, dtype=torch.int64, device=score.device)
    for t in range(n - 1, -1, -1):
        found[:, t] = last
        if t:
            last = came_from[t].gather(1, last[:, None])[:, 0]
    beyond = log_best == -torch.inf
    found.masked_fill_(beyond[:, None], -1)
    if given.lengths is not None:
        found.masked_fill_(torch.arange(n, device=score.device) >= given.lengths.to(score.device)[:, None], -1)
    return found, log_best


def _best_before(score: Tensor, factors: list[Tensor], part: slice) -> tuple[Tensor, Tensor]:
    """Find the best previous state of each state of a part, and its log-probability: [B, part] each."""
    columns = factors[-1][..., part]
    if len(factors) == 2:
        columns = factors[0] @ columns  # [S, part] or [B, S, part]
    best, which = (score[:, :, None] + columns.log()).max(1)
    return best, which
