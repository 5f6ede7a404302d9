"""The weight of every unlabelled binary tree of short sentences under an ordinary PCFG."""

import math

import torch
from torch import Tensor

from simplepcfg.ops.autocast import without_autocast
from simplepcfg.ops.dense.arguments import DenseArguments, check_dense_arguments
from simplepcfg.ops.entropy.trees import refuse_long_sentences
from simplepcfg.ops.logs import safe_log, safe_logsumexp


@without_autocast
def dense_tree_log_weights(
    log_emissions: Tensor,
    root: Tensor,
    rules: Tensor,
    *,
    lengths: Tensor | None = None,
    span_bonus: Tensor | None = None,
) -> Tensor:
    """Compute the log-weight of every unlabelled binary tree of each sentence, summed over labels.

    The order of the trees, the largest number of words and the result are those of
    ``simplepcfg.ops.entropy.tree_log_weights``.
    """
    arguments = check_dense_arguments(log_emissions, root, rules, lengths, span_bonus)
    batch, n, split, _ = arguments.sizes
    ends = [n] * batch if arguments.lengths is None else arguments.lengths.tolist()
    longest = max(ends)
    refuse_long_sentences(longest)
    states, tags = slice(split), slice(split, None)
    beta = [arguments.log_emissions.unsqueeze(2)]  # by width: every tree of every span, [B, spans, trees, P or N]
    for width in range(2, longest + 1):
        spans = n - width + 1
        found = []
        for k in range(1, width):
            sides = (tags if k == 1 else states, tags if width - k == 1 else states)
            left, right = beta[k - 1][:, :spans], beta[width - k - 1][:, k : k + spans]
            found.append(_pairs_of_trees(left, right, arguments.rules[..., *sides]))
        total = torch.cat(found, 2)
        if arguments.span_bonus is not None:
            total = total + torch.diagonal(arguments.span_bonus, width, 1, 2)[:, :, None, None]
        beta.append(total)
    return _of_whole_sentences(beta, arguments, ends)


def _pairs_of_trees(left: Tensor, right: Tensor, block: Tensor) -> Tensor:
    """Compute log Σ over symbols for each pair of subtrees: [B, spans, trees, X], [.., Y] → [.., pairs, N]."""
    (left, left_best), (right, right_best) = (_scaled(logs) for logs in (left, right))
    block = block.transpose(-2, -3)  # [(B,) X, N, Y]
    parents, children = block.shape[-2:]
    through = torch.matmul(left.flatten(1, 2), block.flatten(-2))  # [B, spans · trees, N · Y]
    through = through.view(*left.shape[:3], parents, children)
    sums = torch.einsum("bslny,bsry->bslrn", through, right)
    logs = safe_log(sums) + left_best[:, :, :, None] + right_best[:, :, None]
    return logs.flatten(2, 3)


def _scaled(logs: Tensor) -> tuple[Tensor, Tensor]:
    """Return probabilities divided by the largest of each tree, and the log of the largest: [..., 1]."""
    best = logs.detach().amax(-1, keepdim=True)
    best = best.masked_fill(best == -math.inf, 0.0)
    return (logs - best).exp(), best


def _of_whole_sentences(beta: list[Tensor], arguments: DenseArguments, ends: list[int]) -> Tensor:
    most = beta[-1].shape[2]
    root = safe_log(arguments.root)
    rows = []
    for b, length in enumerate(ends):
        row = arguments.log_emissions.new_full((0,), -math.inf)
        if length > 1:
            row = safe_logsumexp(beta[length - 1][b, 0] + (root if root.dim() == 1 else root[b]), -1)
        rows.append(torch.nn.functional.pad(row, (0, most - row.shape[0]), value=-math.inf))
    return torch.stack(rows)
