"""The entropy of the sequence of states given the words, by a recursion over positions.

With a(t) = P(state t | words up to t) and d = a(t − 1) T, the state before s' is s with probability a(s) T[s, s'] /
d(s'). H(t)[s'], the entropy of all states before word t given s' there and the words so far, is then

    H(t)[s'] = ( Σ_s a(s) (H(t − 1)[s] − log a(s)) T[s, s']  −  Σ_s a(s) T[s, s'] log T[s, s'] ) / d(s')  +  log d(s')

and the whole is Σ_s a(n)[s] (H(n)[s] − log a(n)[s]).
"""

import torch
from torch import Tensor

from simplepcfg.ops.autocast import without_autocast
from simplepcfg.ops.forward.arguments import ForwardArguments
from simplepcfg.ops.forward.filtering import Chain
from simplepcfg.ops.logs import safe_log
from simplepcfg.ops.tensor_fields import in_float64

# The number of elements of T log T that are held at a time; they do not factor even if T has low rank.
PAIRS_AT_ONCE = 1 << 24


@without_autocast
def state_entropy(arguments: ForwardArguments) -> Tensor:
    """Compute the entropy of the sequences of states of each sentence: [B] float64, in nats, differentiable.

    A sentence of probability 0 has −inf. The cost is S² for each word, also for low-rank transitions.
    """
    given = in_float64(arguments)
    chain = Chain.of(given)
    steps = list(chain.steps())
    known = torch.stack([step[1] for step in steps], 1)  # [B, n, S]
    surprise = _surprise(chain, known[:, :-1])
    entropy = torch.zeros_like(known[:, 0])  # [B, S]: entropy of the previous states, given this one
    last, log_z = known[:, 0], steps[0][2]
    for t in range(1, known.shape[1]):
        predicted, here, log_word = steps[t]
        reached = predicted > 0
        total = chain.apply_transitions(known[:, t - 1] * entropy + _minus_log(known[:, t - 1])) + surprise[:, t - 1]
        safe = torch.where(reached, predicted, 1.0)
        before = torch.where(reached, total / safe + safe.log(), 0.0)
        total_log, active = log_z + log_word, given.active(t)
        if active is not None:  # a sentence that has ended keeps its values
            before, here = torch.where(active, before, entropy), torch.where(active, here, last)
            total_log = torch.where(active[:, 0], total_log, log_z)
        entropy, last, log_z = before, here, total_log
    whole = (last * entropy + _minus_log(last)).sum(-1)
    return whole.masked_fill(log_z == -torch.inf, -torch.inf)


def _surprise(chain: Chain, known: Tensor) -> Tensor:
    """Compute −Σ_s known[s] T[s, s'] log T[s, s']: [B, positions, S], some columns of T at a time."""
    first, last = chain.factors[0], chain.factors[-1]
    states = known.shape[-1]
    lead = first.shape[0] if first.dim() == 3 else 1
    step = max(1, PAIRS_AT_ONCE // (lead * states))
    parts = []
    for k in range(0, states, step):
        columns = last[..., k : k + step]
        parts.append(torch.matmul(known, _minus_log(columns if len(chain.factors) == 1 else first @ columns)))
    return torch.cat(parts, -1)


def _minus_log(x: Tensor) -> Tensor:
    """Compute −x log x, which is 0 at 0."""
    return -x * torch.where(x > 0, safe_log(x), 0.0)
