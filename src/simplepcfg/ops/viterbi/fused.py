"""The Viterbi chart computed by Triton kernels, for CUDA GPUs."""

from functools import lru_cache

import torch
import triton
from torch import Tensor

from simplepcfg.errors import ResourceError
from simplepcfg.ops.arguments import InsideArguments
from simplepcfg.ops.backends import multiprocessors
from simplepcfg.ops.descent import Nodes
from simplepcfg.ops.viterbi import kernels
from simplepcfg.ops.viterbi.chart import ViterbiChart

# The max-plus product has tiles of 32 rows by 128 parents on four warps. A thread holds 4 by 8 results in 80 registers,
# so that six such programs fit on a multiprocessor.
TILE = {"PAIRS": 2, "TALL": 4, "WIDE": 4, "ROWS": 8, "COLUMNS": 16}
SYMBOLS_AT_ONCE = 2 * TILE["PAIRS"]
TILE_ROWS = TILE["TALL"] * TILE["ROWS"]
TILE_COLUMNS = 2 * TILE["WIDE"] * TILE["COLUMNS"]
PROGRAMS_PER_PROCESSOR = 6
MOST_PARTS, MOST_PART_BYTES = 16, 1 << 28
SPLIT_BLOCK = 1024
CHILD_BLOCK = 1024


class FusedViterbiChart(ViterbiChart):
    """A Viterbi chart whose rules are transposed, [(B,) N + P, 2N], and padded, so that the product needs no masks.

    In float32 the kernel of the product needs log-probabilities of at most 0. Emissions and rules above that are
    therefore shifted down, by a number for each word and one for all rules of a side. All trees of a sentence have as
    many words and rules, so the best one stays the best, but the score that ``fill`` returns is lower by these numbers.
    With a span bonus each row is shifted for its product, and back afterwards.
    """

    def __init__(self, arguments: InsideArguments) -> None:
        try:
            super().__init__(arguments)
            columns = triton.cdiv(self.layout.words, TILE_ROWS) * TILE_ROWS
            room = (max(self.states, self.tags) + SYMBOLS_AT_ONCE) * columns
            self.values = torch.empty(room, dtype=self.dtype, device=self.device)
        except torch.cuda.OutOfMemoryError as error:
            raise self._out_of_memory_error() from error
        self.processors = multiprocessors(self.device)
        if self._as_bits:
            self.emit = self.emit - self.emit.amax(-1, keepdim=True).clamp(min=0)

    @property
    def _as_bits(self) -> bool:
        return self.dtype == torch.float32

    def make_rules(self) -> None:
        """Compute the transposed log-rules [log L | log R], one row for each child symbol."""
        left, right = self.arguments.left.detach(), self.arguments.right.detach()
        columns = triton.cdiv(2 * self.states, TILE_COLUMNS) * TILE_COLUMNS
        symbols = self.states + self.tags + SYMBOLS_AT_ONCE
        self.rules = torch.zeros(*left.shape[:-2], symbols, columns, dtype=self.dtype, device=self.device)
        for first, side in ((0, left), (self.states, right)):
            target = self.rules[..., : self.states + self.tags, first : first + self.states]
            target.copy_(side.transpose(-1, -2))
            target.log_()
            if self._as_bits:  # 0 is subtracted unless a rule is larger than 1
                target.sub_(side.amax((-2, -1), keepdim=True).to(self.dtype).clamp(min=1).log())

    def rule_row(self, b: int, rule: int, wide: bool) -> Tensor:
        """Return one row of the log-rules, which is a column of the transposed ones; see the base class."""
        rules = self.rules if self.rules.dim() == 2 else self.rules[self.layout.sentences[b]]
        return rules[: self.states, rule] if wide else rules[self.states : self.states + self.tags, rule]

    def split_maxima(self, width: int) -> None:
        """Compute β* of a width."""
        layout = self.layout
        rows = layout.width(width)
        block = min(triton.next_power_of_2(self.states), SPLIT_BLOCK)
        kernels.split_maxima_kernel[(rows.stop - rows.start, triton.cdiv(self.states, block))](
            self.children, self.best, self.best if self.bonus is None else self.bonus, layout.first_rows,
            layout.sentence_of_row, width, rows.start, layout.words, self.states,
            HAS_BONUS=self.bonus is not None, BLOCK=block,
        )  # fmt: skip

    def multiply(self, width: int) -> None:
        """Compute η* and ζ* of the rows of a width that have parents."""
        rows = self.layout.with_parents(width)
        values = self.emit if width == 1 else self.best
        first = self.states if width == 1 else 0
        if self.rules.dim() == 2:
            self._product(values[rows], self.rules[first:], self.children[rows])
            return
        for part, sentence in self.layout.sentence_rows(width):
            self._product(values[part], self.rules[sentence, first:], self.children[part])

    def _product(self, values: Tensor, rules: Tensor, out: Tensor) -> None:
        rows, symbols = values.shape
        if not rows:
            return
        stride = triton.cdiv(rows, TILE_ROWS) * TILE_ROWS
        # Both operands are transposed, so that neighbouring threads load contiguous elements.
        ready = self.values[: (symbols + SYMBOLS_AT_ONCE) * stride].view(-1, stride)
        shift = values.amax(1, keepdim=True).clamp_(min=0) if self._as_bits and self.bonus is not None else None
        ready[:symbols, :rows].copy_(values.T if shift is None else (values - shift).T)
        if symbols % SYMBOLS_AT_ONCE:
            ready[symbols:].fill_(-torch.inf)
        parents = out.shape[1]
        tiles = (triton.cdiv(parents, TILE_COLUMNS), stride // TILE_ROWS)
        parts = _parts(tiles[0] * tiles[1], symbols, self.processors, rows * parents * out.element_size())
        target = out if parts == 1 else torch.empty(parts, rows, parents, dtype=out.dtype, device=out.device)
        kernels.max_plus_kernel[(*tiles, parts)](
            ready, rules, target, rows, symbols, parents, stride, rules.stride(0),
            AS_BITS=self._as_bits, num_warps=4, **TILE,
        )  # fmt: skip
        if parts > 1:
            torch.amax(target, 0, out=out)
        if shift is not None:
            out.add_(shift)

    def descend(self, nodes: Nodes) -> None:
        """Add all nodes below the first of each tree, by one launch for each node."""
        layout = self.layout
        block = min(triton.next_power_of_2(max(self.states, self.tags)), CHILD_BLOCK)
        stride = self.rules.stride()
        for step in range(layout.n - 1):
            kernels.descend_kernel[(self.batch, 2)](
                self.children, self.best, self.emit, self.rules, nodes.starts, nodes.ends, nodes.splits, nodes.labels,
                nodes.tags, layout.first_rows, layout.words_before, layout.order, step, layout.n, self.states,
                self.tags, stride[-2], stride[0] if self.rules.dim() == 3 else 0,
                SPLITS=triton.next_power_of_2(max(layout.n - 1, 2)), BLOCK=block,
            )  # fmt: skip

    def _out_of_memory_error(self) -> ResourceError:
        batch, n, states, tags = self.arguments.sizes
        item = self.arguments.log_emissions.element_size()
        chart = 3 * states * batch * n * (n + 1) // 2 * item
        rules = 2 * states * (states + tags) * item * (batch if self.arguments.batched_rules else 1)
        return ResourceError(
            f"the Viterbi chart of {batch} sentences of up to {n} words at N = {states} needs {chart / 1e9:.1f} GB, "
            f"and its rules {rules / 1e9:.1f} GB more; reduce the batch, the length or the number of nonterminals"
        )


@lru_cache(maxsize=1024)
def _parts(tiles: int, symbols: int, processors: int, part_bytes: int) -> int:
    """Return the number of parts into which the symbols are divided, so that the programs fill the GPU evenly."""
    together = PROGRAMS_PER_PROCESSOR * processors
    most = max(1, min(MOST_PARTS, symbols // 64, MOST_PART_BYTES // part_bytes))

    def cost(parts: int) -> float:
        return -(-tiles * parts // together) / parts * (1.0 + 0.01 * parts)  # parts need more memory traffic

    return min(range(1, most + 1), key=cost)
