"""The most probable sequence of states: the Viterbi algorithm."""

import torch
from torch import Tensor

from simplepcfg.ops.forward.arguments import ForwardArguments
from simplepcfg.ops.modes import without_modes

# The number of log-probabilities of pairs of states that are held at a time.
PAIRS_AT_ONCE = 1 << 24


@without_modes
@torch.no_grad()
def best_states(given: ForwardArguments) -> tuple[Tensor, Tensor]:
    """Find the most probable sequence of states of each sentence.

    Returns:
        ``(states, log_probability)``: ``[B, n]``, −1 beyond the end of a sentence and for a sentence of probability 0;
        and log p(words, states), ``[B]``. Low-rank transitions are multiplied for some states at a time, which saves
        memory but no time.
    """
    batch, n, states = given.log_emissions.shape
    factors = [factor.to(given.log_emissions.dtype) for factor in given.factors]
    score = given.start.log() + given.log_emissions[:, 0]  # [B, S]
    came_from = torch.empty(n, batch, states, dtype=torch.int64, device=score.device)
    stay = torch.arange(states, device=score.device).expand(batch, -1)
    whole = factors[0].mT.log() if len(factors) == 1 else None  # [S, S], transposed: the next state first
    step = max(1, PAIRS_AT_ONCE // (batch * states))
    for t in range(1, n):
        sides = []
        for part in (slice(first, first + step) for first in range(0, states, step)):
            into = whole[..., part, :] if whole is not None else (factors[0] @ factors[1][..., part]).mT.log()
            sides.append((score[:, None] + into).max(-1))
        best, which = (torch.cat(side, 1) for side in zip(*sides, strict=True))  # [B, S]
        here, active = best + given.log_emissions[:, t], given.active(t)
        score = here if active is None else torch.where(active, here, score)
        came_from[t] = which if active is None else torch.where(active, which, stay)
    log_best, state = score.max(-1)
    path = torch.empty(batch, n, dtype=torch.int64, device=score.device)
    for t in range(n - 1, -1, -1):
        path[:, t] = state
        if t:
            state = came_from[t].gather(1, state[:, None])[:, 0]
    path.masked_fill_((log_best == -torch.inf)[:, None], -1)
    if given.lengths is not None:
        beyond = torch.arange(n, device=score.device) >= given.lengths.to(score.device)[:, None]
        path.masked_fill_(beyond, -1)
    return path, log_best
