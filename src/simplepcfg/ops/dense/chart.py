"""The forward pass in scaled probabilities: every span a vector of probabilities times a power of two, kept beside it.

README.md derives the recursion, the order of the products and the bounds that keep every number in range.
"""

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from simplepcfg.ops.dense.arguments import DenseArguments
from simplepcfg.ops.inside.scales import DEAD, Range, shift_to_peak
from simplepcfg.ops.inside.square import Square

# Rows lie higher than a simple grammar's: a pair of children at 2^(2 peak) may meet only rules far below 1.
RANGES = {
    torch.float32: Range(peak=48, shift=126, low=2.0**-90, safe=1.0, huge=2.0**100),
    torch.float64: Range(peak=256, shift=1022, low=2.0**-700, safe=1.0, huge=2.0**900),
}
# Pairs of children, [spans, X, Y], are made for as many spans at a time as fit in here.
PAIR_BYTES = {"cpu": 8 << 20, "cuda": 128 << 20}


class DenseChart:
    """Filled by the forward pass and only read by the backward pass."""

    def __init__(self, arguments: DenseArguments) -> None:
        self.arguments = arguments
        self.batch, self.n, self.nonterminals, self.preterminals = arguments.sizes
        self.dtype, self.device = arguments.log_emissions.dtype, arguments.log_emissions.device
        self.lengths = arguments.lengths_on_device
        self.range = RANGES[self.dtype]
        states, tags = slice(self.nonterminals), slice(self.nonterminals, None)
        rules = arguments.rules
        # A child of one word is a preterminal and a wider one a nonterminal. Blocks of pairs: [(B,) N, pairs].
        self.wide = rules[..., states, states].flatten(-2)
        self.two_words = rules[..., tags, tags].flatten(-2)
        # Blocks with one word: [(B,) P, N·N], the word's preterminal first, then parent and the other child.
        self.word_first = rules[..., tags, states].transpose(-2, -3).flatten(-2)
        self.word_last = rules[..., states, tags].movedim(-1, -3).flatten(-2)
        posts = (self.batch, self.n + 1, self.n + 1)
        # β(i, j) stands at [i, j] and at [j, i]: both children of every split are views then.
        self.square = Square(self.zeros(*posts, self.nonterminals))
        self.exponents = Square(self.zeros(*posts))
        self.words: Tensor  # [B, n, P], emissions relative to each word's best, times 2^peak
        self.before: Tensor  # [n, B, N, N]: Σ_B rules[A, B, C] words[B], for the word as left child
        self.after: Tensor  # [n, B, N, N]: Σ_C rules[A, B, C] words[C], for the word as right child
        self.factors: dict[int, Tensor] = {}  # by width: [B, spans, splits]
        self.scales: dict[int, Tensor] = {}  # by width: [B, spans], stored row = scale · sum
        self.far = torch.zeros(self.batch, dtype=torch.bool, device=self.device)

    def zeros(self, *size: int) -> Tensor:
        """Of the chart's type and place."""
        return torch.zeros(size, dtype=self.dtype, device=self.device)

    def fill(self) -> Tensor:
        """Run the forward pass; log Z of each sentence. ``far`` then marks those whose numbers left the range."""
        self._words()
        top, exponent = self.zeros(self.batch, self.nonterminals), self.zeros(self.batch).fill_(DEAD)
        for width in range(2, self.n + 1):
            exponents = self._prepare(width)
            self._store(width, self._two_words() if width == 2 else self._sums(width), exponents)
            ends = self.whole_sentences(width)
            if ends is not None:
                top[ends] = self.beta(width)[ends, 0]
                exponent[ends] = self.exponents.rows(width)[ends, 0, 0]
        # In logs: the root's and β's peaks may lie so far apart that no product of the two is in range.
        self.top = top.double()
        self.log_top = torch.logsumexp(self.top.log() + self.arguments.root.double().log(), -1)
        log_z = self.log_top + exponent.double() * math.log(2) + self.log_words
        return torch.where(self.log_top == -math.inf, self.log_top, log_z)

    def leave_out_far(self) -> None:
        """Let sentences that left the range have no part in the backward pass: another chart has them."""
        self.log_top.masked_fill_(self.far, -math.inf)

    def beta(self, width: int) -> Tensor:
        """The stored rows of a width: [B, spans, N]."""
        return self.square.rows(width)[:, :, 0]

    def whole_sentences(self, width: int) -> Tensor | slice | None:
        """Which sentences have this length."""
        if self.lengths is None:
            return slice(None) if width == self.n else None
        return (self.lengths == width).nonzero().squeeze(1)

    def chunks(self, spans: int, pairs: int) -> Iterator[slice]:
        """Slices of the spans whose pairs fit into their place."""
        each = self.batch * pairs * self.dtype.itemsize
        step = max(1, PAIR_BYTES.get(self.device.type, PAIR_BYTES["cuda"]) // each)
        return (slice(start, start + step) for start in range(0, spans, step))

    def wide_children(self, width: int, part: slice) -> tuple[Tensor, Tensor, Tensor]:
        """Of splits into two wide children: left times factor, right, both [B, spans, splits, N], and the factors."""
        left, right = self.square.children(width)
        factors = self.factors[width][:, part, 1:-1, None]
        return left[:, part, 1:-1] * factors, right[:, part, 1:-1], factors

    def word_pairs(self, part: slice) -> Tensor:
        """Pairs of preterminals over two words, with their factor: [B, spans, P, P]."""
        left = self.words[:, :-1][:, part] * self.factors[2][:, part]
        return left[..., :, None] * self.words[:, 1:][:, part, None, :]

    def _words(self) -> None:
        emissions = self.arguments.log_emissions
        if self.lengths is not None:
            beyond = torch.arange(self.n, device=self.device) >= self.lengths[:, None]
            emissions = emissions.masked_fill(beyond[:, :, None], -math.inf)
        # Every tree has every word once, so each word's best emission is taken out here and added to log Z at the end.
        best = emissions.amax(-1)  # [B, n]
        dead = best == -math.inf
        best = best.masked_fill(dead, 0.0)
        self.log_words = best.double().sum(-1)
        self.words = (emissions - best[..., None]).exp_().mul_(2.0**self.range.peak)
        exponents = torch.full_like(best, -self.range.peak).masked_fill_(dead, DEAD)
        self.exponents.rows(1).copy_(exponents[..., None])
        if self.n > 2:
            size = (self.n, self.batch, self.nonterminals, self.nonterminals)
            # Spans first: those of a width are then one block, which a product reads where it lies.
            self.before = by_position(self.words, self.word_first).view(size)
            self.after = by_position(self.words, self.word_last).view(size)

    def _prepare(self, width: int) -> Tensor:
        """Factors that bring every split of a span to one exponent; gives the exponents [B, spans]."""
        left, right = self.exponents.children(width)
        splits = left + right
        exponents = splits.amax(-1)
        self.factors[width] = factors = (splits - exponents[..., None]).exp2_()
        if self.arguments.span_bonus is not None:
            bonus = torch.diagonal(self.arguments.span_bonus.detach(), width, 1, 2).double() / math.log(2)
            forbidden = bonus == -math.inf
            whole = bonus.floor()
            factors *= torch.exp2(bonus - whole).masked_fill(forbidden, 0.0).to(self.dtype)[..., None]
            exponents = exponents + whole.masked_fill(forbidden, DEAD).to(self.dtype)
        return exponents

    def _two_words(self) -> Tensor:
        parts = self.chunks(self.n - 1, self.preterminals**2)
        return torch.cat([product(self.word_pairs(part).flatten(2), self.two_words) for part in parts], 1)

    def _sums(self, width: int) -> Tensor:
        """Σ over splits and pairs of children: [B, spans, N]."""
        spans = self.n - width + 1
        left, right = self.square.children(width)
        factors = self.factors[width]
        total = apply(self.before[:spans], right[:, :, 0] * factors[..., :1])
        total += apply(self.after[width - 1 :], left[:, :, -1] * factors[..., -1:])
        if width > 3:
            for part in self.chunks(spans, self.nonterminals**2):
                scaled, other, _ = self.wide_children(width, part)
                pairs = torch.matmul(scaled.transpose(-1, -2), other)  # [B, spans, N, N]
                total[:, part] += product(pairs.flatten(2), self.wide)
        return total

    def _store(self, width: int, sums: Tensor, exponents: Tensor) -> None:
        """Write rows to the square, each scaled to its place in the range, and note what has left it."""
        maxima = sums.amax(-1)
        alive = exponents > DEAD / 2
        self.far |= ((maxima < self.range.safe) & alive).any(1)
        shifts = shift_to_peak(maxima, self.range, careful=True)
        self.scales[width] = scale = shifts.exp2()
        self.square.rows(width).copy_((sums * scale[..., None])[:, :, None])
        stored = (exponents - shifts).masked_fill_((maxima == 0) | ~alive, DEAD)
        self.exponents.rows(width).copy_(stored[..., None])


def product(rows: Tensor, rules: Tensor) -> Tensor:
    """[B, rows, X] times rules [(B,) Y, X] transposed: [B, rows, Y]."""
    return torch.matmul(rows, rules.transpose(-1, -2))


def by_position(words: Tensor, rules: Tensor) -> Tensor:
    """Words [B, n, P] times rules [(B,) P, X], positions first: [n, B, X]."""
    if rules.dim() == 2:
        return torch.matmul(words.transpose(0, 1), rules)
    return torch.bmm(words, rules).transpose(0, 1).contiguous()


def apply(matrices: Tensor, rows: Tensor) -> Tensor:
    """matrices [spans, B, X, Y] times rows [B, spans, Y]: [B, spans, X]."""
    return torch.matmul(matrices, rows.transpose(0, 1)[..., None]).squeeze(-1).transpose(0, 1)
