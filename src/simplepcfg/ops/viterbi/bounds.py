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
from simplepcfg.ops.marginals.coarse import CLUSTERS, clusters_of
from simplepcfg.ops.products import chosen_products
from simplepcfg.ops.transposed_rules import kept_layout

POWER = 4
# Powers of symbols of at most this share of the largest of their span are multiplied with the largest rules of their
# clusters. With 1e-12, a probability of 0.001 of the largest, bounds hardly rise.
LEAST_SHARE = 1e-12
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
        rules, words = self.transposed, self.transposed_word_rules
        self.transposed, self.transposed_word_rules = _power(rules), _power(words)
        if not self.arguments.batched_rules:
            left, right = self.arguments.left, self.arguments.right
            self.clusters = clusters_of(left, right)
            self.greatest = _power(kept_layout("greatest", left, right, lambda *_: _greatest(rules, self.clusters)))

    def _multiply(self, width: int) -> Tensor:
        """Compute bounds of η and ζ: few powers are large, and the others have a bound for each cluster.

        The sum of power · rule over some symbols is at most the sum of their powers times the largest rule.
        """
        if self.arguments.batched_rules:
            return super()._multiply(width)
        beta = self.beta[width].flatten(0, 1)
        chosen = beta > LEAST_SHARE * beta.amax(-1, keepdim=True)
        rest = beta.new_zeros(len(beta), CLUSTERS).index_add_(1, self.clusters, beta.masked_fill(chosen, 0.0))
        return chosen_products(beta, chosen, self.transposed).addmm_(rest, self.greatest)

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

    def log2_nodes(self, width: int, b: Tensor, i: Tensor, least: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Find the symbols of spans [spans] whose bounds reach about ``least``: span, symbol, bound [nodes]."""
        if width == 1:
            values, exponents = self.words[b, i].clamp_(min=LEAST_ROW), least.new_tensor(-self.range.peak).expand_as(b)
        else:
            values, exponents = self.beta[width][b, i].clamp_(min=LEAST_SUM), self.beta_exponents[width][b, i].double()
        # Compared in logs once more by the caller: here rounding must only not lose any.
        limits = (least - exponents - 0.01).clamp(-140, 120).exp2_().float()
        nodes, symbols = (values >= limits[:, None]).nonzero(as_tuple=True)
        return nodes, symbols, values[nodes, symbols].double().log2_() + exponents[nodes]

    def log2_sides(self, b: Tensor, i: Tensor, k: Tensor, j: Tensor, symbol: Tensor) -> tuple[Tensor, Tensor]:
        """Return the bounds of what stands on the left and on the right of splits, for one parent symbol each."""
        left = self.square.cells[b, i, k, symbol].double().log2_() + self.exponents.cells[b, i, k].double()
        right = self.square.cells[b, j, k, symbol].double().log2_() + self.exponents.cells[b, j, k].double()
        return left, right


def _greatest(rules: Tensor, clusters: Tensor) -> Tensor:
    """Return the largest of the rows [N, 2N] of the members of each cluster: [K, 2N]."""
    rows = rules.new_zeros(CLUSTERS, rules.shape[1])
    return rows.scatter_reduce_(0, clusters[:, None].expand_as(rules), rules, "amax")


def _power(probabilities: Tensor) -> Tensor:
    powers = probabilities.detach().float().square().square_().clamp_(min=LEAST_POWER)
    if not float(probabilities.min()) > 0:  # a rule that is missing stays so
        powers.masked_fill_(probabilities <= 0, 0.0)
    return powers
