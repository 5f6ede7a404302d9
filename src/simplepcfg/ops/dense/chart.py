"""The forward pass of the dense inside algorithm in scaled probabilities: each row has an exponent of its own.

README.md derives the recursion, the order of the products and the bounds that keep every number in range.
"""

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from simplepcfg.ops.dense.arguments import DenseArguments
from simplepcfg.ops.dense.cells import Cells, add_rows_by_rules, rows_by_rules
from simplepcfg.ops.scales import DEAD, Range

# The peak is higher than for simple grammars, because all rules of a pair of children may be far below 1.
RANGES = {
    torch.float32: Range(peak=48, shift=126, low=2.0**-90, safe=1.0, huge=2.0**100),
    torch.float64: Range(peak=256, shift=1022, low=2.0**-700, safe=1.0, huge=2.0**900),
}
# Pairs of children, [rows, X, Y], are computed for so many bytes of spans at a time.
PAIR_BYTES = {"cpu": 32 << 20, "cuda": 128 << 20}
# If the pairs of all widths have at most this size, they are kept for the backward pass.
KEPT_BYTES = {"cpu": 32 << 20, "cuda": 128 << 20}


class DenseChart:
    """The chart of one batch, which the backward pass only reads. Rows are spans of all sentences, i · B + b."""

    def __init__(self, arguments: DenseArguments) -> None:
        self.arguments = arguments
        self.batch, self.n, self.nonterminals, self.preterminals = arguments.sizes
        self.dtype, self.device = arguments.log_emissions.dtype, arguments.log_emissions.device
        self.range = RANGES[self.dtype]
        self.states, self.tags = states, tags = slice(self.nonterminals), slice(self.nonterminals, None)
        rules = arguments.rules
        # A child of one word is a preterminal and a wider one a nonterminal. Blocks of pairs: [(B,) N, pairs].
        self.wide = rules[..., states, states].flatten(-2)
        self.two_words = rules[..., tags, tags].flatten(-2)
        # Blocks with one word, for parent and the other child: [(B,) P, N·N] and [(B,) N·N, P].
        self.word_first = rules[..., tags, states].transpose(-2, -3).flatten(-2)
        self.word_last = rules[..., states, tags].flatten(-3, -2)
        posts = (self.n + 1, self.batch, self.n + 1)
        self.cells = Cells(self.zeros(*posts, self.nonterminals))
        self.exponents = Cells(self.zeros(*posts))
        self.words: Tensor  # [n·B, P], emissions divided by each word's largest, times 2^peak
        # [2·n·B, N, N]: of words as right children, Σ_C rules[A, B, C] words[C], then of words as left children,
        # Σ_B rules[A, B, C] words[B]. The last of those and the first of these, which a width needs, lie together.
        self.matrices: Tensor
        self.factors: dict[int, Tensor] = {}  # by width: [rows, splits], the widest left child first
        self.scales: dict[int, Tensor] = {}  # by width: [rows, 1], stored row = scale · sum
        # These are tensors, so that no number is copied from the host in each operation.
        self.peak, self.dead, self.zero = (self.zeros().fill_(value) for value in (self.range.peak, DEAD, 0.0))
        # Pairs of wide children of all widths, [rows, N, N], the widest first; None if backward recomputes them.
        self.kept = self._place_for_pairs()

    def zeros(self, *size: int) -> Tensor:
        """Allocate zeros with the dtype and device of the chart."""
        return torch.zeros(size, dtype=self.dtype, device=self.device)

    def fill(self) -> Tensor:
        """Run the forward pass and return log Z of each sentence; ``out_of_range`` marks those that underflowed."""
        self._words()
        widths = [self._fill_width(width) for width in range(2, self.n + 1)]
        maxima, exponents = (torch.cat(rows).view(-1, self.batch) for rows in zip(*widths, strict=True))
        self.out_of_range = ((maxima < self.range.safe) & (exponents > DEAD / 2)).any(0)
        sentences = torch.arange(self.batch, device=self.device)
        # A sentence of one word has no cell and reads column 0, which is zero.
        ends = self.arguments.ends
        self.whole = (torch.zeros_like(sentences), sentences, torch.where(ends > 1, self.n + 1 - ends, 0))
        # In logs, because root and β may have their maxima at different states, and all products may underflow.
        self.top = self.cells.values[self.whole].double()
        self.log_top = torch.logsumexp(self.top.log() + self.arguments.root.double().log(), -1)
        log_z = self.log_top + self.exponents.values[self.whole].double() * math.log(2) + self.log_words
        return torch.where(self.log_top == -math.inf, self.log_top, log_z)

    def beta(self, width: int) -> Tensor:
        """Return the stored rows of a width: [rows, N]."""
        return self.cells.left(width)

    def rows_above(self, width: int) -> int:
        """Return the number of rows of all wider widths: the first row of a width if the widest come first."""
        return self.batch * (self.n - width) * (self.n - width + 1) // 2

    def chunks(self, width: int, pairs: int) -> Iterator[range]:
        """Split the rows of a width into ranges whose pairs have at most PAIR_BYTES."""
        rows = self.cells.rows(width)
        # Each range consists of whole positions, so that every sentence has the same number of rows in it.
        fit = PAIR_BYTES.get(self.device.type, PAIR_BYTES["cuda"]) // (self.batch * pairs * self.dtype.itemsize)
        step = max(1, fit) * self.batch
        return (range(start, min(start + step, rows)) for start in range(0, rows, step))

    def end_factors(self, width: int) -> Tensor:
        """Return the factors of the splits with one word, the last and the first: [2, rows, 1]."""
        splits = width - 1
        return torch.as_strided(self.factors[width], (2, self.cells.rows(width), 1), (splits - 1, splits, 1))

    def wide_factors(self, width: int, rows: range) -> Tensor:
        """Return the factors of the splits into two wide children: [rows, splits, 1]."""
        splits = width - 1
        size, start = (len(rows), splits - 2, 1), rows.start * splits + 1
        return torch.as_strided(self.factors[width], size, (splits, 1, 1), start)

    def end_matrices(self, width: int) -> Tensor:
        """Return the matrices of the last and of the first word of the spans of a width: [2·rows, N, N]."""
        return self.matrices.narrow(0, (width - 1) * self.batch, 2 * self.cells.rows(width))

    def wide_pairs(self, width: int, rows: range, remember: bool = False) -> Tensor:
        """Compute Σ over splits of the pairs of two wide children: [rows, N, N]."""
        place = None
        if self.kept is not None:
            place = self.kept.narrow(0, self.rows_above(width) + rows.start, len(rows))
            if not remember:
                return place
        left, right = self.cells.splits(width, rows, wide=True)
        return torch.bmm((left * self.wide_factors(width, rows)).transpose(1, 2), right, out=place)

    def word_pairs(self, rows: range) -> Tensor:
        """Compute the pairs of preterminals over two words, with their factor: [rows, P, P]."""
        left = self.words[rows.start : rows.stop] * self.factors[2][rows.start : rows.stop]
        right = self.words[rows.start + self.batch : rows.stop + self.batch]
        return left[:, :, None] * right[:, None, :]

    def _place_for_pairs(self) -> Tensor | None:
        rows, pairs = self.rows_above(3), self.nonterminals**2
        limit = KEPT_BYTES.get(self.device.type, KEPT_BYTES["cuda"])
        if rows * pairs * self.dtype.itemsize > limit:
            return None
        size = (rows, self.nonterminals, self.nonterminals)
        return torch.empty(size, dtype=self.dtype, device=self.device)

    def _words(self) -> None:
        emissions = self.arguments.words
        # Every tree contains every word once: the largest emission of each word is divided out here, and its log is
        # added to log Z at the end.
        best = emissions.amax(-1)  # [B, n]
        dead = best == -math.inf
        best = best.masked_fill(dead, 0.0)
        self.log_words = best.double().sum(-1)
        words = (emissions - best[..., None]).transpose(0, 1).contiguous()  # [n, B, P]
        self.words = words.exp_().mul_(2.0**self.range.peak).flatten(0, 1)
        exponents = torch.full_like(best, -self.range.peak).masked_fill_(dead, DEAD).T.flatten()
        self.exponents.sides(1, 1).copy_(exponents)
        if self.n > 2:
            self.matrices = self.words.new_empty(2 * len(self.words), self.nonterminals, self.nonterminals)
            last, first = self.matrices.flatten(1).chunk(2)
            rows_by_rules(self.words, self.word_last.transpose(-1, -2), self.batch, out=last)
            rows_by_rules(self.words, self.word_first, self.batch, out=first)

    def _fill_width(self, width: int) -> tuple[Tensor, Tensor]:
        """Compute all spans of a width; return the maxima of their sums, and their exponents: [rows, 1]."""
        exponents = self._prepare(width)
        sums = self._two_words() if width == 2 else self._sums(width)
        # Rows are scaled to a maximum near 2^peak.
        maxima = sums.amax(-1, keepdim=True)
        shifts = torch.sub(self.peak, maxima.log2().ceil_()).clamp_(max=self.range.shift)
        self.scales[width] = scale = shifts.exp2()
        torch.mul(sums.expand(2, -1, -1), scale, out=self.cells.sides(width, width))
        stored = torch.where(maxima > self.zero, exponents - shifts, self.dead).squeeze(1)
        self.exponents.sides(width, width).copy_(stored)
        return maxima, exponents

    def _prepare(self, width: int) -> Tensor:
        """Compute factors that bring all splits of a span to one exponent; return the exponents [rows, 1]."""
        left, right = self.exponents.splits(width)
        splits = left + right
        exponents = splits.amax(-1, keepdim=True)
        self.factors[width] = factors = splits.sub_(exponents).exp2_()
        if self.arguments.span_bonus is not None:
            bonus = torch.diagonal(self.arguments.span_bonus.detach(), width, 1, 2).double() / math.log(2)
            bonus = bonus.T.reshape(-1, 1)  # [rows, 1]
            forbidden = bonus == -math.inf
            whole = bonus.floor()
            factors *= torch.exp2(bonus - whole).masked_fill(forbidden, 0.0).to(self.dtype)
            exponents = exponents + whole.masked_fill(forbidden, DEAD).to(self.dtype)
        return exponents

    def _two_words(self) -> Tensor:
        parts = self.chunks(2, self.preterminals**2)
        rules = self.two_words.transpose(-1, -2)
        return torch.cat([rows_by_rules(self.word_pairs(part).flatten(1), rules, self.batch) for part in parts])

    def _sums(self, width: int) -> Tensor:
        """Compute Σ over splits and pairs of children: [rows, N]."""
        rows = self.cells.rows(width)
        # The wide child beside the last word, and the one beside the first word.
        ends = self.cells.sides(width, width - 1) * self.end_factors(width)
        by_ends = torch.bmm(ends.view(2 * rows, 1, -1), self.end_matrices(width).mT)
        total = torch.add(*by_ends.view(2, rows, -1).unbind())
        if width > 3:
            rules = self.wide.transpose(-1, -2)
            for part in self.chunks(width, self.nonterminals**2):
                pairs = self.wide_pairs(width, part, remember=True).flatten(1)
                place = total if len(part) == rows else total[part.start : part.stop]
                add_rows_by_rules(place, pairs, rules, self.batch)
        return total
