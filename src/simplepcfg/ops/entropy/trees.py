"""Entropy and divergence over bare trees, by listing them: exact, and possible for short sentences only.

Over bare trees the symbols are summed out of every tree before anything is compared, and that sum does not decompose
along spans; no polynomial algorithm is known.
"""

import math

import torch
from torch import Tensor

from simplepcfg.errors import InputError
from simplepcfg.ops.entropy.derivations import Rules
from simplepcfg.ops.inside.arguments import InsideArguments, check_arguments
from simplepcfg.ops.inside.log_space import LogEinsumExp
from simplepcfg.ops.logs import safe_log, safe_logsumexp

# Nine words have 1,430 binary trees; each further word has nearly four times as many.
MOST_WORDS = 9


def tree_log_weights(
    rules: Rules, *, lengths: Tensor | None = None, span_bonus: Tensor | None = None, precision: str | None = None
) -> Tensor:
    """log-weight of every binary tree of each sentence, symbols summed out: [B, trees of n words], differentiable.

    Trees come in the order of their root's split, then of the left child's trees, then of the right child's; a shorter
    sentence's row ends with −inf. Each tree of each span is built once, and shared by all larger trees that have it.
    """
    arguments = check_arguments(*rules, lengths, span_bonus, precision)
    _, n, nonterminals, _ = arguments.sizes
    longest = n if arguments.lengths is None else int(arguments.lengths.max())
    refuse_long_sentences(longest)
    step = LogEinsumExp(arguments)
    children = step.words(arguments.log_emissions).unsqueeze(2)  # [B, n, 1, 2N]
    # By width: η and ζ of every tree of every span, [B, spans, trees, N].
    etas, zetas = [children[..., :nonterminals]], [children[..., nonterminals:]]
    tops: list[Tensor] = []
    for width in range(2, longest + 1):
        beta = _trees_of_width(etas, zetas, width, n - width + 1)
        if arguments.span_bonus is not None:
            beta = beta + torch.diagonal(arguments.span_bonus, width, 1, 2)[:, :, None, None]
        tops.append(beta[:, 0])
        if width < longest:
            children = step.spans(beta.flatten(1, 2)).view(*beta.shape[:3], 2 * nonterminals)
            etas.append(children[..., :nonterminals])
            zetas.append(children[..., nonterminals:])
    return _of_whole_sentences(tops, arguments)


def refuse_long_sentences(longest: int) -> None:
    """Nobody waits for more trees than this, and no memory holds them."""
    if longest > MOST_WORDS:
        raise InputError(
            f"a sentence of {longest} words has too many bare trees to list them; {MOST_WORDS} words are the most: "
            "ask for the entropy or divergence of labelled derivations, which is exact at any length"
        )


def _trees_of_width(etas: list[Tensor], zetas: list[Tensor], width: int, spans: int) -> Tensor:
    """log β of every tree of the spans of a width: left trees times right trees, split by split."""
    found = []
    for k in range(1, width):
        eta, zeta = etas[k - 1][:, :spans], zetas[width - k - 1][:, k : k + spans]
        found.append((eta[:, :, :, None] + zeta[:, :, None]).flatten(2, 3))
    return torch.cat(found, 2)


def _of_whole_sentences(tops: list[Tensor], arguments: InsideArguments) -> Tensor:
    batch, n, _, _ = arguments.sizes
    most = tops[-1].shape[1] if tops else 1
    rows = []
    root = safe_log(arguments.root)
    for b in range(batch):
        length = n if arguments.lengths is None else int(arguments.lengths[b])
        row = arguments.log_emissions.new_full((0,), -math.inf)
        if length > 1:
            row = safe_logsumexp(tops[length - 2][b] + (root if root.dim() == 1 else root[b]), -1)
        rows.append(torch.nn.functional.pad(row, (0, most - row.shape[0]), value=-math.inf))
    return torch.stack(rows)


def tree_entropy(
    rules: Rules, *, lengths: Tensor | None = None, span_bonus: Tensor | None = None, precision: str | None = None
) -> Tensor:
    """Entropy of the distribution over bare binary trees of each sentence: [B] in float64, differentiable.

    Up to ``MOST_WORDS`` words; longer sentences are refused. −inf where a sentence has no tree.
    """
    return entropy_of_weights(tree_log_weights(rules, lengths=lengths, span_bonus=span_bonus, precision=precision))


def tree_kl(
    p: Rules,
    q: Rules,
    *,
    lengths: Tensor | None = None,
    span_bonus: Tensor | None = None,
    precision: str | None = None,
) -> Tensor:
    """KL(p ‖ q) between two grammars' distributions over bare trees of each sentence: [B] in float64, differentiable.

    The grammars may have different symbols. +inf where q excludes a tree that p has, −inf where p has no tree.
    """
    given = (tree_log_weights(rules, lengths=lengths, span_bonus=span_bonus, precision=precision) for rules in (p, q))
    return kl_of_weights(*given)


def entropy_of_weights(log_weights: Tensor) -> Tensor:
    """Entropy of the distribution over the trees of each row: [B] float64; −inf where there is none."""
    log_p, log_z = _normalised(log_weights)
    return (-_expected(log_p, log_p)).masked_fill(log_z == -math.inf, -math.inf)


def kl_of_weights(p: Tensor, q: Tensor) -> Tensor:
    """KL(p ‖ q) between the distributions that two tables of the same trees give: [B] float64."""
    (log_p, log_z), (log_q, _) = _normalised(p), _normalised(q)
    lacking = ((log_p > -math.inf) & (log_q == -math.inf)).any(1)
    ratio = (log_p - log_q).masked_fill((log_p == -math.inf) | (log_q == -math.inf), 0.0)
    return _expected(log_p, ratio).masked_fill(lacking, math.inf).masked_fill(log_z == -math.inf, -math.inf)


def _normalised(log_weights: Tensor) -> tuple[Tensor, Tensor]:
    """Log-probabilities, −inf throughout where there is no tree, and log Z; in float64."""
    log_weights = log_weights.double()
    log_z = safe_logsumexp(log_weights, 1)
    return log_weights - log_z.masked_fill(log_z == -math.inf, 0.0)[:, None], log_z


def _expected(log_p: Tensor, values: Tensor) -> Tensor:
    """Σ p · value with 0 · ∞ = 0."""
    return (log_p.exp() * values.masked_fill(log_p == -math.inf, 0.0)).sum(1)
