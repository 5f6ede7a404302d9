"""The gradient of the rules, four blocks each in the layout of its products, joined at the end."""

import torch
from torch import Tensor

from simplepcfg.ops.dense.chart import DenseChart
from simplepcfg.ops.dense.products import rows_by_rows


class RuleGradient:
    """Sums over spans of by_sums ⊗ pairs, and over words of word ⊗ the derivative by its matrix."""

    def __init__(self, chart: DenseChart, grad: Tensor) -> None:
        self.chart = chart
        self.grad = grad  # [B]
        self.shared = not chart.arguments.batched_rules
        self.blocks: dict[str, Tensor] = {}

    def add(self, name: str, by_sums: Tensor, pairs: Tensor) -> None:
        """by_sums [rows, N] times pairs [rows, X, Y], summed over rows."""
        found = rows_by_rows(self._weighted(by_sums), pairs.flatten(1), self.chart.batch, self.shared)
        if name in self.blocks:
            self.blocks[name] += found
        else:
            self.blocks[name] = found

    def add_words(self, name: str, by_matrices: Tensor) -> None:
        """Words [n·B, P] times the derivatives by their matrices [n·B, N·N], summed over words."""
        words = self._weighted(self.chart.words)
        pair = (words, by_matrices) if name == "word_first" else (by_matrices, words)
        self.blocks[name] = rows_by_rows(*pair, self.chart.batch, self.shared)

    def joined(self) -> Tensor:
        """In the rules' own shape."""
        chart = self.chart
        found = torch.empty_like(chart.arguments.rules, memory_format=torch.contiguous_format)
        split, words = chart.nonterminals, chart.preterminals
        states, tags = slice(split), slice(split, None)
        for name, place, size in (
            ("wide", found[..., states, states], (split, split, split)),
            ("two_words", found[..., tags, tags], (split, words, words)),
            ("word_first", found[..., tags, states].transpose(-2, -3), (words, split, split)),
            ("word_last", found[..., states, tags], (split, split, words)),
        ):
            block = self.blocks.pop(name, None)
            place.zero_() if block is None else place.copy_(block.view(*block.shape[:-2], *size))
        return found

    def _weighted(self, rows: Tensor) -> Tensor:
        """Each row times its sentence's weight."""
        return (rows.unflatten(0, (-1, self.chart.batch)) * self.grad[:, None]).flatten(0, 1)
