"""Entropy and KL divergence of unlabelled trees, by enumeration, for short sentences only.

The probability of an unlabelled tree is a sum over its labellings, whose logarithm does not decompose over spans. No
polynomial algorithm is known.
"""

import math

import torch
from torch import Tensor

from simplepcfg.errors import InputError
from simplepcfg.ops.arguments import Sentences, SimpleRules, check_arguments
from simplepcfg.ops.autocast import without_autocast
from simplepcfg.ops.inside.log_space import LogEinsumExp
from simplepcfg.ops.logs import safe_log, safe_logsumexp

# A sentence of nine words has 1,430 binary trees. Each further word multiplies this number by almost four.
MOST_WORDS = 9


@without_autocast
def tree_log_weights(rules: SimpleRules, sentences: Sentences) -> Tensor:
    """Compute the log-weight of every unlabelled binary tree of each sentence, summed over labels: [B, trees].

    Trees of n words are ordered by the split of the root, then by the left subtree, then by the right subtree; the rows
    of shorter sentences are padded with −inf. Each subtree is computed once and shared by all trees that contain it.
    Raises InputError if a sentence has more than ``MOST_WORDS`` words.
    """
    arguments = check_arguments(rules, sentences)
    batch, n, nonterminals, _ = arguments.sizes
    ends = [n] * batch if arguments.lengths is None else arguments.lengths.tolist()
    longest = max(ends)
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
    return weights_of_whole_sentences(tops, arguments.root, ends)


def refuse_long_sentences(longest: int) -> None:
    """Raise InputError for sentences of more than ``MOST_WORDS`` words, which have too many trees."""
    if longest > MOST_WORDS:
        raise InputError(
            f"a sentence of {longest} words has too many bare trees to list them; {MOST_WORDS} words are the most: "
            "ask for the entropy or divergence of labelled derivations, which is exact at any length"
        )


def _trees_of_width(etas: list[Tensor], zetas: list[Tensor], width: int, spans: int) -> Tensor:
    """Compute log β of every tree of the spans of a width: all pairs of left and right subtrees, split by split."""
    trees = []
    for k in range(1, width):
        eta, zeta = etas[k - 1][:, :spans], zetas[width - k - 1][:, k : k + spans]
        trees.append((eta[:, :, :, None] + zeta[:, :, None]).flatten(2, 3))
    return torch.cat(trees, 2)


def weights_of_whole_sentences(tops: list[Tensor], root: Tensor, lengths: list[int]) -> Tensor:
    """Compute the log-weights of the trees of each sentence from those by width, 2 …, and symbol, [B, trees, N]."""
    most = tops[-1].shape[1] if tops else 1
    log_root = safe_log(root)
    rows = []
    for b, length in enumerate(lengths):
        row = log_root.new_full((0,), -math.inf)
        if length > 1:
            row = safe_logsumexp(tops[length - 2][b] + (log_root if log_root.dim() == 1 else log_root[b]), -1)
        rows.append(torch.nn.functional.pad(row, (0, most - row.shape[0]), value=-math.inf))
    return torch.stack(rows)


def entropy_of_weights(log_weights: Tensor) -> Tensor:
    """Compute the entropy of the trees of each sentence from ``tree_log_weights``: [B] float64; −inf without a tree."""
    log_p, log_z = _normalised(log_weights)
    return (-_expected(log_p, log_p)).masked_fill(log_z == -math.inf, -math.inf)


def kl_of_weights(p: Tensor, q: Tensor) -> Tensor:
    """Compute KL(p ‖ q) between the trees of each sentence from ``tree_log_weights`` of two grammars: [B] float64.

    +inf if q gives probability 0 to a tree that p has, −inf if the sentence has no tree under p.
    """
    (log_p, log_z), (log_q, _) = _normalised(p), _normalised(q)
    lacking = ((log_p > -math.inf) & (log_q == -math.inf)).any(1)
    ratio = (log_p - log_q).masked_fill((log_p == -math.inf) | (log_q == -math.inf), 0.0)
    return _expected(log_p, ratio).masked_fill(lacking, math.inf).masked_fill(log_z == -math.inf, -math.inf)


def _normalised(log_weights: Tensor) -> tuple[Tensor, Tensor]:
    """Return log-probabilities, all −inf if there is no tree, and log Z, in float64."""
    log_weights = log_weights.double()
    log_z = safe_logsumexp(log_weights, 1)
    return log_weights - log_z.masked_fill(log_z == -math.inf, 0.0)[:, None], log_z


def _expected(log_p: Tensor, values: Tensor) -> Tensor:
    """Compute Σ p · value with 0 · ∞ = 0."""
    return (log_p.exp() * values.masked_fill(log_p == -math.inf, 0.0)).sum(1)
