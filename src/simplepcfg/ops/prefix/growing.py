"""Prefixes that are extended word by word, as when sentences are sampled; each word adds one column to the chart."""

import math

import torch
from torch import Tensor

from simplepcfg.errors import InputError
from simplepcfg.ops.arguments import Sentences, SimpleRules, check_arguments
from simplepcfg.ops.logs import log_share
from simplepcfg.ops.prefix.closure import Closure, left_corner_closure
from simplepcfg.ops.prefix.left_to_right import left_to_right, sum_products
from simplepcfg.ops.prefix.scaled_rows import ScaledRows
from simplepcfg.ops.scales import DEAD
from simplepcfg.ops.tag_prefixes import GrowingTags

LOG_2 = math.log(2)
# From so many words on a chart of them all takes less time than adding one at a time.
LEAST_CHARTED = 8


class GrowingPrefix(GrowingTags):
    """Growing prefixes of a simple PCFG, whose chart is kept."""

    by_prefix = ("log_prefix", "log_sentence", "log_words", "waiting", "predicted", "exponents")

    def __init__(self, rules: SimpleRules, closure: Closure | None = None) -> None:
        root, left, right = rules.tensors
        if root.dim() != 1 or left.dim() != 2 or right.dim() != 2:
            raise InputError(f"left has shape {list(left.shape)}; a growing prefix takes one grammar for all sentences")
        with torch.no_grad():
            closure = left_corner_closure(rules) if closure is None else closure
            self.given, self.closure = rules, closure
            split = root.shape[-1]
            both = torch.cat([left, right], -2).double()
            self.rules, self.word_rules = both[:, :split], both[:, split:]  # [2N, N], [2N, P]
            self.log_root = root.double().log()
            self.carry = closure.carry
            zero = torch.zeros(1, dtype=torch.float64, device=left.device)
            self.log_prefix = zero
            self.log_sentence = zero - math.inf
            self.log_words = zero
            self.predicted = closure.start[None, None]  # [S, m + 1, N]: g before each word and after the last
            self.exponents = zero[None]  # [S, m + 1]
            self.waiting = torch.zeros_like(self.predicted[:, 0])  # [S, N]: r after the last word
            # η(i, j) by i: [S, m − i, N] and exponents [S, m − i], for j = i + 1 … m.
            self.eta: list[tuple[Tensor, Tensor]] = []

    def select(self, indices: Tensor) -> None:
        super().select(indices)
        self.eta = [(rows[indices], exponents[indices]) for rows, exponents in self.eta]

    def next_tags(self) -> Tensor:
        scale = log_share(self.exponents[:, -1] * LOG_2 + self.log_words, self.log_prefix).exp()
        return self._tag_weights() * scale[:, None]

    def bytes_per_prefix(self, longest: int) -> int:
        return 4 * longest * longest * self.carry.shape[-1]

    @torch.no_grad()
    def push_all(self, log_emissions: Tensor) -> None:
        """Add words to every prefix, given their log-emissions [m, P].

        Many words after an empty prefix on a CPU take one chart, in the dtype of the rules: its products have a row for
        each span of a width, where ``push`` reads all rules for each span.
        """
        m = len(log_emissions)
        if self.length or m < LEAST_CHARTED or log_emissions.device.type != "cpu":
            super().push_all(log_emissions)
            return
        # What follows the last word needs a word more, of which only the place counts.
        arguments = check_arguments(self.given, Sentences(torch.cat([log_emissions, log_emissions[-1:]])[None]))
        chart = ScaledRows(arguments)
        states = left_to_right(arguments, self.closure, chart)
        self.length = m
        copies = torch.zeros(len(self.log_prefix), dtype=torch.int64)
        self.predicted, self.exponents = states.predicted, states.exponents
        self.waiting, self.log_words = states.waiting[:, m], states.log_words[:, m]
        self.log_prefix, self.log_sentence = states.log_next[:, m - 1].clamp(max=0.0), states.log_sentences[:, m]
        columns = [(i, slice(i + 1, m + 1)) for i in range(m)]
        cells, exponents = chart.square.cells, chart.exponents.cells
        self.eta = [(cells[:, i, ends].double(), exponents[:, i, ends].double()) for i, ends in columns]
        self.select(copies)

    @torch.no_grad()
    def push(self, log_emissions: Tensor) -> None:
        self.length += 1
        log_emissions = log_emissions.double()
        best = log_emissions.amax(-1)
        best = best.masked_fill(best == -math.inf, 0.0)
        emit = (log_emissions - best[:, None]).exp()
        digits, twos = torch.frexp((self._tag_weights() * emit).sum(-1))
        self.log_words = self.log_words + best
        self.log_prefix = (digits.log() + (twos + self.exponents[:, -1]) * LOG_2 + self.log_words).clamp(max=0.0)
        self.eta = list(self.eta)  # a copy shares it
        beta, exponent = self._column(emit @ self.word_rules.T)
        self.log_sentence = torch.logsumexp(beta.log() + self.log_root, -1) + exponent * LOG_2 + self.log_words
        # r = Σ_i g(i) ⊙ η(i, m) over the column that was just added.
        column = torch.stack([rows[:, -1] for rows, _ in self.eta], 1)
        column_exponents = torch.stack([exponents[:, -1] for _, exponents in self.eta], 1)
        self.waiting, exponent = sum_products(self.predicted, self.exponents, column, column_exponents)
        self.predicted = torch.cat([self.predicted, (self.waiting @ self.carry)[:, None]], 1)
        self.exponents = torch.cat([self.exponents, exponent[:, None]], 1)

    def _column(self, children: Tensor) -> tuple[Tensor, Tensor]:
        """Compute η(i, m) for every i, from [η | ζ] of the last word; return β(0, m) and its exponents."""
        none = children.new_zeros(0)
        zeta, zeta_exponents = none, none
        beta = torch.zeros_like(children[:, : self.rules.shape[1]])
        exponent = torch.zeros_like(beta[:, 0])
        m = self.length
        for i in range(m - 1, -1, -1):
            if i < m - 1:
                beta, exponent = sum_products(*self.eta[i], zeta, zeta_exponents)
                children = beta @ self.rules.T
            sides = children.chunk(2, -1)
            (left, left_exponent), (right, right_exponent) = (_normalised(side, exponent) for side in sides)
            if i == m - 1:
                self.eta.append((left[:, None], left_exponent[:, None]))
                zeta, zeta_exponents = right[:, None], right_exponent[:, None]
            else:
                rows, exponents = self.eta[i]
                self.eta[i] = torch.cat([rows, left[:, None]], 1), torch.cat([exponents, left_exponent[:, None]], 1)
                zeta = torch.cat([right[:, None], zeta], 1)
                zeta_exponents = torch.cat([right_exponent[:, None], zeta_exponents], 1)
        return beta, exponent

    def _tag_weights(self) -> Tensor:
        states = torch.cat([self.predicted[:, -1], self.waiting], -1)  # [S, 2N]
        return states @ self.word_rules


def _normalised(rows: Tensor, exponents: Tensor) -> tuple[Tensor, Tensor]:
    """Scale rows to a maximum between 1/2 and 1, and adjust their exponents."""
    maxima = rows.amax(-1)
    _, twos = torch.frexp(maxima)
    twos = twos.double()
    # The scaling is done in two steps, because 2^−twos alone may overflow.
    half = (twos / 2).floor()
    rows = rows * (-half).exp2()[:, None] * (half - twos).exp2()[:, None]
    return rows, (exponents + twos).masked_fill(maxima == 0, DEAD)
