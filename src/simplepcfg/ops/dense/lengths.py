"""The distribution of sentence lengths of an ordinary PCFG, by which sentences of a limited length are drawn directly.

    g_w[A] = Σ_{0<k<w} Σ_B Σ_C rules[A, B, C] g_k[B] g_{w−k}[C]      g_1[T] = 1

g_w[A] is the probability that A generates w words, whichever these are: the inside algorithm of a sentence that says
nothing, whose spans differ in width alone.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

DEAD = -1.0e9


@dataclass(frozen=True, slots=True)
class LengthRows:
    """Inside values by width 0 … longest in float64, where value = row · 2^exponent, as ``Rows`` of ``sample.py``."""

    beta: Tensor  # [longest + 1, N]: g, from width 2 on
    exponent: Tensor  # [longest + 1]
    before: Tensor  # [N, N]: Σ over preterminals B of rules[A, B, C], for a word as left child
    after: Tensor  # [N, N]: Σ over preterminals C of rules[A, B, C], for a word as right child
    rules: Tensor  # [N, S, S]
    log_lengths: Tensor  # [longest + 1]: log P(length), -inf for 0 and 1

    def spans(self, sentence: Tensor, start: Tensor, end: Tensor) -> tuple[Tensor, Tensor]:
        """Return g and its exponent; for a single word only the exponent is meaningful."""
        width = (end - start).clamp(min=0)
        return self.beta[width], self.exponent[width]

    def words(self, sentence: Tensor, start: Tensor) -> Tensor:
        """Return ones, the emissions."""
        preterminals = self.rules.shape[1] - self.beta.shape[1]
        return self.beta.new_ones(start.shape[0], preterminals)

    def word_first(self, sentence: Tensor, start: Tensor, label: Tensor) -> Tensor:
        """Return the sums of rules for a word as left child: [X, N]."""
        return self.before[label]

    def word_last(self, sentence: Tensor, start: Tensor, label: Tensor) -> Tensor:
        """Return the sums of rules for a word as right child: [X, N]."""
        return self.after[label]

    def of_parents(self, sentence: Tensor, label: Tensor) -> Tensor:
        """Rules of some parents: [X, S, S]."""
        return self.rules[label]


def length_rows(root: Tensor, rules: Tensor, longest: int) -> LengthRows:
    """Compute the table up to a length, in float64."""
    rules = rules.double()
    states = root.shape[-1]
    wide = rules[:, :states, :states].flatten(1)
    before, after = rules[:, states:, :states].sum(1), rules[:, :states, states:].sum(2)
    beta = rules.new_zeros(longest + 1, states)
    exponent = rules.new_full((longest + 1,), DEAD)
    exponent[1] = 0.0
    for width in range(2, longest + 1):
        splits = exponent[1:width] + exponent[1:width].flip(0)
        place = splits.max()
        factors = torch.exp2(splits - place)  # [splits]
        if width == 2:
            sums = rules[:, states:, states:].sum((1, 2))
        else:
            left, right = beta[2 : width - 1], beta[2 : width - 1].flip(0)  # splits into two wide children
            pairs = (left * factors[1:-1, None]).T @ right  # [N, N]
            sums = wide @ pairs.flatten() + (before + after) @ (beta[width - 1] * factors[0])
        shift = torch.frexp(sums.max()).exponent.double()
        alive = (place > DEAD / 2) & (sums.max() > 0)
        beta[width] = torch.ldexp(sums, -shift)
        exponent[width] = torch.where(alive, place + shift, DEAD)
    log_lengths = (beta @ root.double()).log() + exponent * math.log(2)
    return LengthRows(beta, exponent, before, after, rules, log_lengths)
