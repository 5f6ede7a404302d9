"""The most probable sequences of states: the Viterbi algorithm, and its extension to the k best."""

import torch
from torch import Tensor

from simplepcfg.errors import InputError
from simplepcfg.ops.autocast import without_autocast
from simplepcfg.ops.forward.arguments import ForwardArguments
from simplepcfg.ops.tensor_fields import in_float64

# The number of log-probabilities of pairs of states, and of the k² best of each, that are held at a time.
PAIRS_AT_ONCE = 1 << 24


@without_autocast
def best_states(given: ForwardArguments) -> tuple[Tensor, Tensor]:
    """Find the most probable sequence of states of each sentence.

    Returns:
        ``(states, log_probability)``: ``[B, n]``, −1 beyond the end of a sentence and for a sentence of probability 0;
        and log p(words, states), ``[B]``. Low-rank transitions are multiplied for some states at a time, which saves
        memory but no time.
    """
    paths, scores = _best_paths(given, 1)
    return paths[:, 0], scores[:, 0]


@without_autocast
def k_best_states(given: ForwardArguments, k: int) -> tuple[Tensor, Tensor]:
    """Find the k most probable sequences of states of each sentence.

    Returns ``(states, log_probabilities)``: ``[B, k, n]``, best first, −1 beyond the end of a sentence; and log
    p(words, states), ``[B, k]`` in float64. If there are fewer than k sequences, the rest have −1 and −inf. The cost is
    S² for each word, also for low-rank transitions. Raises InputError if k is less than 1.
    """
    if k < 1:
        raise InputError(f"k = {k}; ask for at least one sequence of states")
    return _best_paths(in_float64(given), k)


@torch.no_grad()
def _best_paths(given: ForwardArguments, k: int) -> tuple[Tensor, Tensor]:
    """Find the k best sequences of states, [B, k, n], and their scores, [B, k]."""
    batch, n, states = given.log_emissions.shape
    factors = [factor.to(given.log_emissions.dtype) for factor in given.factors]
    score = given.log_emissions.new_full((batch, states, k), -torch.inf)
    score[..., 0] = given.start.log() + given.log_emissions[:, 0]
    # Back-pointers: which of the S · k paths before each of the k best paths to a state extends.
    came_from = torch.empty(n, batch, states * k, dtype=torch.int64, device=score.device)
    stay = torch.arange(states * k, device=score.device).expand(batch, -1)
    whole = factors[0].mT.log() if len(factors) == 1 else None  # [S, S], transposed: the next state first
    step = max(1, PAIRS_AT_ONCE // (batch * (states + k * k)))
    for t in range(1, n):
        sides = []
        for part in (slice(first, first + step) for first in range(0, states, step)):
            into = whole[..., part, :] if whole is not None else (factors[0] @ factors[1][..., part]).mT.log()
            sides.append(_best_before(score, into))
        best, which = (torch.cat(side, 1) for side in zip(*sides, strict=True))  # [B, S, k]
        here = best + given.log_emissions[:, t, :, None]
        active = given.active(t)
        score = here if active is None else torch.where(active[..., None], here, score)
        came_from[t] = which.flatten(1) if active is None else torch.where(active, which.flatten(1), stay)
    log_best, way = _largest(score.flatten(1), k)  # [B, k]
    paths = torch.empty(batch, k, n, dtype=torch.int64, device=score.device)
    for t in range(n - 1, -1, -1):
        paths[..., t] = way.div(k, rounding_mode="floor")
        if t:
            way = came_from[t].gather(1, way)
    paths.masked_fill_((log_best == -torch.inf)[..., None], -1)
    if given.lengths is not None:
        beyond = torch.arange(n, device=score.device) >= given.lengths.to(score.device)[:, None]
        paths.masked_fill_(beyond[:, None], -1)
    return paths, log_best


def _best_before(score: Tensor, into: Tensor) -> tuple[Tensor, Tensor]:
    """Find the k best paths to each state of a part, and which of the paths before each of them extends: [B, part, k].

    ``into`` is [(B,) part, S]. The k best paths come from at most k states, those whose best paths are the best.
    """
    batch, states, k = score.shape
    steps = into.expand(batch, -1, -1)
    best, before = _largest(score[:, None, :, 0] + steps, min(k, states))  # [B, part, states before]
    if k == 1:
        return best, before
    rows = torch.arange(batch, device=score.device)[:, None, None]
    ways = score[rows, before] + steps.gather(2, before)[..., None]  # [B, part, states before, k]
    best, which = _largest(ways.flatten(2), k)
    return best, before.gather(2, which.div(k, rounding_mode="floor")) * k + which % k


def _largest(logs: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Return the k largest values of the last dimension and their indices; one is found faster than by ``topk``."""
    best, which = logs.max(-1, keepdim=True) if k == 1 else logs.topk(k, -1)
    return best, which
