"""Upper bounds of the probability of every derivation through a node, from an inside chart of powers of all rules.

For every q ≥ 1 and every set D of derivations, max p(d) ≤ (Σ p(d)^q)^(1/q). The sum is the inside algorithm with
each probability replaced by its q-th power: matrix products in place of max-plus products, which no library has. With
q = 4 it is within a few nats of the maximum, where q = 1, the probability of the sentence, is tens of nats away.
"""

import math
from dataclasses import replace

import torch
from torch import Tensor

from simplepcfg.ops.arguments import InsideArguments
from simplepcfg.ops.inside.scaled_chart import ScaledChart

POWER = 4
# A power that leaves the range of float32 is replaced by this, which keeps the bounds above what they bound.
LEAST_POWER = 2.0**-120
# What may have underflowed in sums of products of rows whose maximum is at least 1, with or without subnormal numbers.
LEAST_SUM = 2.0**-108
LEAST_ROW = LEAST_SUM * 2.0**32  # the same after rows were scaled to a maximum of 2^32


class BoundChart(ScaledChart):
    """An inside chart of q-th powers in float32, in which no value is too small, except for rounding.

    ``log_top`` and all values are relative to the most probable preterminal of each word: ``log_best`` [B] is the sum
    of these over a sentence, not raised to a power.
    """

    def __init__(self, arguments: InsideArguments) -> None:
        best = arguments.log_emissions.double().amax(-1, keepdim=True)
        best.masked_fill_(best == -math.inf, 0.0)
        n = arguments.sizes[1]
        words = best[..., 0]
        if arguments.lengths is not None:
            words = words.masked_fill(torch.arange(n) >= arguments.lengths[:, None], 0.0)
        self.log_best = words.sum(1)
        self.beta_exponents: dict[int, Tensor] = {}  # by width: [B, spans]
        super().__init__(
            replace(
                arguments,
                log_emissions=((arguments.log_emissions - best) * POWER).float(),
                root=_power(arguments.root),
                span_bonus=None if arguments.span_bonus is None else arguments.span_bonus * POWER,
                precision=None,
            )
        )

    def take_rules(self) -> None:
        super().take_rules()
        self.transposed, self.transposed_word_rules = _power(self.transposed), _power(self.transposed_word_rules)

    def split_sums(self, width: int) -> Tensor:
        exponents = self.beta_exponents[width] = super().split_sums(width)
        return exponents

    def _store(self, width: int, both: Tensor, maxima: Tensor, lowest: float, exponents: Tensor) -> None:
        super()._store(width, both, maxima, lowest, exponents)
        rows = self.square.rows(width)
        if lowest >= self.range.safe:
            rows.clamp_(min=LEAST_ROW)
        else:
            torch.maximum(rows, (self.scales[width] * LEAST_SUM).clamp(min=LEAST_ROW)[..., None], out=rows)

    def rounding(self) -> float:
        """Return a bound of the rounding errors of a chain of sums from a word to the root, as a difference of logs.

        The terms of all sums are positive, so that each sum has a relative error of at most its number of terms.
        """
        preterminals = self.words.shape[-1]
        return self.n * (self.nonterminals + preterminals + 2 * self.n + 1000) * torch.finfo(torch.float32).eps

    def log2_words(self, b: Tensor, i: Tensor) -> Tensor:
        """Return the bounds of the preterminals of words: [words, P]."""
        return self.words[b, i].clamp(min=LEAST_ROW).double().log2_() - self.range.peak

    def log2_beta(self, width: int, b: Tensor, i: Tensor) -> Tensor:
        """Return the bounds of the nonterminals of spans: [spans, N]."""
        exponents = self.beta_exponents[width][b, i].double()
        return self.beta[width][b, i].clamp(min=LEAST_SUM).double().log2_() + exponents[:, None]

    def log2_sides(self, b: Tensor, i: Tensor, k: Tensor, j: Tensor, symbol: Tensor) -> tuple[Tensor, Tensor]:
        """Return the bounds of what stands on the left and on the right of splits, for one parent symbol each."""
        left = self.square.cells[b, i, k, symbol].double().log2_() + self.exponents.cells[b, i, k].double()
        right = self.square.cells[b, j, k, symbol].double().log2_() + self.exponents.cells[b, j, k].double()
        return left, right


def _power(probabilities: Tensor) -> Tensor:
    powers = probabilities.detach().float().square().square_().clamp_(min=LEAST_POWER)
    if not float(probabilities.min()) > 0:  # a rule that is missing stays so
        powers.masked_fill_(probabilities <= 0, 0.0)
    return powers
