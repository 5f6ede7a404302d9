"""Left-corner closure and termination probability of a grammar, in float64."""

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from simplepcfg.errors import InputError, NumericalError
from simplepcfg.ops.arguments import SimpleRules

# The tolerance for row sums of rules, which rules in bfloat16 satisfy.
ROW_SUM_TOLERANCE = 1e-2
# The probabilities of all left corners of a symbol sum to 1. A larger deviation means that the inverse is inaccurate.
CORNER_SUM_TOLERANCE = 1e-6
# So many nonterminals are eliminated at a time, by the inverse of a small matrix.
BLOCK = 256
# Inversion loses the relative precision of small entries. The fixed-point equation C = I + L_N C has no subtractions,
# so that each of these iterations restores it.
REFINEMENTS = 2
# The exponent of the largest entry of float32 rows that are multiplied with ``Closure.float32_carry``.
FLOAT32_PEAK = 60
# At a double root Newton's method only halves the error in each step.
MOST_STEPS = 100


@dataclass(frozen=True, slots=True)
class Closure:
    """Sums over chains of left children of every length, C = (I − L_N)⁻¹, multiplied with root and right rules."""

    start: Tensor  # [N] or [B, N]: root · C, the expected number of each nonterminal on the left edge of a tree
    carry: Tensor  # [N, N] or [B, N, N]: R_N · C, the same for the left edge of a right child
    _float32: list[Tensor | None] = field(default_factory=list, init=False, repr=False, compare=False)  # once computed

    def float32_carry(self) -> Tensor | None:
        """Return ``carry`` in float32, computed once; None if its smallest and largest entries are too far apart.

        If they are not, rows with a maximum near 2^FLOAT32_PEAK that are multiplied with it lose nothing to underflow:
        every result is at least 2^−1, and entries of rows below 2^−126 contribute at most N · 2^(40 − 126).
        """
        if not self._float32:
            least, largest = self.carry.aminmax()
            fits = float(least) >= 2.0**-FLOAT32_PEAK and float(largest) <= 2.0**40
            self._float32.append(self.carry.float() if fits else None)
        return self._float32[0]


def left_corner_closure(rules: SimpleRules) -> Closure:
    """Compute the left-corner closure of a grammar, differentiable with respect to its rules, whose rows sum to 1.

    Raises:
        InputError: if rows do not sum to 1.
        NumericalError: if I − L_N is singular, because some nonterminal never produces a first word.
    """
    root, nonterminals = rules.root, rules.root.shape[-1]
    (to_states, to_words), (right, _) = _normalised(rules.left, "left"), _normalised(rules.right, "right")
    roots = root.double()
    # Roots of several sentences under one grammar are so many rows.
    roots = roots.expand(*right.shape[:-2], -1).unsqueeze(-2) if right.dim() == 3 else roots.view(-1, nonterminals)
    closed = _times_closure(torch.cat([right, roots], -2), to_states, to_words)
    if not bool(closed.isfinite().all()):
        raise NumericalError(_no_first_word(to_states, to_words))
    # torch.broadcast_shapes would import SymPy, which takes half a second.
    shape = (*(right.shape[:-2] or root.shape[:-1]), nonterminals)
    return Closure(closed[..., nonterminals:, :].reshape(shape), closed[..., :nonterminals, :].contiguous())


def _times_closure(rows: Tensor, to_states: Tensor, ends: Tensor) -> Tensor:
    """Multiply ``rows`` [(B,) M, n] with (I − to_states)⁻¹ by block elimination: [(B,) M, n].

    ``ends`` [(B,) n] is what is missing in the rows of to_states to a sum of 1. Only non-negative numbers are added,
    which keeps the relative precision of every entry. The result is not finite if the matrix is singular.
    """
    n = to_states.shape[-1]
    if n <= BLOCK:
        return rows @ _small_closure(to_states, ends)
    half = n // 2
    inner, across = to_states[..., :half, :half], to_states[..., :half, half:]
    # Chains within the first half end with a word or in the second half.
    both = torch.cat([rows[..., :half], to_states[..., half:, :half]], -2)
    both = _times_closure(both, inner, ends[..., :half] + across.sum(-1))
    first, back = both[..., : rows.shape[-2], :], both[..., rows.shape[-2] :, :]
    # A chain between two symbols of the second half may go through the first half and back.
    second = _times_closure(
        rows[..., half:] + first @ across,
        to_states[..., half:, half:] + back @ across,
        ends[..., half:] + (back @ ends[..., :half].unsqueeze(-1)).squeeze(-1),
    )
    return torch.cat([first + second @ back, second], -1)


def _small_closure(to_states: Tensor, ends: Tensor) -> Tensor:
    """Invert I − to_states [(B,) n, n]; a row is NaN if chains from its symbol do not end with probability 1."""
    diagonal = torch.eye(to_states.shape[-1], dtype=torch.bool, device=to_states.device)
    others = to_states.masked_fill(diagonal, 0.0)
    # 1 − L[A, A] is computed as the sum over the other children, to avoid cancellation.
    leaves = others.sum(-1) + ends
    corners, failed = torch.linalg.inv_ex(torch.diag_embed(leaves) - others)
    sure = ((corners @ ends.unsqueeze(-1)).squeeze(-1) - 1).abs() < CORNER_SUM_TOLERANCE
    corners = corners.clamp(min=0.0)  # negative entries are due to rounding
    if bool((to_states == 0).any()):
        # Unreachable symbols get exactly 0, so that sentences of probability 0 keep it.
        corners = corners * reachable(to_states.detach() > 0)
    identity = diagonal.double()
    for _ in range(REFINEMENTS):
        corners = (identity + others @ corners) / leaves.unsqueeze(-1)
    return corners.masked_fill(~(sure & (failed == 0).unsqueeze(-1)).unsqueeze(-1), torch.nan)


def reachable(edges: Tensor) -> Tensor:
    """Compute whether there is a path of any length, including 0, by repeated squaring: boolean [(B,) N, N]."""
    states = edges.shape[-1]
    paths = edges | torch.eye(states, dtype=torch.bool, device=edges.device)
    while True:
        longer = (paths.float() @ paths.float()) > 0
        if torch.equal(longer, paths):
            return paths
        paths = longer


@torch.no_grad()
def termination_probabilities(rules: SimpleRules) -> Tensor:
    """Compute the probability that a derivation is finite, 1 for a consistent grammar: a scalar or [B].

    It is root · q for the least solution of q = (L_N q + L_P 1) ⊙ (R_N q + R_P 1), to which Newton's method converges
    from 0. InputError if rows do not sum to 1.
    """
    root = rules.root.double()
    (left, left_words), (right, right_words) = _normalised(rules.left, "left"), _normalised(rules.right, "right")

    def equations(ends: Tensor) -> tuple[Tensor, Tensor]:
        from_left = (left @ ends.unsqueeze(-1)).squeeze(-1) + left_words
        from_right = (right @ ends.unsqueeze(-1)).squeeze(-1) + right_words
        slope = from_right.unsqueeze(-1) * left + from_left.unsqueeze(-1) * right
        return from_left * from_right, slope

    ends = least_solution(equations, torch.zeros(left.shape[:-1], dtype=torch.float64, device=left.device))
    return (root * ends).sum(-1) / root.sum(-1)


def least_solution(equations: Callable[[Tensor], tuple[Tensor, Tensor]], ends: Tensor) -> Tensor:
    """Solve q = f(q) for probabilities q [(B,) N] by Newton's method, which begins at ``ends``, zeros.

    ``equations`` returns f(q) [(B,) N] and its derivative [(B,) N, N].
    """
    identity = torch.eye(ends.shape[-1], dtype=ends.dtype, device=ends.device)
    for _ in range(MOST_STEPS):
        values, slope = equations(ends)
        step, failed = torch.linalg.solve_ex(identity - slope, values - ends)
        if bool(failed.any()) or not bool(step.isfinite().all()):
            break  # the system is singular at a double root, which has been reached
        ends = (ends + step).clamp(0.0, 1.0)
        if float(step.abs().amax()) < 1e-14:
            break
    return ends


def _normalised(rules: Tensor, name: str) -> tuple[Tensor, Tensor]:
    """Divide rows by their sums, and return those of nonterminals, [(B,) N, N], and the sums of the others, [(B,) N].

    Both are float64. InputError if the sum of a row differs from 1 by more than rounding.
    """
    split = rules.shape[-2]
    words = rules[..., split:].sum(-1, keepdim=True, dtype=torch.float64)
    sums = rules[..., :split].sum(-1, keepdim=True, dtype=torch.float64) + words
    worst = (sums.detach() - 1).abs().squeeze(-1)
    if not bool((worst < ROW_SUM_TOLERANCE).all()):
        row = int(worst.nan_to_num(torch.inf).flatten().argmax())
        raise InputError(
            f"row {row % rules.shape[-2]} of {name} sums to {float(sums.flatten()[row]):.4g}; "
            "prefix probabilities need rules that sum to 1"
        )
    return rules[..., :split].double() / sums, (words / sums).squeeze(-1)


def _no_first_word(to_states: Tensor, to_words: Tensor) -> str:
    """Return a message that names a nonterminal which never, or with very small probability, produces a first word."""
    ever = (reachable(to_states > 0).double() @ (to_words > 0).double().unsqueeze(-1)).squeeze(-1) > 0
    stuck = to_words if bool(ever.all()) else ever.double()
    state = int(stuck.flatten().argmin()) % to_words.shape[-1]
    return (
        f"nonterminal {state} has (nearly) only nonterminals as its left child, forever, and so never produces a first "
        "word: prefix probabilities do not exist; give its left rules a preterminal"
    )
