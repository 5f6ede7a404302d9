"""Upper bounds of the probability of every derivation through a node, from an inside chart of powers of all rules.

For every q ≥ 1 and every set D of derivations, max p(d) ≤ (Σ p(d)^q)^(1/q). The sum is the inside algorithm with
each probability replaced by its q-th power: matrix products in place of max-plus products, which no library has. With
q = 4 it is within a few nats of the maximum, where q = 1, the probability of the sentence, is tens of nats away.
"""

import math
from dataclasses import replace
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from simplepcfg.ops.arguments import InsideArguments
from simplepcfg.ops.inside.scaled_chart import ScaledChart
from simplepcfg.ops.products import placed_products
from simplepcfg.ops.transposed_rules import kept_layout
from simplepcfg.ops.viterbi.clusters import CLUSTERS, clusters_of

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

Numbers = TypeVar("Numbers", Tensor, Floats)

POWER = 4
# Powers of symbols, times the sum of all rules with this child, of at most this share of the largest of their span are
# multiplied with the rules of their clusters. With 1e-10 bounds hardly rise.
LEAST_SHARE = 1e-10
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
        self.given = arguments
        self.every_length = np.full(len(words), n) if arguments.lengths is None else arguments.lengths.numpy()
        self.emissions = arguments.log_emissions.detach().numpy()
        rules = (arguments.left, arguments.right, arguments.root.unsqueeze(-2))
        self.tables = [table.detach().numpy() for table in rules]
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
        if self.arguments.batched_rules:
            super().take_rules()
            self.transposed, self.transposed_word_rules = _power(self.transposed), _power(self.transposed_word_rules)
            return
        left, right, states = self.arguments.left, self.arguments.right, self.nonterminals
        powers = kept_layout("powers", left, right, lambda *sides: _power(torch.cat([side.T for side in sides], -1)))
        self.transposed, self.transposed_word_rules = powers[:states], powers[states:]
        self.clusters = clusters_of(left, right)
        self.sums = kept_layout("sums of powers", left, right, lambda *_: _sums(powers[:states]))
        self.greatest = kept_layout(
            "greatest shares", left, right, lambda *_: _greatest_shares(powers[:states], self.sums, self.clusters)
        )

    def _multiply(self, width: int) -> Tensor:
        """Compute bounds of η and ζ: few powers are large, and the others have a bound for each cluster.

        A rule is its share of the rules with the same child, times their sum. The sum of power · rule over some
        children is at most the sum of power · sum of rules, times the greatest share.
        """
        if self.arguments.batched_rules:
            return super()._multiply(width)
        beta = self.beta[width].flatten(0, 1)
        weighted = beta.numpy() * self.sums.numpy()
        places = np.flatnonzero(weighted > LEAST_SHARE * weighted.max(1, keepdims=True))
        products = placed_products(beta, places, self.transposed)
        weighted.ravel()[places] = 0.0
        rest = beta.new_zeros(len(beta), CLUSTERS).index_add_(1, self.clusters, torch.from_numpy(weighted))
        return products.addmm_(rest, self.greatest)

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

    def fill(self) -> Tensor:
        log_z = super().fill()
        # What a search reads, without a call of PyTorch for each time.
        self.cells, self.cell_exponents = self.square.cells.numpy(), self.exponents.cells.numpy()
        peak = np.broadcast_to(-float(self.range.peak), (self.batch, self.n))
        self.insides = {1: (self.words.numpy(), peak, LEAST_ROW)}
        for width, beta in self.beta.items():
            self.insides[width] = (beta.numpy(), self.beta_exponents[width].numpy(), LEAST_SUM)
        return log_z

    def inside(self, width: int, b: Integers, i: Integers) -> tuple[Floats, Floats]:
        """Return the bounds of all symbols of spans of one width, [spans, N] or [spans, P], and their exponents."""
        values, exponents, least = self.insides[width]
        return np.maximum(values[b, i], least), exponents[b, i].astype(np.float64)

    def log2_sides(self, b: Integers, i: Integers, k: Integers, j: Integers, symbol: Integers) -> tuple[Floats, Floats]:
        """Return the bounds of what stands on the left and on the right of splits, for one parent symbol each."""
        left = np.log2(self.cells[b, i, k, symbol], dtype=np.float64) + self.cell_exponents[b, i, k]
        return left, np.log2(self.cells[b, j, k, symbol], dtype=np.float64) + self.cell_exponents[b, j, k]

    def rule_rows(self, width: int, b: Integers, rules: Integers) -> Floats:
        """Return rows of [L; R; root], not raised to a power, for children of this width: [rows, N] or [rows, P]."""
        columns = slice(self.nonterminals, None) if width == 1 else slice(self.nonterminals)
        kinds, parents = np.divmod(rules, self.nonterminals)
        width_of_rows = (self.words if width == 1 else self.square.cells).shape[-1]
        rows = np.empty((len(rules), width_of_rows), self.tables[0].dtype)
        for kind, table in enumerate(self.tables):
            some = np.flatnonzero(kinds == kind)
            if len(some):
                table = table[..., columns]
                rows[some] = table[b[some], parents[some]] if table.ndim == 3 else table[parents[some]]
        return rows

    def bonus_of(self, b: Integers, i: Integers, j: Integers) -> Floats:
        """Return the bonus of spans, not raised to a power; there must be one."""
        assert self.given.span_bonus is not None
        return self.given.span_bonus.detach().numpy()[b, i, j].astype(np.float64)


def _sums(powers: Tensor) -> Tensor:
    """Return the sums of the rows of powers, of a child that no rule has the smallest number: [N]."""
    return powers.sum(1).clamp_(min=LEAST_POWER)


def _greatest_shares(powers: Tensor, sums: Tensor, clusters: Tensor) -> Tensor:
    """Return the largest of the rows [N, 2N] of the members of each cluster, divided by their sums: [K, 2N]."""
    shares = (powers / sums[:, None]).clamp_(min=LEAST_POWER).masked_fill_(powers == 0, 0.0)
    rows = powers.new_zeros(CLUSTERS, powers.shape[1])
    return rows.scatter_reduce_(0, clusters[:, None].expand_as(powers), shares, "amax")


def _power(probabilities: Tensor) -> Tensor:
    powers = raised(probabilities.detach().float()).clamp_(min=LEAST_POWER)
    if not float(probabilities.min()) > 0:  # a rule that is missing stays so
        powers.masked_fill_(probabilities <= 0, 0.0)
    return powers


def raised(probabilities: Numbers) -> Numbers:
    """Return the q-th powers."""
    powers = probabilities * probabilities
    powers *= powers
    return powers
