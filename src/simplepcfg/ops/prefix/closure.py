"""What a grammar's left corners and its endless derivations amount to: computed once a grammar, in float64."""

from dataclasses import dataclass

import torch
from torch import Tensor

from simplepcfg.errors import InputError, NumericalError

# Rows of rules must sum to one this closely: rules in bfloat16 do.
ROW_SUM_TOLERANCE = 1e-2
# The left corner of a symbol is some word for sure; a solution that misses this by more has lost its digits.
LOST = 1e-6
# Elimination loses the small entries' digits to the large ones'. C = I + L_N C has no differences: each time it is used
# it brings them back from the entries that they are made of.
REFINEMENTS = 2
# At a double root Newton's steps only halve the distance: this many leave 2^-100 of it.
MOST_STEPS = 100


@dataclass(frozen=True, slots=True)
class Closure:
    """Sums over chains of left children of every length, C = (I − L_N)⁻¹, as the prefix probabilities use them."""

    start: Tensor  # [N] or [B, N]: root C, expected nonterminals on the left edge of a tree
    carry: Tensor  # [N, N] or [B, N, N]: R_N C, expected nonterminals on the left edge of a right child


def left_corner_closure(root: Tensor, left: Tensor, right: Tensor) -> Closure:
    """The closure of a grammar, differentiable where its rules are.

    NumericalError where some nonterminal has only nonterminals below its left edge, forever: it never produces a first
    word, and I − L_N is singular.
    """
    nonterminals = root.shape[-1]
    left, right = _normalised(left, "left"), _normalised(right, "right")
    to_states, to_words = left[..., :nonterminals], left[..., nonterminals:].sum(-1)
    diagonal = torch.eye(nonterminals, dtype=torch.bool, device=left.device)
    others = to_states.masked_fill(diagonal, 0.0)
    # 1 − L[A, A] is the sum of A's other children: added up, so that no digit is lost where it is small.
    leaves = others.sum(-1) + to_words
    corners, failed = torch.linalg.inv_ex(torch.diag_embed(leaves) - others)
    sure = (corners @ to_words.unsqueeze(-1)).squeeze(-1)
    if bool(failed.any()) or not bool(((sure - 1).abs() < LOST).all()):
        raise NumericalError(_no_first_word(to_states, to_words))
    corners = corners.clamp(min=0.0)  # none is negative but by rounding
    if bool((to_states == 0).any()):
        # Rounding must not make possible what is not: a sentence of probability 0 stays one.
        corners = corners * reachable(to_states.detach() > 0)
    identity = diagonal.double()
    for _ in range(REFINEMENTS):
        corners = (identity + others @ corners) / leaves.unsqueeze(-1)
    start = (root.double().unsqueeze(-2) @ corners).squeeze(-2)
    return Closure(start, right[..., :nonterminals] @ corners)


def reachable(edges: Tensor) -> Tensor:
    """[(B,) N, N] bool: whether there is a path, of any length and of none, by repeated squaring."""
    states = edges.shape[-1]
    paths = edges | torch.eye(states, dtype=torch.bool, device=edges.device)
    while True:
        longer = (paths.float() @ paths.float()) > 0
        if torch.equal(longer, paths):
            return paths
        paths = longer


def termination_probabilities(root: Tensor, left: Tensor, right: Tensor) -> Tensor:
    """The probability that a derivation ever ends: 1 for a consistent grammar; a scalar or [B].

    What is missing to 1 are endless sentences. It is the least solution of q = (L_N q + L_P 1) ⊙ (R_N q + R_P 1), which
    Newton's method reaches from 0, rising.
    """
    with torch.no_grad():
        states = root.shape[-1]
        left, right = _normalised(left, "left"), _normalised(right, "right")
        ends = torch.zeros(left.shape[:-1], dtype=torch.float64, device=left.device)
        identity = torch.eye(states, dtype=torch.float64, device=left.device)
        for _ in range(MOST_STEPS):
            from_left, from_right = (
                (rules[..., :states] @ ends.unsqueeze(-1)).squeeze(-1) + rules[..., states:].sum(-1)
                for rules in (left, right)
            )
            slope = from_right.unsqueeze(-1) * left[..., :states] + from_left.unsqueeze(-1) * right[..., :states]
            missing = from_left * from_right - ends
            step, failed = torch.linalg.solve_ex(identity - slope, missing)
            if bool(failed.any()) or not bool(step.isfinite().all()):
                break  # a double root, reached
            ends = (ends + step).clamp(0.0, 1.0)
            if float(step.abs().amax()) < 1e-14:
                break
        return (root.double() * ends).sum(-1) / root.double().sum(-1)


def _normalised(rules: Tensor, name: str) -> Tensor:
    """In float64, each row divided by its sum, which may be off by rounding alone."""
    rules = rules.double()
    sums = rules.sum(-1, keepdim=True)
    worst = (sums.detach() - 1).abs().squeeze(-1)
    if not bool((worst < ROW_SUM_TOLERANCE).all()):
        row = int(worst.nan_to_num(torch.inf).flatten().argmax())
        raise InputError(
            f"row {row % rules.shape[-2]} of {name} sums to {float(sums.flatten()[row]):.4g}; "
            "prefix probabilities need rules that sum to 1"
        )
    return rules / sums


def _no_first_word(to_states: Tensor, to_words: Tensor) -> str:
    """Name a nonterminal that never gets to a first word, or the one that nearly does not."""
    ever = (reachable(to_states > 0).double() @ (to_words > 0).double().unsqueeze(-1)).squeeze(-1) > 0
    stuck = to_words if bool(ever.all()) else ever.double()
    state = int(stuck.flatten().argmin()) % to_words.shape[-1]
    return (
        f"nonterminal {state} has (nearly) only nonterminals as its left child, forever, and so never produces a first "
        "word: prefix probabilities do not exist; give its left rules a preterminal"
    )
