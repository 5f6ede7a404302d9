"""The inside chart that prefix probabilities read, in plain PyTorch: only what they need, and nothing twice."""

from dataclasses import replace

import torch
from torch import Tensor

from simplepcfg.ops.arguments import InsideArguments
from simplepcfg.ops.inside.scaled_chart import ScaledChart
from simplepcfg.ops.products import put_rows
from simplepcfg.ops.scales import DEAD, shift_to_peak


class ScaledRows(ScaledChart):
    """A scaled chart of every sentence without its last word, in whose square η(i, j) is at [i, j].

    There are no gradients, so that β is kept only for spans at the beginning of a sentence. These spans are never right
    children and have no ζ. The rows of a word that occurs repeatedly are computed once.
    """

    def __init__(self, arguments: InsideArguments) -> None:
        """Fill the chart."""
        self.emissions = arguments.log_emissions
        words = max(arguments.sizes[1] - 1, 1)
        lengths = None if arguments.lengths is None else (arguments.lengths - 1).clamp(min=1)
        super().__init__(replace(arguments, log_emissions=self.emissions[:, :words], lengths=lengths))
        self.exponents.cells.fill_(DEAD)
        # Cells of missing spans are read only as left children that end beyond the end of a sentence.
        for b, length in enumerate([] if lengths is None else lengths.tolist()):
            self.square.cells[b, :, length + 1 :].zero_()
        self.starts: dict[int, tuple[Tensor, Tensor]] = {}  # by width: β(0, width) [B, N] and its exponents [B]
        self.fill_rows()

    def fill_rows(self) -> None:
        """Run the forward pass."""
        self._words()
        for width in range(2, self.n + 1):
            exponents = self.split_sums(width)
            self._children(width, exponents)
            self.starts[width] = (self.beta.pop(width)[:, 0].clone(), exponents[:, 0].clone())
            del self.factors[width], self.splits[width]

    def left_children(self, j: int) -> tuple[Tensor, Tensor]:
        """Return η(i, j) for i = 0 … j − 1; see ``InsideRows``."""
        return self.square.cells[:, :j, j].double(), self.exponents.cells[:, :j, j].double()

    def word_children(self) -> tuple[Tensor, Tensor]:
        """Return η and ζ of every word; see ``InsideRows``."""
        return self.word_rows[self.word_of].double(), self.word_exponents[self.word_of].double()

    def prefix(self, m: int) -> tuple[Tensor, Tensor]:
        """Return β(0, m); see ``InsideRows``."""
        beta, exponents = self.starts[m]
        return beta.double(), exponents.double().masked_fill(exponents < DEAD / 2, DEAD)

    def _words(self) -> None:
        batch, n, preterminals = self.emissions.shape
        emissions = self.emissions.reshape(-1, preterminals)
        if self.arguments.batched_rules:
            chosen = word_of = torch.arange(batch * n, device=self.device)
        else:
            chosen, word_of = distinct_rows(emissions)
        words, exponents, _ = self.scaled_emissions(emissions[chosen])
        if self.arguments.batched_rules:
            words = words.view(batch, n, -1)
        both = torch.matmul(words, self.transposed_word_rules)
        self.word_of = word_of.view(batch, n)
        both = both.view(-1, 2, self.nonterminals)
        self.word_rows, self.word_exponents = self._scaled(both, both.amax(-1), exponents[:, None])
        inner = self.word_of[:, : self.n]
        self.square.rows(1).copy_(self.word_rows[inner])
        stored = self.exponents.rows(1).copy_(self.word_exponents[inner])
        if self.lengths is not None:
            beyond = torch.arange(self.n, device=self.device) >= self.lengths[:, None]
            stored.masked_fill_(beyond[..., None], DEAD)

    def _children(self, width: int, exponents: Tensor) -> None:
        sentences, starts, inner = self._spans(width)
        spans = sentences * (self.n - width + 1) + starts
        if not spans.numel():
            return
        eta, zeta = self._products(width, spans, inner)
        maxima = [rows.amax(-1) for rows in (eta, zeta)]
        lowest = min(float(each.amin()) for each in maxima if each.numel())
        # If η and ζ did not underflow, neither did β, so that one check suffices for all three.
        if lowest < self.range.safe and self.recompute_in_log_space(width, exponents):
            eta, zeta = self._products(width, spans, inner)
            maxima = [rows.amax(-1) for rows in (eta, zeta)]
        posts, ends = self.n + 1, starts + width
        kept = exponents.flatten()[spans]
        for rows, most, cells in (
            (eta, maxima[0], (sentences * posts + starts) * posts + ends),
            (zeta, maxima[1], ((sentences * posts + ends) * posts + starts)[:inner]),
        ):
            scaled, scaled_exponents = self._scaled(rows, most, kept[: len(rows)])
            put_rows(self.square.cells.view(-1, self.nonterminals), cells, scaled)
            put_rows(self.exponents.cells.view(-1), cells, scaled_exponents)

    def _spans(self, width: int) -> tuple[Tensor, Tensor, int]:
        """Return sentence and start of each span of this width, and the number of those, first, that start after 0."""
        starts = torch.arange(self.n - width + 1, device=self.device)
        lengths = torch.full((self.batch,), self.n, device=self.device) if self.lengths is None else self.lengths
        sentences, starts = (starts + width <= lengths[:, None]).nonzero(as_tuple=True)
        order = (starts == 0).to(torch.uint8).argsort(stable=True)
        return sentences[order], starts[order], int((starts > 0).sum())

    def _products(self, width: int, spans: Tensor, inner: int) -> tuple[Tensor, Tensor]:
        """Compute L β of the spans, [spans, N], and R β of the first ``inner`` of them."""
        split = self.nonterminals
        if self.arguments.batched_rules:
            both = torch.matmul(self.beta[width], self.transposed).view(-1, 2, split)[spans]
            return both[:, 0], both[:inner, 1]
        beta = self.beta[width].view(-1, split)[spans]
        return beta @ self.transposed[:, :split], beta[:inner] @ self.transposed[:, split:]

    def _scaled(self, rows: Tensor, maxima: Tensor, exponents: Tensor) -> tuple[Tensor, Tensor]:
        """Scale rows in place to maxima near 2^peak; return them and their exponents, DEAD for zeros."""
        lowest = float(maxima.amin()) if maxima.numel() else 1.0
        shifts = shift_to_peak(maxima, self.range, lowest < self.range.low)
        return rows.mul_(shifts.exp2()[..., None]), (exponents - shifts).masked_fill(maxima == 0, DEAD)


def distinct_rows(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Return the indices of the distinct rows among [R, X], and for each row [R] which of these it equals.

    Rows are compared by their sums first. All rows are returned if that does not tell them apart.
    """
    _, which = torch.unique(rows.sum(-1), return_inverse=True)
    every = torch.arange(len(rows), device=rows.device)
    first = torch.full_like(every, len(rows)).scatter_reduce_(0, which, every, "amin")[: int(which.max()) + 1]
    return (first, which) if torch.equal(rows[first][which], rows) else (every, every)
