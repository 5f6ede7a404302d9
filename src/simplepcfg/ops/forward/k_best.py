"""The k most probable sequences of states."""

import torch
from torch import Tensor

from simplepcfg.errors import InputError
from simplepcfg.ops.forward.arguments import Transitions, check_arguments

# Scores of pairs of states, k for each, that are held at a time.
PAIRS_AT_ONCE = 1 << 24


@torch.no_grad()
def k_best_states(
    log_emissions: Tensor, start: Tensor, transitions: Transitions, k: int, *, lengths: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """States ``[B, k, n]``, best first, −1 beyond a sentence, and log p of words and states ``[B, k]`` in float64.

    Where there are fewer sequences than k, the rest are −1 throughout and −inf. Every state keeps the k best ways to
    it, so a word costs k S² (and as much of low rank).
    """
    if k < 1:
        raise InputError(f"k = {k}; ask for at least one sequence of states")
    given = check_arguments(log_emissions.double(), start, transitions, lengths, None)
    batch, n, states = log_emissions.shape
    factors = [factor.double() for factor in given.factors]
    score = torch.full((batch, states, k), -torch.inf, dtype=torch.float64, device=log_emissions.device)
    score[..., 0] = given.start.log() + given.log_emissions[:, 0]
    # Of each state's k ways where they came from: which of the S · k before. A sentence that is over stays.
    came_from = torch.empty(n, batch, states * k, dtype=torch.int64, device=score.device)
    stay = torch.arange(states * k, device=score.device).expand(batch, -1)
    step = max(1, PAIRS_AT_ONCE // (batch * states * k))
    for t in range(1, n):
        parts = [_best_before(score, factors, slice(s, min(s + step, states))) for s in range(0, states, step)]
        best, which = (torch.cat(part, 1) for part in zip(*parts, strict=True))  # [B, S, k]
        here = best + given.log_emissions[:, t, :, None]
        going = given.active(t)
        score = here if going is None else torch.where(going[..., None], here, score)
        came_from[t] = which.flatten(1) if going is None else torch.where(going, which.flatten(1), stay)
    log_best, way = score.flatten(1).topk(k, -1)  # [B, k]
    found = torch.empty(batch, k, n, dtype=torch.int64, device=score.device)
    for t in range(n - 1, -1, -1):
        found[..., t] = way.div(k, rounding_mode="floor")
        if t:
            way = came_from[t].gather(1, way)
    found.masked_fill_((log_best == -torch.inf)[..., None], -1)
    if given.lengths is not None:
        beyond = torch.arange(n, device=score.device) >= given.lengths.to(score.device)[:, None]
        found.masked_fill_(beyond[:, None], -1)
    return found, log_best


def _best_before(score: Tensor, factors: list[Tensor], part: slice) -> tuple[Tensor, Tensor]:
    """For each state of a part the k best ways to it, and which of those before each extends: [B, part, k]."""
    columns = factors[-1][..., part]
    if len(factors) == 2:
        columns = factors[0] @ columns  # [S, part] or [B, S, part]
    scores = score[:, :, :, None] + columns.log()[..., :, None, :]  # [B, S, k, part]
    best, which = scores.flatten(1, 2).topk(score.shape[-1], 1)
    return best.transpose(1, 2), which.transpose(1, 2)
