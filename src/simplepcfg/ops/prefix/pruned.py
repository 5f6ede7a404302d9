"""Charts from left to right without improbable nodes, on a CPU; README.md says which nodes these are."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from simplepcfg.ops.arguments import InsideArguments
from simplepcfg.ops.prefix.closure import Closure
from simplepcfg.ops.prefix.left_to_right import LeftToRight, best_emissions
from simplepcfg.ops.prefix.scaled_rows import distinct_rows
from simplepcfg.ops.transposed_rules import rows_and_gaps, transposed_rules

# Nodes are dropped whose probability, given the words up to their end, is below this.
THRESHOLD = 1e-4
# The same where whole sentences are asked for, their log p or their trees, in which errors add up.
SENTENCE_THRESHOLD = 3e-5
# From so much of its probability on that a prefix or the spans with one end lose, the exact form takes its place.
MOST_LOST = 0.5
# The threshold of nodes that end with the sentence is so many times lower, since that it ends is often improbable.
END_FACTOR = 10.0

Array = NDArray[np.floating]


@dataclass(slots=True)
class Chart:
    """The spans of one sentence, scaled so that each prefix has the probability 1."""

    eta: Array  # [rows, N], 0 for spans without nodes; by end, then by start: see ``first_row``
    zeta: Array | None  # the same, if it is kept
    top: Array  # [N]: β(0, n)
    nodes: dict[int, tuple[NDArray[np.intp], Array]] = field(default_factory=dict)  # by row, if ζ is: symbols and β
    lost: float = 0.0  # if ζ is: the largest sum of the probabilities of dropped nodes with one end


def first_row(end: int) -> int:
    """Return the number of the row of the span from 0 to this end."""
    return end * (end - 1) // 2


@dataclass(slots=True)
class Charts:
    """The charts of a batch, the longest sentence first, and the states before each of their words."""

    order: Tensor  # [B]: of which sentence each chart is
    charts: list[Chart]
    predicted: Tensor  # [B, n + 1, N]: g, given the words before
    waiting: Tensor  # [B, n + 1, N]: r
    log_prefix: Tensor  # [B, n + 1] float64
    end: Tensor  # [B, n + 1] float64: P(the sentence ends here | the words before)


@np.errstate(all="ignore")
def fill_charts(
    arguments: InsideArguments, closure: Closure, lengths: Tensor, threshold: float, *, ends: bool, nodes: bool = False
) -> Charts:
    """Fill the charts of sentences under one grammar; all probabilities are lower bounds.

    With ``ends=False`` spans that end with a sentence, and the states after it, are missing. With ``nodes`` the charts
    have ζ and the nodes. What is not finite left the floating-point range.
    """
    batch, n, split, _ = arguments.sizes
    dtype = arguments.log_emissions.dtype
    order = lengths.argsort(descending=True)  # the sentences that have a word j come first
    last = lengths[order]
    rules = transposed_rules(arguments.left, arguments.right)  # [N + P, 2N]
    best = best_emissions(arguments)
    chosen, word_of = distinct_rows(arguments.log_emissions.flatten(0, 1))
    words = (arguments.log_emissions.flatten(0, 1)[chosen] - best.flatten()[chosen, None].to(dtype)).exp_()
    words, word_of, best = words @ rules[split:], word_of.view(batch, n)[order], best[order]
    carry = closure.float32_carry() if dtype == torch.float32 else None
    carry = closure.carry.to(dtype) if carry is None else carry
    bonus = arguments.span_bonus
    factors = None if bonus is None else bonus[order].exp().transpose(1, 2).numpy()  # by end, then by start

    predicted, waiting, least = torch.zeros(3, batch, n + 1, split, dtype=dtype)
    log_prefix, end = torch.zeros(2, batch, n + 1, dtype=torch.float64)
    tops = torch.zeros(batch, split, dtype=dtype)
    predicted[:, 0] = closure.start
    columns = _Columns(rows_and_gaps(rules[:split]).numpy(), n)
    charts = []
    for length, top in zip(last.tolist(), tops.numpy(), strict=True):
        eta = np.zeros((first_row(length + 1), split), top.dtype)
        charts.append(Chart(eta, np.zeros_like(eta) if nodes else None, top))
    g, smallest, r = (tensor.numpy() for tensor in (predicted, least, waiting))
    for j in range(1, n + 1):
        count = int((last >= j).sum())
        least[:count, j - 1] = threshold / predicted[:count, j - 1]
        children = words[word_of[:count, j - 1]]  # [count, 2N]
        before = torch.cat([predicted[:count, j - 1], waiting[:count, j - 1]], -1)
        probability = torch.linalg.vecdot(before, children)
        log_prefix[:count, j] = log_prefix[:count, j - 1] + probability.double().log() + best[:count, j - 1]
        scale = torch.where(last[:count] == j, END_FACTOR, 1.0).to(dtype)
        children *= (scale / probability)[:, None]
        count = count if ends else int((last > j).sum())
        for b, word in enumerate(children[:count].numpy()):
            column = None if factors is None else factors[b, j]
            columns.add(charts[b], j, word, g[b], smallest[b], r[b], column)
        waiting[:count, j] /= scale[:count, None]
        end[:count, j] = tops[:count] @ arguments.root / scale[:count]
        torch.mm(waiting[:count, j], carry, out=predicted[:count, j])
    return Charts(order, charts, predicted, waiting, log_prefix, end)


def pruned_left_to_right(
    arguments: InsideArguments, closure: Closure, lengths: Tensor, threshold: float, ends: bool
) -> tuple[LeftToRight, Tensor]:
    """Compute the states before every word and after the last one, given the words before, not joint with them.

    Returns:
        The states, which have n + 1 positions, and the share of each prefix that its own spans keep, [B, n + 1].
    """
    filled = fill_charts(arguments, closure, lengths, threshold, ends=ends)
    back = filled.order.argsort()
    log_prefix, end, waiting = filled.log_prefix[back], filled.end[back], filled.waiting[back]
    kept = waiting.sum(-1, dtype=torch.float64) + end
    kept[:, 0] = 1.0
    exponents = torch.zeros_like(log_prefix)
    states = LeftToRight(
        arguments, filled.predicted[back], waiting, exponents, log_prefix, log_prefix[:, 1:], end.log() + log_prefix
    )
    return states, kept


class _Columns:
    """Adds columns, the spans that end with one word, to charts. Each call of NumPy takes less time than torch's."""

    def __init__(self, rules: Array, n: int) -> None:
        """Take the rules of nonterminals, [N, 2N] and columns without a meaning, and the largest number of words."""
        self.rules, self.split = rules, len(rules)
        self.beta, self.products = np.empty((2, n, self.split), rules.dtype)
        self.rows, self.children = np.empty_like(rules), np.empty(rules.shape[1], rules.dtype)
        self.eta, self.zeta = self.children[: self.split], self.children[self.split : 2 * self.split]

    def add(
        self, chart: Chart, j: int, word: Array, predicted: Array, least: Array, waiting: Array, factors: Array | None
    ) -> None:
        """Add the spans that end at j to a chart, and write r(j).

        Args:
            word: η and ζ of the last word, [2N].
            predicted: g, [n + 1, N].
            least: the smallest β of a node that is kept, by its start, [n + 1, N].
            waiting: r, [n + 1, N].
            factors: by which β is multiplied, by start, [n + 1].
        """
        split, eta, first = self.split, chart.eta, first_row(j)
        beta = np.multiply(eta[first_row(j - 1) : first], word[split:], out=self.beta[: j - 1])
        eta[first + j - 1] = word[:split]
        if chart.zeta is not None:
            chart.zeta[first + j - 1] = word[split:]
        states = np.multiply(predicted[j - 1], word[:split], out=waiting[j])
        probable = 0.0  # the sum of the probabilities of the nodes that are kept
        for i in range(j - 2, -1, -1):
            row = beta[i]
            if factors is not None:
                row *= factors[i]
            (kept,) = (row >= least[i]).nonzero()
            if not len(kept):
                continue
            values = row[kept]
            np.dot(values, self.rules.take(kept, 0, out=self.rows[: len(kept)], mode="clip"), out=self.children)
            eta[first + i] = self.eta
            if chart.zeta is not None:
                chart.zeta[first + i] = self.zeta
                chart.nodes[first + i] = kept, values
                probable += float(values @ predicted[i, kept])
            states += predicted[i] * eta[first + i]
            if i:
                beta[:i] += np.multiply(eta[first_row(i) : first_row(i + 1)], self.zeta, out=self.products[:i])
        if j > 1:
            chart.top[:] = beta[0]
            if chart.zeta is not None:
                chart.lost = max(chart.lost, float(np.vdot(beta, predicted[: j - 1])) - probable)
