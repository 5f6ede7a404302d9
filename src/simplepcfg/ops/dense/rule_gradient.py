"""The gradient of the rules in four blocks, by which children are single words."""

import torch
from torch import Tensor

from simplepcfg.ops.dense.chart import DenseChart
from simplepcfg.ops.dense.products import add_rows_by_rows, rows_by_rows

BLOCKS = ("wide", "two_words", "word_first", "word_last")


class RuleGradient:
    """Sums over spans of by_sums ⊗ pairs, and over words of word ⊗ the derivative by its matrix."""

    def __init__(self, chart: DenseChart, grad: Tensor) -> None:
        self.chart = chart
        self.grad = grad  # [B]
        self.shared = not chart.arguments.batched_rules
        self.blocks: dict[str, Tensor] = {}
        self.missing = set(BLOCKS)
        self.found: Tensor | None = None  # in the shape of the rules

    def add(self, name: str, by_sums: Tensor, pairs: Tensor) -> None:
        """Add the outer products of by_sums [rows, N] and pairs [rows, X, Y], summed over rows."""
        by_sums, pairs = self._weighted(by_sums), pairs.flatten(1)
        if name in self.blocks:
            add_rows_by_rows(self.blocks[name], by_sums, pairs, self.chart.batch)
        else:
            self.blocks[name] = rows_by_rows(by_sums, pairs, self.chart.batch, self.shared)

    def add_words(self, name: str, by_matrices: Tensor) -> None:
        """Add the outer products of words [n·B, P] and the derivatives of their matrices [n·B, N·N]."""
        words = self._weighted(self.chart.words)
        pair = (words, by_matrices) if name == "word_first" else (by_matrices, words)
        self.blocks[name] = rows_by_rows(*pair, self.chart.batch, self.shared)

    def complete(self, name: str) -> None:
        """Copy a block to its place in the result, zeros if nothing was added, and free its memory."""
        if self.found is None:
            self.found = torch.empty_like(self.chart.arguments.rules, memory_format=torch.contiguous_format)
        states, tags = slice(self.chart.nonterminals), slice(self.chart.nonterminals, None)
        place = {
            "wide": self.found[..., states, states],
            "two_words": self.found[..., tags, tags],
            "word_first": self.found[..., tags, states].transpose(-2, -3),
            "word_last": self.found[..., states, tags],
        }[name]
        block = self.blocks.pop(name, None)
        place.zero_() if block is None else place.copy_(block.view(place.shape))
        self.missing.discard(name)

    def joined(self) -> Tensor:
        """Return the gradient in the shape of the rules."""
        for name in sorted(self.missing):
            self.complete(name)
        assert self.found is not None
        return self.found

    def _weighted(self, rows: Tensor) -> Tensor:
        """Multiply each row by the gradient of its sentence."""
        return (rows.unflatten(0, (-1, self.chart.batch)) * self.grad[:, None]).flatten(0, 1)
