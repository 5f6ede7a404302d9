"""Prefix probabilities from left to right: the states before each word, from a chart of the words before it.

Everything beyond the inside chart is in float64, which is cheap here and has range to spare. README.md derives it.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from simplepcfg.ops.inside.arguments import InsideArguments
from simplepcfg.ops.inside.scales import DEAD
from simplepcfg.ops.prefix.charts import InsideRows, inside_rows
from simplepcfg.ops.prefix.closure import Closure

# States are kept with their largest at 2^PEAK: products with a chart's rows (2^256 at most) and sums of them stay below
# the largest float64, and what is smaller has all the range down from there.
PEAK = 500
# Preterminals are handled as many at a time as keep a float64 copy of their rules below this.
RULE_BYTES = 64 << 20


@dataclass(frozen=True)
class LeftToRight:
    """What may stand before each word, in probability together with the words before it: value = row · 2^exponent."""

    arguments: InsideArguments
    rows: InsideRows
    predicted: Tensor  # [B, n, N] float64, g: expected nonterminals that begin at this word
    waiting: Tensor  # [B, n, N] float64, r: nonterminals whose left child ends here, whose right child begins here
    exponents: Tensor  # [B, n]
    best: Tensor  # [B, n]: each word's largest log-emission, which the chart's rows are relative to
    log_words: Tensor  # [B, n]: Σ of these over the words before, which the states are relative to

    def tag_weights(self, columns: slice, positions: slice) -> Tensor:
        """u, the preterminals in ``columns`` as tags of words at ``positions``, on the rows' scale: [B, n, columns]."""
        nonterminals = self.arguments.root.shape[-1]
        columns = slice(nonterminals + columns.start, nonterminals + columns.stop)
        left, right = (rules[..., columns].double() for rules in (self.arguments.left, self.arguments.right))
        return torch.matmul(self.predicted[:, positions], left) + torch.matmul(self.waiting[:, positions], right)

    def column_chunks(self) -> list[slice]:
        """Slices of the preterminals whose rules are held in float64 at a time."""
        _, _, nonterminals, preterminals = self.arguments.sizes
        copies = self.arguments.left.shape[0] if self.arguments.batched_rules else 1
        step = max(1, RULE_BYTES // (8 * nonterminals * copies))
        return [slice(start, min(start + step, preterminals)) for start in range(0, preterminals, step)]

    def log_next(self) -> Tensor:
        """log P(w_0 … w_j …) for each j, [B, n]: the states before word j times what they make of it."""
        words, word_exponents = self.rows.word_children()  # L_P e_j and R_P e_j: u · e_j without u
        states = torch.stack([self.predicted, self.waiting], 2)  # [B, n, 2, N]
        # The exponents cancel as whole numbers, before they are rounded as logs.
        digits, twos = torch.frexp(torch.linalg.vecdot(states, words))
        logs = digits.log() + (twos + self.exponents[..., None] + word_exponents) * math.log(2)
        return torch.logsumexp(logs, -1) + self.log_words + self.best

    def log_sentences(self) -> Tensor:
        """log P(w_0 … w_{m−1} is a whole sentence) for m = 0 … n − 1, [B, n]; −inf below two words."""
        found = torch.full_like(self.exponents, -math.inf)
        log_root = self.arguments.root.double().log()
        for m in range(2, found.shape[1]):
            beta, exponents = self.rows.prefix(m)
            found[:, m] = torch.logsumexp(beta.log() + log_root, -1) + exponents * math.log(2) + self.log_words[:, m]
        return found


def left_to_right(arguments: InsideArguments, closure: Closure, backend: str) -> LeftToRight:
    """The states before every word of every sentence; beyond a sentence's last word they mean nothing."""
    batch, n, nonterminals, _ = arguments.sizes
    rows = inside_rows(arguments, backend)
    best = best_emissions(arguments)
    predicted = best.new_empty(batch, n, nonterminals)
    waiting = torch.zeros_like(predicted)
    exponents = best.new_empty(batch, n)
    predicted[:, 0], exponents[:, 0] = closure.start, 0.0
    for j in range(1, n):
        found, exponents[:, j] = sum_products(predicted[:, :j], exponents[:, :j], *rows.left_children(j))
        waiting[:, j] = found
        predicted[:, j] = torch.matmul(found.unsqueeze(1), closure.carry).squeeze(1)
    log_words = best.cumsum(1).roll(1, 1)
    log_words[:, 0] = 0.0
    return LeftToRight(arguments, rows, predicted, waiting, exponents, best, log_words)


def sum_products(rows: Tensor, exponents: Tensor, others: Tensor, other_exponents: Tensor) -> tuple[Tensor, Tensor]:
    """Σ_k rows_k ⊙ others_k of [B, k, N] with exponents [B, k]: [B, N], its largest at 2^PEAK, and exponents [B]."""
    terms = exponents + other_exponents
    largest = terms.amax(-1)
    factors = (terms - largest[:, None]).exp2()
    found = (factors[..., None] * rows * others).sum(1)
    maxima = found.amax(-1)
    dead = maxima == 0
    shift = (PEAK - maxima.log2().ceil()).masked_fill(dead, 0.0).clamp(max=1000.0)
    return found * shift.exp2()[:, None], (largest - shift).masked_fill(dead, DEAD)


def best_emissions(arguments: InsideArguments) -> Tensor:
    """Each word's largest log-emission: [B, n] float64; 0 where that is −inf."""
    best = arguments.log_emissions.amax(-1).double()
    return best.masked_fill(best == -math.inf, 0.0)
