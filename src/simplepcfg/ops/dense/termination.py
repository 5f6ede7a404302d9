"""The probability that a derivation of an ordinary PCFG is finite."""

import torch
from torch import Tensor

# At a double root Newton's method only halves the error in each step.
MOST_STEPS = 100


@torch.no_grad()
def dense_termination_probabilities(root: Tensor, rules: Tensor) -> Tensor:
    """Compute the probability that a derivation is finite, 1 for a consistent grammar: a scalar or [B].

    It is root · q for the least solution of q[A] = Σ_B Σ_C rules[A, B, C] q[B] q[C], with q = 1 for preterminals, to
    which Newton's method converges from 0.
    """
    root, rules = root.double(), rules.double()
    rules = rules / rules.sum((-1, -2), keepdim=True)
    states, symbols = root.shape[-1], rules.shape[-1]
    ends = torch.zeros(rules.shape[:-2], dtype=torch.float64, device=rules.device)  # [(B,) N]
    words = torch.ones(*ends.shape[:-1], symbols - states, dtype=torch.float64, device=rules.device)
    identity = torch.eye(states, dtype=torch.float64, device=rules.device)
    for _ in range(MOST_STEPS):
        every = torch.cat([ends, words], -1)
        by_left = torch.einsum("...abc,...c->...ab", rules, every)  # summed over right children
        by_right = torch.einsum("...abc,...b->...ac", rules, every)
        missing = torch.einsum("...ab,...b->...a", by_left, every) - ends
        slope = (by_left + by_right)[..., :states]
        step, failed = torch.linalg.solve_ex(identity - slope, missing)
        if bool(failed.any()) or not bool(step.isfinite().all()):
            break  # the system is singular at a double root, which has been reached
        ends = (ends + step).clamp(0.0, 1.0)
        if float(step.abs().amax()) < 1e-14:
            break
    return (root * ends).sum(-1) / root.sum(-1)
