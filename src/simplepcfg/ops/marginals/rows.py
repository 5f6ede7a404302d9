"""Inside and outside values of all spans of one width."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class Rows:
    """Inside and outside values of all spans of one width, one row for each span.

    The marginal of a symbol over the span is ``outside · inside``. Each row has a scale of its own, which cancels in
    this product.
    """

    width: int
    cells: Tensor  # [rows] int64: flat index of (sentence, start, end) in [B, n + 1, n + 1]
    inside: Tensor  # [rows, N]
    outside: Tensor  # [rows, N]

    def symbols(self, rows: Tensor | slice = slice(None)) -> Tensor:
        """Compute the marginal of each nonterminal over all spans or some of them: [rows, N]."""
        wide = torch.promote_types(self.inside.dtype, torch.float32)
        return self.outside[rows].to(wide) * self.inside[rows].to(wide)
