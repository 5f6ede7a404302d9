"""The dense inside recursion in logs over a semiring, which says what is summed and how.

| semiring | a sum is | it answers |
|---|---|---|
| ``Sums`` | a matrix product of exponentials | log Z and its derivatives, prefixes, random trees |
| ``Best`` | a maximum | the most probable trees |
"""

import math
from dataclasses import replace

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from simplepcfg.ops.cuda_graphs.capture import is_captured
from simplepcfg.ops.dense.arguments import DenseArguments
from simplepcfg.ops.logs import safe_log, safe_logsumexp
from simplepcfg.ops.tensor_fields import in_float64

# The smallest maximum of a sum in float32, relative to the best pair of children, in which no term that matters has
# underflowed.
SAFE_SUM = 2.0**-90
# Log-probabilities of parents and pairs that ``Best`` holds at a time, in bytes: on a CPU within its cache.
SCORE_BYTES = {"cpu": 2 << 20, "cuda": 64 << 20}
# Pairs of the children of all spans of a width, in bytes, that are kept for the backward pass; others are recomputed.
KEPT_BYTES = 16 << 20


class Sums:
    """Sums of probabilities, by matrix products of exponentials that are relative to the maximum of their row."""

    def __init__(self) -> None:
        self.maxima: list[Tensor] = []  # of the sums of all spans [B, spans]; inf where no split is possible

    def rules(self, rules: Tensor) -> Tensor:
        """Return the rules in the form that products take."""
        return rules

    def values(self, logs: Tensor) -> tuple[Tensor, Tensor]:
        """Return rows of logs [.., X] in the form that products take, relative to their maxima, and these: [.., 1]."""
        best = logs.detach().amax(-1, keepdim=True)
        return (logs - _finite(best)).exp(), best

    def weighted(self, values: Tensor, logs: Tensor) -> Tensor:
        """Multiply rows of values by weights that are given as logs."""
        return values * logs.exp()

    def of_words(self, words: Tensor, rules: Tensor) -> Tensor:
        """Sum rules [(B,) N, X, P] over the preterminals of words [B, n, P]: [B, n, N, X]."""
        return torch.matmul(words, rules.flatten(-3, -2).mT).unflatten(-1, rules.shape[-3:-1])

    def beside(self, words: Tensor, rows: Tensor) -> Tensor:
        """Sum the rules of words [B, R, N, X] over the other child, rows [B, R, X]: [B, R, N]."""
        return (words * rows[:, :, None]).sum(-1)  # on a CPU half the time of a batched product with a vector

    def splits(self, left: Tensor, right: Tensor, rules: Tensor) -> Tensor:
        """Sum over splits and pairs of left [B, R, splits, X] and right [.., Y] children, by rules [(B,) N, X · Y]."""

        def sums(left: Tensor, right: Tensor, rules: Tensor) -> Tensor:
            return torch.matmul(torch.matmul(left.mT, right).flatten(-2), rules.mT)

        size = left.shape[:2].numel() * rules.shape[-1] * left.element_size()
        # The first call of ``checkpoint`` imports torch._dynamo, which takes seconds.
        if size <= KEPT_BYTES or not torch.is_grad_enabled():
            return sums(left, right, rules)
        return checkpoint(sums, left, right, rules, use_reentrant=False, preserve_rng_state=False)

    def log(self, parts: list[Tensor], best: Tensor) -> Tensor:
        """Return the logs of the sum of parts [B, R, N], which are relative to ``best`` [B, R, 1]."""
        total = torch.stack(parts).sum(0)
        maxima = total.detach().amax(-1)
        self.maxima.append(maxima.masked_fill(best.squeeze(-1) == -math.inf, math.inf))
        return safe_log(total) + _finite(best)


class Best(Sums):
    """Maxima of logs in place of sums, without gradients, for some rows and parents at a time."""

    def rules(self, rules: Tensor) -> Tensor:
        return rules.log()

    def values(self, logs: Tensor) -> tuple[Tensor, Tensor]:
        return logs, torch.zeros_like(logs[..., :1])

    def weighted(self, values: Tensor, logs: Tensor) -> Tensor:
        return values

    def of_words(self, words: Tensor, rules: Tensor) -> Tensor:
        return self._products(words, rules.flatten(-3, -2)).unflatten(-1, rules.shape[-3:-1])

    def beside(self, words: Tensor, rows: Tensor) -> Tensor:
        return (words + rows[:, :, None]).amax(-1)

    def splits(self, left: Tensor, right: Tensor, rules: Tensor) -> Tensor:
        pairs = zip(left.unbind(1), right.unbind(1), strict=True)
        best = [(before[..., :, None] + after[..., None, :]).amax(1).flatten(1) for before, after in pairs]
        return self._products(torch.stack(best, 1), rules)

    def log(self, parts: list[Tensor], best: Tensor) -> Tensor:
        return torch.stack(parts).amax(0)

    def _products(self, rows: Tensor, rules: Tensor) -> Tensor:
        """Find the best X of rows [B, R, X] with rules [(B,) M, X]: [B, R, M]."""
        rules = rules if rules.dim() == 3 else rules[None]
        most = SCORE_BYTES.get(rows.device.type, SCORE_BYTES["cuda"])
        parts = rules.split(max(1, most // (rows[:, 0].numel() * rows.element_size())), 1)
        best = [torch.cat([(part + row[:, None]).amax(-1) for part in parts], 1) for row in rows.unbind(1)]
        return torch.stack(best, 1)


def inside_rows(arguments: DenseArguments, semiring: Sums) -> list[Tensor]:
    """Compute the logs of all spans by width, from 1 on: [B, n, P] of words, [B, spans, N] of wider spans."""
    _, n, nonterminals, preterminals = arguments.sizes
    rules, bonus = semiring.rules(arguments.rules), arguments.span_bonus
    bonus = bonus if bonus is None or bonus.dim() == 4 else bonus[..., None]
    states, tags = slice(nonterminals), slice(nonterminals, None)
    wide = rules[..., states, states].flatten(-2)
    words, best = semiring.values(arguments.words)
    # The rules with a word as left child, or as right child: [B, n, N, X], for parent and the other child.
    first = semiring.of_words(words, rules[..., tags, states].mT)
    last, last_of_two = semiring.of_words(words, rules[..., :, tags]).split([nonterminals, preterminals], -1)
    # All spans that begin where a span begins, or end where it ends: their logs, and values from two words on.
    left_best = right_best = best[:, :, None]  # [B, spans, splits, 1]
    left = right = words.new_zeros(len(words), max(n - 2, 0), 0, nonterminals)  # [B, spans, splits, N]
    rows, values = [arguments.words], [words]
    for width in range(2, n + 1):
        spans, shorter = n - width + 1, values[-1]
        left_best, right_best = left_best[:, :spans], right_best[:, 1:]
        logs = left_best + right_best
        best = logs.amax(2)
        logs = logs - _finite(best)[:, :, None]
        before, after = shorter[:, :-1], shorter[:, 1:]
        if width == 2:
            parts = [semiring.beside(last_of_two[:, 1:], semiring.weighted(before, logs[:, :, 0]))]
        else:
            parts = [
                semiring.beside(first[:, :spans], semiring.weighted(after, logs[:, :, 0])),
                semiring.beside(last[:, width - 1 :], semiring.weighted(before, logs[:, :, -1])),
            ]
        if width > 3:
            child = values[-2][:, :, None]
            left = torch.cat([left[:, :spans], child[:, :spans]], 2)
            right = torch.cat([child[:, 2:], right[:, 1:]], 2)
            parts.append(semiring.splits(semiring.weighted(left, logs[:, :, 1:-1]), right, wide))
        row = semiring.log(parts, best)
        if bonus is not None:
            row = row + torch.diagonal(bonus, width, 1, 2).mT
        value, best = semiring.values(row)
        left_best = torch.cat([left_best, best[:, :, None]], 2)
        right_best = torch.cat([best[:, :, None], right_best], 2)
        rows.append(row)
        values.append(value)
    return rows


def inside_cells(arguments: DenseArguments, semiring: Sums) -> Tensor:
    """Compute the values of all symbols over all spans (i, j): [B, n + 1, n + 1, S], -inf where a symbol cannot be."""
    batch, n, nonterminals, preterminals = arguments.sizes
    size = (batch, n + 1, n + 1, nonterminals + preterminals)
    cells = arguments.log_emissions.new_full(size, -math.inf)
    for width, row in enumerate(inside_rows(arguments, semiring), 1):
        symbols = slice(nonterminals, None) if width == 1 else slice(nonterminals)
        torch.diagonal(cells[..., symbols], width, 1, 2).copy_(row.mT)
    return cells


def dense_log_partition(arguments: DenseArguments) -> Tensor:
    """Compute log Z of each sentence, [B]; sentences that float32 may not hold are computed again in float64."""
    sums = Sums()
    log_z = _log_partition(arguments, sums)
    dtype = log_z.dtype
    # A captured step cannot look; README.md says why the rules of models never need it.
    if dtype == torch.float64 or not sums.maxima or is_captured(log_z.device):
        return log_z
    low = torch.cat(sums.maxima, 1).amin(1) < SAFE_SUM
    if not bool(low.any()):
        return log_z
    rows = low.nonzero().squeeze(1)
    again = in_float64(arguments.of_sentences(rows))
    limit = torch.finfo(dtype).max
    for tensor in (again.root, again.rules):  # the derivative by a rule of probability 0 may be any number
        if tensor.requires_grad:
            tensor.register_hook(lambda slope: slope.clamp(-limit, limit))
    return log_z.index_copy(0, rows, _log_partition(again, Sums()).to(dtype))


def _log_partition(arguments: DenseArguments, sums: Sums) -> Tensor:
    batch, n, _, _ = arguments.sizes
    words, ends = arguments.words, arguments.ends
    if n == 1:
        return (words.nan_to_num(0.0, 0.0, 0.0).sum((1, 2)) * 0.0) - math.inf
    # Every tree contains every word once. Without the largest emission of each word, logs have more digits.
    best = _finite(words.detach().amax(-1))  # [B, n]
    rows = inside_rows(replace(arguments, log_emissions=words - best[..., None]), sums)
    whole = torch.stack([row[:, 0] for row in rows[1:]], 1)  # [B, n - 1, N]
    top = whole[torch.arange(batch, device=words.device), (ends - 2).clamp(min=0)]
    top = top.masked_fill((ends < 2)[:, None], -math.inf)
    log_top = safe_logsumexp(top + safe_log(arguments.root), -1)
    return (log_top.double() + best.double().sum(1)).to(log_top.dtype)


def log_product(rows: Tensor, matrix: Tensor) -> Tensor:
    """Compute log Σ_X exp(rows) · matrix for rows [.., R, X] and a matrix [.., X, Y]: [.., R, Y]."""
    best = _finite(rows.detach().amax(-1, keepdim=True))
    return safe_log(torch.matmul((rows - best).exp(), matrix)) + best


def _finite(logs: Tensor) -> Tensor:
    """Replace -inf by 0, so that no difference is NaN."""
    return logs.masked_fill(logs == -math.inf, 0.0)
