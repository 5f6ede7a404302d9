"""The backward pass: d log Z by everything, as posteriors divided by what was stored."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from simplepcfg.ops.dense.chart import DenseChart, apply
from simplepcfg.ops.inside.scales import drop_out_of_range
from simplepcfg.ops.inside.square import Square


@dataclass(slots=True)
class Wanted:
    """What the backward pass is to give; the last two are filled in place where they are given."""

    words: bool = False
    root: bool = False
    rules: bool = False
    posteriors: Tensor | None = None  # [B, n + 1, n + 1]
    symbols: Tensor | None = None  # [B, n + 1, n + 1, N]


class Backward:
    """One backward pass over a filled chart, which it only reads: it can be run again."""

    def __init__(self, chart: DenseChart, grad: Tensor, wanted: Wanted, careful: bool = False) -> None:
        self.chart = chart
        self.grad = grad  # [B], the loss's weight of each sentence; the recursion itself is that of log Z
        self.wanted = wanted
        self.careful = careful
        self.gradients = Square(torch.zeros_like(chart.square.cells))  # by β as a left and as a right child
        self.by_word = Square(torch.zeros_like(chart.square.cells))  # by the sums, of splits with one word

    def run(self) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        """Gradients by log_emissions, root and rules, where they are wanted."""
        chart, wanted = self.chart, self.wanted
        blocks = _RuleGradient(chart) if wanted.rules else None
        by_words = torch.zeros_like(chart.words)
        for width in range(chart.n, 1, -1):
            by_sums = self._outside(width)
            if width > 2:
                self._spread(width, by_sums, blocks)
            elif wanted.words or blocks is not None:
                self._two_words(by_sums, by_words, blocks)
        if chart.n > 2 and (wanted.words or blocks is not None):
            self._one_word(by_words, blocks)
        words = None
        if wanted.words:
            words = self._tame(by_words, chart.words).mul(chart.words).mul_(self.grad[:, None, None])
        rules = None if blocks is None else blocks.joined()
        if not self.careful and not _finite(words, rules, wanted.posteriors, wanted.symbols):
            # A derivative by a value of 0 has left the range and met a 0: once more, looking at every width.
            return Backward(chart, self.grad, wanted, careful=True).run()
        if rules is not None and self.careful:
            rules = drop_out_of_range(rules, chart.arguments.rules, chart.range)
        return words, self._root() if wanted.root else None, rules

    def _outside(self, width: int) -> Tensor:
        """d log Z / d sum of every span of this width, from its roles as left and right child and as whole sentence."""
        chart = self.chart
        beta = chart.beta(width)
        alpha = self.gradients.rows(width).sum(2)
        ends = chart.whole_sentences(width)
        if ends is not None:
            alpha[ends, 0] = self._over_z(chart.arguments.root.expand(chart.batch, -1))[ends]
        alpha = self._tame(alpha, beta)
        if self.wanted.posteriors is not None:
            torch.diagonal(self.wanted.posteriors, width, 1, 2).copy_((alpha * beta).sum(-1) * self.grad[:, None])
        if self.wanted.symbols is not None:
            rows = torch.diagonal(self.wanted.symbols, width, 1, 2)  # [B, N, spans]
            rows.copy_((alpha * beta).transpose(1, 2))
        return self._tame(alpha * chart.scales[width][..., None], beta)

    def _spread(self, width: int, by_sums: Tensor, blocks: "_RuleGradient | None") -> None:
        """Hand each span's derivative to the two children of each of its splits, and to the rules."""
        chart = self.chart
        spans = chart.n - width + 1
        to_left, to_right = self.gradients.children(width)
        factors = chart.factors[width]
        first, last = by_sums * factors[..., :1], by_sums * factors[..., -1:]
        to_right[:, :, 0] += apply(chart.before[:spans].transpose(-1, -2), first)
        to_left[:, :, -1] += apply(chart.after[width - 1 :].transpose(-1, -2), last)
        self.by_word.rows(width).copy_(torch.stack([first, last], 2))
        if width == 3:
            return
        weighted = by_sums * self.grad[:, None, None]
        size = (chart.nonterminals, chart.nonterminals)
        for part in chart.chunks(spans, chart.nonterminals**2):
            left, right, scale = chart.wide_children(width, part)
            by_pairs = torch.matmul(by_sums[:, part], chart.wide).unflatten(-1, size)  # [B, spans, N, N]
            if blocks is not None or self.careful:
                pairs = torch.matmul(left.transpose(-1, -2), right)
                by_pairs = self._tame(by_pairs, pairs)
                if blocks is not None:
                    blocks.add(blocks.wide, weighted[:, part], pairs)
            to_left[:, part, 1:-1] += torch.matmul(right, by_pairs.transpose(-1, -2)).mul_(scale)
            to_right[:, part, 1:-1] += torch.matmul(left, by_pairs)

    def _two_words(self, by_sums: Tensor, by_words: Tensor, blocks: "_RuleGradient | None") -> None:
        """Hand the derivative of spans of two words to the words and the rules."""
        chart = self.chart
        weighted = by_sums * self.grad[:, None, None]
        size = (chart.preterminals, chart.preterminals)
        left, right = chart.words[:, :-1], chart.words[:, 1:]
        to_left, to_right = by_words[:, :-1], by_words[:, 1:]
        for part in chart.chunks(chart.n - 1, chart.preterminals**2):
            if blocks is not None:
                blocks.add(blocks.two_words, weighted[:, part], chart.word_pairs(part))
            if not self.wanted.words:
                continue
            by_pairs = torch.matmul(by_sums[:, part], chart.two_words).unflatten(-1, size)  # [B, spans, P, P]
            if self.careful:
                by_pairs = self._tame(by_pairs, chart.word_pairs(part))
            by_pairs = by_pairs.mul_(chart.factors[2][:, part, :, None])
            to_left[:, part] += torch.matmul(by_pairs, right[:, part, :, None]).squeeze(-1)
            to_right[:, part] += torch.matmul(left[:, part, None, :], by_pairs).squeeze(-2)

    def _one_word(self, by_words: Tensor, blocks: "_RuleGradient | None") -> None:
        """The splits with one word, all widths at once: to the word's matrix, and from there to word and rules."""
        chart, n = self.chart, self.chart.n
        words = chart.words * self.grad[:, None, None]
        sums, beta = self.by_word.cells, chart.square.cells
        above = torch.ones_like(sums[0, :, :, 0]).triu_()[..., None]
        # By the matrix before (i, j): rows [i, j] meet β(i + 1, j); by that after: rows [j, i] meet β(i, j − 1).
        for matrices, rules, here, other, name in (
            (chart.before, chart.word_first, (sums * above)[:, :n], beta[:, 1:], "word_first"),
            (chart.after, chart.word_last, (sums * (1 - above))[:, 1:], beta[:, :n], "word_last"),
        ):
            found = torch.matmul(here.permute(1, 0, 3, 2), other.transpose(0, 1))  # [n, B, N, N]
            found = self._tame(found, matrices).flatten(2)
            if blocks is not None:
                blocks.add_words(name, words, found)
            if self.wanted.words:
                by_words += torch.matmul(found.transpose(0, 1), rules.transpose(-1, -2))

    def _over_z(self, value: Tensor) -> Tensor:
        """value / (root · β) for each sentence; 0 where the sentence is impossible."""
        log_top = self.chart.log_top[:, None]
        impossible = log_top == -math.inf
        scaled = (value.double().log() - log_top.masked_fill(impossible, 0.0)).exp()
        return scaled.masked_fill(impossible, 0.0).to(self.chart.dtype)

    def _root(self) -> Tensor:
        root = self.chart.arguments.root
        by_root = self._over_z(self.chart.top)
        by_root = drop_out_of_range(by_root, root.expand_as(by_root), self.chart.range) * self.grad[:, None]
        return by_root if root.dim() == 2 else by_root.sum(0)

    def _tame(self, derivative: Tensor, value: Tensor) -> Tensor:
        return drop_out_of_range(derivative, value, self.chart.range) if self.careful else derivative


class _RuleGradient:
    """Gradients of the four blocks of rules, each in the layout of its products."""

    def __init__(self, chart: DenseChart) -> None:
        self.chart = chart
        self.wide, self.two_words = torch.zeros_like(chart.wide), torch.zeros_like(chart.two_words)
        self.by_name: dict[str, Tensor] = {}

    def add(self, block: Tensor, by_sums: Tensor, pairs: Tensor) -> None:
        """by_sums [B, spans, N] times pairs [B, spans, X, Y], summed over spans."""
        if block.dim() == 3:
            block.baddbmm_(by_sums.transpose(1, 2), pairs.flatten(2))
        else:
            block.addmm_(by_sums.flatten(0, 1).T, pairs.flatten(2).flatten(0, 1))

    def add_words(self, name: str, words: Tensor, by_matrices: Tensor) -> None:
        """Words [B, n, P] times the derivatives by their matrices [n, B, N·N], summed over words."""
        if self.chart.arguments.batched_rules:
            self.by_name[name] = torch.bmm(words.transpose(1, 2), by_matrices.transpose(0, 1))
        else:
            self.by_name[name] = words.transpose(0, 1).flatten(0, 1).T @ by_matrices.flatten(0, 1)

    def joined(self) -> Tensor:
        """In the rules' own shape."""
        chart = self.chart
        found = torch.zeros_like(chart.arguments.rules, memory_format=torch.contiguous_format)
        split, words = chart.nonterminals, chart.preterminals
        states, tags = slice(split), slice(split, None)
        found[..., states, states] = self.wide.unflatten(-1, (split, split))
        found[..., tags, tags] = self.two_words.unflatten(-1, (words, words))
        if self.by_name:
            found[..., tags, states] = self.by_name["word_first"].unflatten(-1, (split, split)).transpose(-2, -3)
            found[..., states, tags] = self.by_name["word_last"].unflatten(-1, (split, split)).movedim(-3, -1)
        return found


def _finite(*tensors: Tensor | None) -> bool:
    """Whether no tensor holds NaN or an infinity: their sums would."""
    return all(tensor is None or math.isfinite(float(tensor.sum(dtype=torch.float64))) for tensor in tensors)
