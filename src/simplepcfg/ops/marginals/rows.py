"""Inside and outside values of all spans of one width, side by side."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class Rows:
    """All spans of one width as rows; the scales of their values cancel in every product below.

    The marginal of symbol X over a span is ``outside · inside``, and that of the rule A → X · as its left (right)
    half is ``by_child[A] · rule[A, X] · inside[X]``.
    """

    width: int
    cells: Tensor  # [rows] int64: flat index of (sentence, start, end) in [B, n + 1, n + 1]
    inside: Tensor  # [rows, N], of words [rows, P]
    outside: Tensor | None  # [rows, N]; None for words
    by_child: Tensor  # [rows, 2N]: d log Z by the span's η, then by its ζ

    def symbols(self) -> Tensor:
        """Marginal of each nonterminal over each span: [rows, N]."""
        assert self.outside is not None
        wide = torch.promote_types(self.inside.dtype, torch.float32)
        return self.outside.to(wide) * self.inside.to(wide)
