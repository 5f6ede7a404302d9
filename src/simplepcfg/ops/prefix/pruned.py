"""Prefix probabilities from left to right without improbable nodes, on a CPU; README.md says which nodes these are."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from simplepcfg.ops.arguments import InsideArguments
from simplepcfg.ops.prefix.closure import Closure
from simplepcfg.ops.prefix.left_to_right import LeftToRight, best_emissions
from simplepcfg.ops.prefix.scaled_rows import distinct_rows
from simplepcfg.ops.transposed_rules import transposed_rules

# Nodes are dropped whose probability, given the words up to their end, is below this.
THRESHOLD = 1e-4
# The same where only log p of whole sentences is asked for, in which errors add up.
SENTENCE_THRESHOLD = 3e-5
# From so much of its probability on that a prefix loses, the exact form takes its place.
MOST_LOST = 0.5
LEAST_NONTERMINALS = 512  # with fewer the exact form takes less time
# The threshold of nodes that end with the sentence is so many times lower, since that it ends is often improbable.
END_FACTOR = 10.0

Array = NDArray[np.floating]


def pruned_left_to_right(
    arguments: InsideArguments, closure: Closure, lengths: Tensor, threshold: float, ends: bool
) -> tuple[LeftToRight, Tensor]:
    """Compute the states before every word, and after the last one, without improbable nodes.

    The rules have no batch dimension. All probabilities are lower bounds. The states are given the words before, not
    joint with them. With ``ends=False`` those after the last word are missing.

    Returns:
        The states, which have n + 1 positions, and the share of each prefix that its own spans keep, [B, n + 1]. What
        is not finite left the floating-point range.
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

    predicted, waiting, least = torch.zeros(3, batch, n + 1, split, dtype=dtype)
    log_prefix, end, kept = torch.zeros(3, batch, n + 1, dtype=torch.float64)
    tops = torch.zeros(batch, split, dtype=dtype)
    predicted[:, 0], kept[:, 0] = closure.start, 1.0
    columns = _Columns(rules[:split].numpy(), n)
    charts: list[list[Array]] = [[np.empty((0, split), columns.rules.dtype)] for _ in range(batch)]
    arrays = [tensor.numpy() for tensor in (predicted, least, waiting, tops)]
    for j in range(1, n + 1):
        count = int((last >= j).sum())
        least[:count, j - 1] = threshold / predicted[:count, j - 1]
        children = words[word_of[:count, j - 1]]  # [count, 2N]
        before = torch.cat([predicted[:count, j - 1], waiting[:count, j - 1]], -1)
        probability = torch.linalg.vecdot(before, children)
        log_prefix[:count, j] = log_prefix[:count, j - 1] + probability.double().log() + best[:count, j - 1]
        # Scaled so that the prefix has the probability 1.
        scale = torch.where(last[:count] == j, END_FACTOR, 1.0).to(dtype)
        children *= (scale / probability)[:, None]
        count = count if ends else int((last > j).sum())
        for b, word in enumerate(children[:count].numpy()):
            columns.add(charts[b], word, *(array[b] for array in arrays))
        waiting[:count, j] /= scale[:count, None]
        end[:count, j] = tops[:count] @ arguments.root / scale[:count]
        kept[:count, j] = waiting[:count, j].sum(-1) + end[:count, j]
        torch.mm(waiting[:count, j], carry, out=predicted[:count, j])
    back = order.argsort()
    log_prefix, kept = log_prefix[back], kept[back]
    log_sentences = end[back].log_() + log_prefix
    exponents = torch.zeros_like(log_prefix)
    states = LeftToRight(
        arguments, predicted[back], waiting[back], exponents, log_prefix, log_prefix[:, 1:], log_sentences
    )
    return states, kept


class _Columns:
    """Adds columns, the spans that end with one word, to charts. Each call of NumPy takes less time than torch's."""

    def __init__(self, rules: Array, n: int) -> None:
        """Take the rules of nonterminals, [N, 2N], and the largest number of words."""
        self.rules, self.split = rules, len(rules)
        self.beta, self.products = np.empty((2, n, self.split), rules.dtype)
        self.rows, self.children = np.empty_like(rules), np.empty(2 * self.split, rules.dtype)

    def add(self, eta: list[Array], word: Array, predicted: Array, least: Array, waiting: Array, top: Array) -> None:
        """Append η(i, j) of all i to ``eta``, whose length is j, and write r(j) and β(0, j).

        Args:
            eta: by end, [end, N] each.
            word: η and ζ of the last word, [2N].
            predicted: g, [n + 1, N].
            least: the smallest β of a node that is kept, by its start, [n + 1, N].
            waiting: r, [n + 1, N].
            top: β(0, j), [N].
        """
        j, split = len(eta), self.split
        beta = np.multiply(eta[-1], word[split:], out=self.beta[: j - 1])
        column = np.zeros((j, split), word.dtype)
        column[-1] = word[:split]
        total = np.multiply(predicted[j - 1], column[-1], out=waiting[j])
        for i in range(j - 2, -1, -1):
            row = beta[i]
            (kept,) = (row >= least[i]).nonzero()
            if not len(kept):
                continue
            rows = self.rules.take(kept, 0, out=self.rows[: len(kept)], mode="clip")
            np.dot(row[kept], rows, out=self.children)
            column[i] = self.children[:split]
            total += predicted[i] * column[i]
            if i:
                beta[:i] += np.multiply(eta[i], self.children[split:], out=self.products[:i])
        eta.append(column)
        if j > 1:
            top[:] = beta[0]
