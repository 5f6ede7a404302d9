"""Prefix probabilities from left to right, from an inside chart. README.md derives the recursion.

Everything except for the inside chart is in float64, which is cheap here and has a large range.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from simplepcfg.ops.arguments import InsideArguments
from simplepcfg.ops.prefix.charts import InsideRows
from simplepcfg.ops.prefix.closure import FLOAT32_PEAK, Closure
from simplepcfg.ops.products import weighted_sums
from simplepcfg.ops.scales import DEAD

# States are scaled to a maximum of about 2^PEAK. Their products with rows of a chart, which are at most 2^256, and sums
# of these do not overflow, and small values have a large range.
PEAK = 500
# So many preterminals are processed at a time that a float64 copy of their rules has at most this size.
RULE_BYTES = 64 << 20
Places = tuple[slice | Tensor, slice | Tensor]  # which sentences, and which of their positions


@dataclass(frozen=True)
class LeftToRight:
    """The states before each word, which are joint probabilities with the words before: value = row · 2^exponent."""

    arguments: InsideArguments
    predicted: Tensor  # [B, n, N] float64, g: the expected number of each nonterminal that begins at this word
    waiting: Tensor  # [B, n, N] float64, r: nonterminals whose left child ends here, whose right child begins here
    exponents: Tensor  # [B, n]
    log_words: Tensor  # [B, n]: the sum of the largest log-emissions of the words before, to which they are relative
    log_next: Tensor  # [B, n]: log P(a sentence begins with w_0 … w_j) for each j
    log_sentences: Tensor  # [B, n]: log P(w_0 … w_{m−1} is a whole sentence) for each m; −inf for fewer than two words

    def tag_weights(self, at: Places, scale: Tensor, kind: torch.dtype) -> Tensor:
        """Compute the weight of each preterminal at some positions, times ``scale``, which has their shape: [*, P].

        ``at`` is an index of tensors [B, n]; under batched rules it includes every sentence. The products are in the
        dtype ``kind``, in whose range the scaled states must lie.
        """
        nonterminals = self.arguments.root.shape[-1]
        predicted, waiting = ((states[at] * scale[..., None]).to(kind) for states in (self.predicted, self.waiting))
        parts = []
        for chunk in self._column_chunks():
            columns = slice(nonterminals + chunk.start, nonterminals + chunk.stop)
            left, right = (rules[..., columns].to(kind) for rules in (self.arguments.left, self.arguments.right))
            parts.append(torch.matmul(predicted, left) + torch.matmul(waiting, right))
        return torch.cat(parts, -1)

    def _column_chunks(self) -> list[slice]:
        """Split the preterminals into slices whose rules are converted to float64 at a time."""
        _, _, nonterminals, preterminals = self.arguments.sizes
        copies = self.arguments.left.shape[0] if self.arguments.batched_rules else 1
        step = max(1, RULE_BYTES // (8 * nonterminals * copies))
        return [slice(start, min(start + step, preterminals)) for start in range(0, preterminals, step)]


def left_to_right(arguments: InsideArguments, closure: Closure, rows: InsideRows) -> LeftToRight:
    """Compute the states before every word of every sentence; those beyond the end of a sentence are arbitrary."""
    batch, n, nonterminals, _ = arguments.sizes
    best = best_emissions(arguments)
    predicted = best.new_empty(batch, n, nonterminals)
    waiting = torch.zeros_like(predicted)
    exponents = best.new_empty(batch, n)
    predicted[:, 0], exponents[:, 0] = closure.start, 0.0
    for j in range(1, n):
        states, exponents[:, j] = sum_products(predicted[:, :j], exponents[:, :j], *rows.left_children(j))
        waiting[:, j] = states
        if best.is_cuda or closure.carry.dim() == 3:
            predicted[:, j] = torch.matmul(states.unsqueeze(1), closure.carry).squeeze(1)
        else:
            _predict(arguments, closure, states, j, predicted[:, j])
    log_words = best.cumsum(1).roll(1, 1)
    log_words[:, 0] = 0.0
    log_next = _log_next(rows, predicted, waiting, exponents) + log_words + best
    return LeftToRight(
        arguments, predicted, waiting, exponents, log_words, log_next, _log_sentences(arguments, rows, log_words)
    )


def _predict(arguments: InsideArguments, closure: Closure, waiting: Tensor, j: int, out: Tensor) -> None:
    """Multiply the states [B, N] of sentences that have a word j with ``carry`` on a CPU; the others get 0.

    A chart in float32 is as exact as a product in float32, which takes half the time of one in float64.
    """
    carry = closure.float32_carry() if arguments.log_emissions.dtype == torch.float32 else None
    going = slice(None) if arguments.lengths is None else (arguments.lengths > j).nonzero().squeeze(1)
    rows = waiting[going]
    if carry is None:
        states = rows @ closure.carry
    else:
        scale = (FLOAT32_PEAK - torch.frexp(rows.amax(-1, keepdim=True)).exponent.double()).exp2()
        states = ((rows * scale).float() @ carry).double() / scale
    out.zero_()
    out[going] = states


def _log_next(rows: InsideRows, predicted: Tensor, waiting: Tensor, exponents: Tensor) -> Tensor:
    """Compute log P(a sentence begins with w_0 … w_j), relative to the largest emissions of its words: [B, n]."""
    words, word_exponents = rows.word_children()  # L_P e_j and R_P e_j
    states = torch.stack([predicted, waiting], 2)  # [B, n, 2, N]
    # Exponents are added as integers before the conversion to logs, to avoid rounding.
    digits, twos = torch.frexp(torch.linalg.vecdot(states, words))
    logs = digits.log() + (twos + exponents[..., None] + word_exponents) * math.log(2)
    return torch.logsumexp(logs, -1)


def _log_sentences(arguments: InsideArguments, rows: InsideRows, log_words: Tensor) -> Tensor:
    log_sentences = torch.full_like(log_words, -math.inf)
    log_root = arguments.root.double().log()
    for m in range(2, log_sentences.shape[1]):
        beta, exponents = rows.prefix(m)
        log_sentences[:, m] = torch.logsumexp(beta.log() + log_root, -1) + exponents * math.log(2) + log_words[:, m]
    return log_sentences


def sum_products(rows: Tensor, exponents: Tensor, others: Tensor, other_exponents: Tensor) -> tuple[Tensor, Tensor]:
    """Compute Σ_k rows_k ⊙ others_k of [B, k, N] with exponents [B, k]: [B, N], scaled, and exponents [B]."""
    terms = exponents + other_exponents
    largest = terms.amax(-1)
    factors = (terms - largest[:, None]).exp2()
    sums = (factors[..., None] * rows * others).sum(1) if rows.is_cuda else weighted_sums(factors, rows * others)
    maxima = sums.amax(-1)
    dead = maxima == 0
    shift = (PEAK - maxima.log2().ceil()).masked_fill(dead, 0.0).clamp(max=1000.0)
    return sums * shift.exp2()[:, None], (largest - shift).masked_fill(dead, DEAD)


def best_emissions(arguments: InsideArguments) -> Tensor:
    """Return the largest log-emission of each word, or 0 if it is −inf: [B, n] float64."""
    best = arguments.log_emissions.amax(-1).double()
    return best.masked_fill(best == -math.inf, 0.0)
