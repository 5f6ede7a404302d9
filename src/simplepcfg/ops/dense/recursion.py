"""The dense inside recursion in log space over a semiring, which says what is summed and how.

| semiring | a sum is | it answers |
|---|---|---|
| ``LogProducts`` | a matrix product of exponentials | second derivatives by autograd, prefixes, random trees |
| ``Best`` | a maximum | the most probable trees |
"""

import math

import torch
from torch import Tensor

from simplepcfg.ops.dense.arguments import DenseArguments
from simplepcfg.ops.logs import safe_log, safe_logsumexp

# Log-probabilities of parents and pairs that ``Best`` holds at a time, in bytes: on a CPU within its cache.
SCORE_BYTES = {"cpu": 2 << 20, "cuda": 64 << 20}


class LogProducts:
    """Sums of probabilities by matrix products of exponentials, each relative to the maximum of its row."""

    def rules(self, rules: Tensor) -> Tensor:
        """Return the rules in the form that ``product`` takes."""
        return rules

    def sum(self, logs: Tensor, dim: int) -> Tensor:
        """Add up values over a dimension."""
        return safe_logsumexp(logs, dim)

    def product(self, rows: Tensor, rules: Tensor) -> Tensor:
        """Multiply rows [B, R, X] with rules [(B,) M, X] and sum over X: [B, R, M]."""
        best = _finite(rows.detach().amax(-1, keepdim=True))
        return safe_log(torch.matmul((rows - best).exp(), rules.mT)) + best

    def splits(self, left: Tensor, right: Tensor, rules: Tensor) -> Tensor:
        """Sum over splits and pairs of left [B, R, splits, X] and right [.., Y] children, by rules [(B,) N, X · Y]."""
        left_best, right_best = (logs.detach().amax(-1, keepdim=True) for logs in (left, right))
        splits = left_best + right_best  # [B, R, splits, 1]
        best = _finite(splits.amax(2, keepdim=True))
        left = (left - _finite(left_best) + (splits - best)).exp()
        pairs = torch.matmul(left.mT, (right - _finite(right_best)).exp()).flatten(-2)
        return safe_log(torch.matmul(pairs, rules.mT)) + best.squeeze(-1)


class Best(LogProducts):
    """Maxima in place of sums, without gradients, for some rows and parents at a time."""

    def rules(self, rules: Tensor) -> Tensor:
        return rules.log()

    def sum(self, logs: Tensor, dim: int) -> Tensor:
        return logs.amax(dim)

    def product(self, rows: Tensor, rules: Tensor) -> Tensor:
        rules = rules if rules.dim() == 3 else rules[None]
        most = SCORE_BYTES.get(rows.device.type, SCORE_BYTES["cuda"])
        parts = rules.split(max(1, most // (rows[:, 0].numel() * rows.element_size())), 1)
        best = [torch.cat([(part + row[:, None]).amax(-1) for part in parts], 1) for row in rows.unbind(1)]
        return torch.stack(best, 1)

    def splits(self, left: Tensor, right: Tensor, rules: Tensor) -> Tensor:
        pairs = zip(left.unbind(1), right.unbind(1), strict=True)
        best = [(before[..., :, None] + after[..., None, :]).amax(1).flatten(1) for before, after in pairs]
        return self.product(torch.stack(best, 1), rules)


def inside_rows(arguments: DenseArguments, semiring: LogProducts) -> dict[int, Tensor]:
    """Compute the values of all spans by width: [B, n, P] of words, [B, spans, N] of wider spans."""
    _, n, nonterminals, _ = arguments.sizes
    words, rules = arguments.words, semiring.rules(arguments.rules)
    states, tags = slice(nonterminals), slice(nonterminals, None)
    wide, two_words = rules[..., states, states].flatten(-2), rules[..., tags, tags].flatten(-2)
    # The rules with a word as left child, or as right child: [B, n, N, N], for parent and the other child.
    first = semiring.product(words, rules[..., tags, states].mT.flatten(-3, -2)).unflatten(-1, (nonterminals, -1))
    last = semiring.product(words, rules[..., states, tags].flatten(-3, -2)).unflatten(-1, (nonterminals, -1))
    rows = {1: words}
    for width in range(2, n + 1):
        spans = n - width + 1
        if width == 2:
            total = semiring.splits(words[:, :spans, None], words[:, 1 : 1 + spans, None], two_words)
        else:
            shorter = rows[width - 1][:, :, None]
            parts = [
                semiring.sum(first[:, :spans] + shorter[:, 1 : 1 + spans], -1),
                semiring.sum(last[:, width - 1 : width - 1 + spans] + shorter[:, :spans], -1),
            ]
            if width > 3:
                left = torch.stack([rows[k][:, :spans] for k in range(2, width - 1)], 2)
                right = torch.stack([rows[width - k][:, k : k + spans] for k in range(2, width - 1)], 2)
                parts.append(semiring.splits(left, right, wide))
            total = semiring.sum(torch.stack(parts), 0)
        if arguments.span_bonus is not None:
            total = total + torch.diagonal(arguments.span_bonus, width, 1, 2)[..., None]
        rows[width] = total
    return rows


def inside_cells(arguments: DenseArguments, semiring: LogProducts) -> Tensor:
    """Compute the values of all symbols over all spans (i, j): [B, n + 1, n + 1, S], -inf where a symbol cannot be."""
    batch, n, nonterminals, preterminals = arguments.sizes
    size = (batch, n + 1, n + 1, nonterminals + preterminals)
    cells = arguments.log_emissions.new_full(size, -math.inf)
    for width, rows in inside_rows(arguments, semiring).items():
        symbols = slice(nonterminals, None) if width == 1 else slice(nonterminals)
        torch.diagonal(cells[..., symbols], width, 1, 2).copy_(rows.mT)
    return cells


def inside_by(arguments: DenseArguments, semiring: LogProducts) -> Tensor:
    """Compute log Z [B], or the best log-probability of a derivation."""
    batch, n, _, _ = arguments.sizes
    words = arguments.log_emissions
    if n == 1:
        return (words.nan_to_num(0.0, 0.0, 0.0).sum((1, 2)) * 0.0) - math.inf
    rows = inside_rows(arguments, semiring)
    whole = torch.stack([rows[width][:, 0] for width in range(2, n + 1)], 1)  # [B, n - 1, N]
    ends = arguments.ends
    top = whole[torch.arange(batch, device=words.device), (ends - 2).clamp(min=0)]
    top = top.masked_fill((ends < 2)[:, None], -math.inf)
    return semiring.sum(top + safe_log(arguments.root), -1)


def _finite(logs: Tensor) -> Tensor:
    """Replace -inf by 0, so that no difference is NaN."""
    return logs.masked_fill(logs == -math.inf, 0.0)
