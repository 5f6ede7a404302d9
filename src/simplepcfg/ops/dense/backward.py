"""The backward pass of the dense inside algorithm: derivatives of log Z, and marginals."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from simplepcfg.ops.deferred_checks import DeferredChecks
from simplepcfg.ops.dense.cells import Cells, add_rows_by_rows, rows_by_rules
from simplepcfg.ops.dense.chart import DenseChart
from simplepcfg.ops.scales import drop_out_of_range


@dataclass(slots=True)
class Wanted:
    """The results that the backward pass computes; the last two, if given, are filled in place."""

    words: bool = False
    root: bool = False
    rules: bool = False
    marginals: Tensor | None = None  # [B, n + 1, n + 1]
    symbols: Tensor | None = None  # [B, n + 1, n + 1, N]


class Backward:
    """One backward pass over a filled chart, which is only read.

    With ``check_range`` derivatives that overflow are set to 0 at every width. Without it, this is done only if a
    result turns out not to be finite, in a second pass.
    """

    def __init__(
        self,
        chart: DenseChart,
        grad: Tensor,
        wanted: Wanted,
        check_range: bool = False,
        checks: DeferredChecks | None = None,
    ) -> None:
        self.chart = chart
        self.grad = grad  # [B], the gradient of log Z; results are multiplied by it at the end
        self.wanted = wanted
        self.check_range = check_range
        self.checks = checks
        self.gradients = Cells(torch.zeros_like(chart.cells.values))  # derivatives of β as a left and as a right child
        self.by_sums = chart.zeros(chart.rows_above(1), chart.nonterminals)  # the widest spans first
        # ``by_sums`` times the factor of the split with one word: spans by their last word, then by their first word.
        self.by_ends = chart.zeros(2 * len(chart.words), chart.n + 1, chart.nonterminals)
        contiguous = torch.contiguous_format
        self.by_rules = torch.zeros_like(chart.arguments.rules, memory_format=contiguous) if wanted.rules else None

    def run(self) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        """Return the gradients of log_emissions, root and rules, or None where they are not wanted."""
        chart, wanted = self.chart, self.wanted
        by_words = torch.zeros_like(chart.words)
        self.gradients.values[chart.whole] = self._over_z(chart.arguments.root.expand(chart.batch, -1))
        for width in range(chart.n, 2, -1):
            self._spread(width, self._outside(width))
        if self.by_rules is not None and chart.kept is not None and len(chart.kept) > 0:
            self._add_to_rules(chart.states, chart.states, self.by_sums[: len(chart.kept)], chart.kept)
        by_sums = self._outside(2)
        if wanted.words or wanted.rules:
            self._two_words(by_sums, by_words)
            if chart.n > 2:
                self._one_word(by_words)
        words = None
        if wanted.words:
            words = self._clamp_derivative(by_words, chart.words).mul(chart.words).view(chart.n, chart.batch, -1)
            words = (words * self.grad[:, None]).transpose(0, 1).contiguous()
        rules = self.by_rules
        if not self.check_range and not self._finite(words, rules, wanted.marginals, wanted.symbols):
            # A derivative with respect to a value of 0 has overflowed and was multiplied by 0: run again with checks.
            return Backward(chart, self.grad, wanted, check_range=True).run()
        if rules is not None and self.check_range:
            rules = drop_out_of_range(rules, chart.arguments.rules, chart.range)
        return words, self._root() if wanted.root else None, rules

    def _outside(self, width: int) -> Tensor:
        """Compute the derivative of the sum of every span of this width, as a child and as a whole sentence."""
        chart = self.chart
        alpha = torch.add(*self.gradients.sides(width, width).unbind())
        if self.check_range:
            alpha = self._clamp_derivative(alpha, chart.beta(width))
        if self.wanted.marginals is not None or self.wanted.symbols is not None:
            self._write_marginals(width, alpha * chart.beta(width))
        by_sums = self.by_sums.narrow(0, chart.rows_above(width), len(alpha))
        torch.mul(alpha, chart.scales[width], out=by_sums)
        return by_sums.copy_(self._clamp_derivative(by_sums, chart.beta(width))) if self.check_range else by_sums

    def _write_marginals(self, width: int, symbols: Tensor) -> None:
        symbols = symbols.unflatten(0, (-1, self.chart.batch))  # [spans, B, N]
        if self.wanted.marginals is not None:
            torch.diagonal(self.wanted.marginals, width, 1, 2).copy_((symbols.sum(-1) * self.grad).T)
        if self.wanted.symbols is not None:
            torch.diagonal(self.wanted.symbols, width, 1, 2).copy_(symbols.permute(1, 2, 0))

    def _spread(self, width: int, by_sums: Tensor) -> None:
        """Add the contribution of each span to the derivatives of the children of its splits, and of the rules."""
        chart, rows, size = self.chart, len(by_sums), self.chart.nonterminals
        by_ends = self.by_ends.narrow(0, (width - 1) * chart.batch, 2 * rows).narrow(1, width, 1)
        torch.mul(by_sums, chart.end_factors(width), out=by_ends.view(2, rows, size))
        to_ends = torch.bmm(by_ends, chart.end_matrices(width))
        self.gradients.sides(width, width - 1).add_(to_ends.view(2, rows, size))
        if width == 3:
            return
        for part in chart.chunks(width, size**2):
            here = by_sums if len(part) == rows else by_sums[part.start : part.stop]
            by_pairs = rows_by_rules(here, chart.wide, chart.batch).view(-1, size, size)
            if self.check_range or (self.by_rules is not None and chart.kept is None):
                pairs = chart.wide_pairs(width, part)
                by_pairs = self._clamp_derivative(by_pairs, pairs)
                if chart.kept is None:
                    self._add_to_rules(chart.states, chart.states, here, pairs)
            left, right = chart.cells.splits(width, part, wide=True)
            to_left, to_right = self.gradients.splits(width, part, wide=True)
            factors = chart.wide_factors(width, part)
            to_left.addcmul_(torch.bmm(right, by_pairs.transpose(1, 2)), factors)
            to_right.add_(torch.bmm(left * factors, by_pairs))

    def _two_words(self, by_sums: Tensor, by_words: Tensor) -> None:
        """Add the contribution of spans of two words to the derivatives of the words and of the rules."""
        chart = self.chart
        size = (-1, chart.preterminals, chart.preterminals)
        left, right = chart.words[: len(by_sums)], chart.words[chart.batch :]
        to_left, to_right = by_words[: len(by_sums)], by_words[chart.batch :]
        for part in chart.chunks(2, chart.preterminals**2):
            here = slice(part.start, part.stop)
            if self.by_rules is not None:
                self._add_to_rules(chart.tags, chart.tags, by_sums[here], chart.word_pairs(part))
            if not self.wanted.words:
                continue
            by_pairs = rows_by_rules(by_sums[here], chart.two_words, chart.batch).view(size)  # [rows, P, P]
            if self.check_range:
                by_pairs = self._clamp_derivative(by_pairs, chart.word_pairs(part))
            scale = chart.factors[2][here]
            to_left[here].addcmul_(torch.bmm(right[here, None], by_pairs.transpose(1, 2)).squeeze(1), scale)
            to_right[here].addcmul_(torch.bmm(left[here, None], by_pairs).squeeze(1), scale)

    def _one_word(self, by_words: Tensor) -> None:
        """Add the contribution of splits with one word, for all widths at once, by way of the matrices of the words."""
        chart, batch = self.chart, self.chart.batch
        widths, rows = chart.n - 2, len(chart.words)
        # The derivative of the matrix of word j − 1 as a right child sums over parents (i, j) and β(i, j − 1), by
        # width. That of word i as a left child sums over parents (i, j) and β(i + 1, j), the widest first.
        last, first = (
            self._clamp_derivative(torch.bmm(by_ends[:, 3:].mT, children), matrices).flatten(1)  # [n·B, N·N]
            for by_ends, children, matrices in zip(
                self.by_ends.chunk(2),
                (chart.cells.block(0, 2, rows, widths), chart.cells.block(batch, 2, rows, widths).flip(1)),
                chart.matrices.chunk(2),
                strict=True,
            )
        )
        if self.by_rules is not None:
            words = self._weighted(chart.words)
            add_rows_by_rows(self.by_rules[..., chart.states, chart.tags], last, words, batch)
            add_rows_by_rows(self.by_rules[..., chart.tags, chart.states].transpose(-2, -3), words, first, batch)
        if self.wanted.words:
            by_words += rows_by_rules(last, chart.word_last, batch) + rows_by_rules(first, chart.word_first.mT, batch)

    def _add_to_rules(self, left: slice, right: slice, by_sums: Tensor, pairs: Tensor) -> None:
        """Add the outer products of by_sums [rows, N] and pairs [rows, X, Y] to a block of the rules' gradient."""
        if self.by_rules is not None:
            block = self.by_rules[..., left, right]
            add_rows_by_rows(block, self._weighted(by_sums), pairs.flatten(1), self.chart.batch)

    def _weighted(self, rows: Tensor) -> Tensor:
        """Multiply each row by the gradient of its sentence."""
        return (rows.unflatten(0, (-1, self.chart.batch)) * self.grad[:, None]).flatten(0, 1)

    def _over_z(self, value: Tensor) -> Tensor:
        """Compute value / (root · β) for each sentence, or 0 if the sentence has probability 0."""
        log_top = self.chart.log_top[:, None]
        impossible = log_top == -math.inf
        scaled = (value.double().log() - log_top.masked_fill(impossible, 0.0)).exp()
        return scaled.masked_fill(impossible, 0.0).to(self.chart.dtype)

    def _root(self) -> Tensor:
        root = self.chart.arguments.root
        by_root = self._over_z(self.chart.top)
        by_root = drop_out_of_range(by_root, root.expand_as(by_root), self.chart.range) * self.grad[:, None]
        return by_root if root.dim() == 2 else by_root.sum(0)

    def _clamp_derivative(self, derivative: Tensor, value: Tensor) -> Tensor:
        return drop_out_of_range(derivative, value, self.chart.range) if self.check_range else derivative

    def _finite(self, *tensors: Tensor | None) -> bool:
        """Return whether all tensors have finite sums, or add this as a condition if checks are deferred."""
        given = [tensor for tensor in tensors if tensor is not None]
        if self.checks is not None:
            for tensor in given:
                self.checks.add(~tensor.sum().isfinite())
            return True
        return all(math.isfinite(float(tensor.sum())) or bool(tensor.isfinite().all()) for tensor in given)
