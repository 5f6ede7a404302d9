"""Inside and outside values of all spans of one width."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class Rows:
    """Inside and outside values of all spans of one width, one row for each span.

    The marginal of a symbol over the span is ``outside · inside``. The marginal of the rule by which A has X as its
    left (or right) child over the span is ``by_child[A] · rule[A, X] · inside[X]``. Each row has a scale of its own,
    which cancels in these products.
    """

    width: int
    cells: Tensor  # [rows] int64: flat index of (sentence, start, end) in [B, n + 1, n + 1]
    inside: Tensor  # [rows, N], of words [rows, P]
    outside: Tensor | None  # [rows, N]; None for words
    by_child: Tensor  # [rows, 2N]: derivatives of log Z with respect to η and ζ of the span

    def symbols(self, rows: Tensor | slice = slice(None)) -> Tensor:
        """Compute the marginal of each nonterminal over all spans or some of them: [rows, N]."""
        assert self.outside is not None
        wide = torch.promote_types(self.inside.dtype, torch.float32)
        return self.outside[rows].to(wide) * self.inside[rows].to(wide)
