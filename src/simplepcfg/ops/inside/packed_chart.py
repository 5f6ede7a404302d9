"""The packed chart of FlashInside, which launches the kernels and the matrix products of both passes."""

import math
from contextlib import AbstractContextManager

import torch
import triton
import triton.language as tl
from torch import Tensor

from simplepcfg.errors import ResourceError
from simplepcfg.ops.arguments import InsideArguments, Needs
from simplepcfg.ops.inside import end_kernels, kernels, pair_kernels
from simplepcfg.ops.inside.layout import ChartLayout, make_layout
from simplepcfg.ops.products import matrix_mode, mm_wide
from simplepcfg.ops.scales import precision_of

DEAD = kernels.DEAD.value
# A tile of the split sums has this many splits and this many states and runs on four warps: the fastest of the shapes
# that were measured on an H200. Taller tiles do not compile there, and narrower ones do not use the full bandwidth.
SPLITS_AT_ONCE = 4
STATES_AT_ONCE = 1024
# The tables of splits have at least this length, so that all narrow widths share one compiled kernel.
LEAST_SPLITS = 32
# A block of at most this many states runs on fewer warps, because every warp repeats the arithmetic of rows and
# factors, and its loop is unrolled to overlap two rounds of loads. Measured at N = 512.
FEW_STATES = 512
# The kernels that sum two widths of two neighbouring spans together have tiles of this many states on this many warps.
# They are used from the width PAIRED_FROM on, if there are at least LEAST_TILES tiles, which fill the GPU.
PAIRED_STATES, PAIRED_WARPS = 512, 1
PAIRED_STATES_BACK, PAIRED_WARPS_BACK = 1024, 4
# Limits of registers for each thread of the backward kernels in bf16. Without a limit the compiler uses more for the
# rare path of `_gather_wide_range`, and fewer blocks fit a multiprocessor. With these limits almost nothing spills.
# That path processes WIDE_RANGE_STATES_AT_ONCE states at a time.
REGISTERS_BACK, PAIRED_REGISTERS_BACK = 128, 80
WIDE_RANGE_STATES_AT_ONCE = 128
PAIRED_FROM = 5
LEAST_TILES = 264


class PackedChart:
    """The chart of one batch: β [rows, N], η and ζ [rows, 2N], and exponents [rows]. Backward only reads it."""

    def __init__(self, arguments: InsideArguments, holds_gradient: bool = True) -> None:
        self.arguments = arguments
        # Whether the backward pass stores the gradient of all rules, for an error message.
        self._holds_gradient = holds_gradient
        self.batch, n, self.states, self.tags = arguments.sizes
        self.child_states = arguments.left.shape[-1] - self.tags  # more than the states if these are sharded
        self.device = arguments.log_emissions.device
        self.precision = precision_of(arguments)
        self.gradient_dtype = arguments.left.dtype  # of the gradient of the rules; autograd would convert to it
        lengths = (n,) * self.batch if arguments.lengths is None else tuple(arguments.lengths.tolist())
        self.layout: ChartLayout = make_layout(n, lengths, self.device)
        self.layout.use_on_current_stream()
        stored, work = self.precision.stored, self.precision.work
        rows = self.layout.rows
        try:
            self.rules = stacked_rules(arguments.left, arguments.right, stored)  # [(B,) 2N, N + P]
            self.emit = self.empty(self.layout.words, self.tags, dtype=stored)
            self.beta = self.empty(rows, self.states, dtype=stored)
            self.chart = self.empty(rows, 2 * self.states, dtype=stored)
        except torch.cuda.OutOfMemoryError as error:
            raise self._out_of_memory_error() from error
        self.exponent = self.empty(rows, dtype=work)
        self.reach = self.empty(rows, dtype=work)
        self.best = self.empty(self.layout.words, dtype=torch.float64)
        self.log_top = self.empty(self.batch, dtype=torch.float64)
        self.bonus = self.row_bonus()
        self.kinds = {"WORK": tl.float64 if work == torch.float64 else tl.float32}
        # With equal lengths, row numbers are computed instead of loaded from the tables of the layout.
        self.equal = {"EQUAL": arguments.lengths is None}
        self.padded = {"PADDED": False}  # whether rows of words beyond the end of a sentence are in the chart
        self.partial: tuple[Tensor, Tensor] | None = None  # partial sums of the next width, from a pair kernel

    def fill(self) -> Tensor:
        """Run the forward pass and return log Z of each sentence, in the order of the batch."""
        layout, states, child_states = self.layout, self.states, self.child_states
        emissions = self.arguments.log_emissions.contiguous()
        end_kernels.words_kernel[(layout.words,)](
            emissions, self.emit, self.best, self.exponent, self.reach, layout.sentence_of_row, layout.words_before,
            layout.order, self.tags, *emissions.stride()[:2], PEAK=self.precision.peak,
            BLOCK=_block_size(self.tags, 1024), **self.kinds,
        )  # fmt: skip
        self.multiply(self.emit, self.rules[..., child_states:], layout.with_parents(1), 1)
        for width in range(2, layout.n + 1):
            self.split_sums(width)
            if layout.inner[width]:
                rows = layout.with_parents(width)
                self.multiply(self.beta[rows], self.rules[..., :child_states], rows, width)
        log_z = self.empty(self.batch, dtype=self.result_dtype)
        root = self.arguments.root.contiguous()
        end_kernels.top_fwd_kernel[(self.batch,)](
            self.beta, self.exponent, self.best, root, self.log_top, log_z, layout.top_rows, layout.words_before,
            layout.length_of_sentence, layout.order, states, states if root.dim() == 2 else 0,
            BLOCK=_block_size(states, 4096), num_warps=16, **self.kinds,
        )  # fmt: skip
        return log_z

    @property
    def result_dtype(self) -> torch.dtype:
        """The dtype of log Z."""
        return self.arguments.log_emissions.dtype

    def split_sums(self, width: int) -> None:
        """Compute β of a width from η and ζ of the narrower ones, with its scales."""
        layout = self.layout
        rows = layout.width(width)
        spans = rows.stop - rows.start
        paired = self._uses_pair_kernel(width, spans)
        block = _block_size(self.states, PAIRED_STATES if paired else STATES_AT_ONCE)
        blocks = triton.cdiv(self.states, block)
        peaks = self.empty(spans, blocks, dtype=self.precision.work)
        places = {"PEAK": self.precision.peak, **self.equal, **self.kinds}
        choices = {"SAFE": self.precision.safe, "HAS_BONUS": self.arguments.span_bonus is not None}
        splits = max(LEAST_SPLITS, triton.next_power_of_2(width - 1))
        if paired:
            after = layout.width(width + 1)
            self.partial = (
                self.empty(after.stop - after.start, self.states, dtype=self.precision.work),
                self.empty(after.stop - after.start, dtype=self.precision.work),
            )
            pair_kernels.inside_pair_fwd_kernel[(triton.cdiv(spans, 2), blocks)](
                self.chart, self.beta, *self.partial, self.exponent, self.reach, peaks, layout.first_rows,
                layout.sentence_of_row, layout.words_before, layout.length_of_sentence, width, self.batch, layout.n,
                rows.start, spans, self.states, SPLITS=splits, BLOCK=block, EVEN=self.states % block == 0,
                num_warps=PAIRED_WARPS, **places, **self.padded,
            )  # fmt: skip
        else:
            partial, self.partial = self.partial, None
            kernels.inside_split_fwd_kernel[(spans, blocks)](
                self.chart, self.beta, self.exponent, self.reach, peaks, self.bonus, *(partial or (peaks, peaks)),
                layout.first_rows, layout.sentence_of_row, width, self.batch, layout.n, rows.start, self.states,
                HAS_PARTIAL=partial is not None, ONE_BLOCK=blocks == 1, SPLITS=splits,
                BLOCK_K=2 if partial else SPLITS_AT_ONCE, BLOCK=block, **_warp_options(block),
                **choices, **places, **self.padded,
            )  # fmt: skip
        if paired or blocks > 1:
            kernels.finish_rows_fwd_kernel[(spans,)](
                self.chart, self.beta, self.exponent, self.reach, peaks, self.bonus, layout.first_rows,
                layout.sentence_of_row, width, self.batch, layout.n, rows.start, self.states, blocks,
                BLOCKS=triton.next_power_of_2(blocks), BLOCK=1024, **choices, **places,
            )  # fmt: skip

    def _uses_pair_kernel(self, width: int, spans: int) -> bool:
        """Return whether this width is summed together with the next one, which needs enough tiles to fill the GPU."""
        if self.partial is not None or self.arguments.span_bonus is not None:
            return False  # this width has partial sums already, or there is a bonus, which pair kernels do not support
        tiles = triton.cdiv(spans, 2) * triton.cdiv(self.states, STATES_AT_ONCE)
        return self.states > STATES_AT_ONCE and tiles >= LEAST_TILES and PAIRED_FROM <= width < self.layout.n

    def multiply(self, left: Tensor, rules: Tensor, rows: slice, width: int) -> None:
        """Compute η and ζ of a width: its β times [L | R]."""
        with self.matrix_context():
            if rules.dim() == 2:
                torch.mm(left[: rows.stop - rows.start], rules.T, out=self.chart[rows])
            else:
                for here, sentence in self.layout.sentence_rows(width):
                    part = slice(here.start - rows.start, here.stop - rows.start)
                    torch.mm(left[part], rules[sentence].T, out=self.chart[here])

    def backward(self, grad: Tensor, needs: Needs, marginals: Tensor | None) -> list[Tensor | None]:
        """Compute the gradients that are needed; see ``Chart.backward``."""
        by_root, by_child = self.adjoints(grad, marginals, needs.words or needs.rules)
        rules = self.rule_gradients(by_child) if needs.rules else None
        words = self.emission_gradients(by_child) if needs.words else None
        return [words, by_root if needs.root else None, rules]

    def adjoints(self, grad: Tensor, marginals: Tensor | None, of_words: bool = True) -> tuple[Tensor, Tensor]:
        """Compute the gradients with respect to the root, and to η and ζ of every row, [rows, 2N].

        Rows of words are computed if ``of_words`` is true. ``marginals`` [B, n + 1, n + 1] is filled if it is given.
        """
        self.partial = None
        layout, states, stored = self.layout, self.states, self.precision.stored
        try:
            alpha = self.empty(layout.rows, states, dtype=stored)
            by_child = self.empty(layout.rows, 2 * states, dtype=stored)
        except torch.cuda.OutOfMemoryError as error:
            raise self._out_of_memory_error() from error
        by_root = self.empty(self.batch, states, dtype=self.precision.work)
        self.whole_sentences(grad.contiguous(), alpha, by_root)
        for width in range(layout.n, 1, -1):
            self.outside(width, alpha, by_child)
        if marginals is not None:
            marginal = self.empty(layout.rows, dtype=self.precision.work)
            kernels.span_marginal_kernel[(layout.rows - layout.words,)](
                self.beta, alpha, marginal, layout.words, states, BLOCK=_block_size(states, 1024),
                LIMIT=self.precision.limit, **self.kinds,
            )  # fmt: skip
            marginals.view(-1)[layout.cells] = marginal[layout.words :].to(marginals.dtype)
        if of_words:
            self._gather(1, alpha, by_child)
        return by_root if self.arguments.root.dim() == 2 else by_root.sum(0), by_child

    def whole_sentences(self, grad: Tensor, alpha: Tensor, by_root: Tensor) -> None:
        """Compute d log Z / d β of whole sentences into their rows of ``alpha``, and the gradient of the root."""
        root = self.arguments.root.contiguous()
        block = _block_size(self.states, 1024)
        end_kernels.top_bwd_kernel[(self.batch, triton.cdiv(self.states, block))](
            self.beta, root, self.log_top, grad, alpha, by_root, self.layout.top_rows, self.layout.order, self.states,
            self.states if root.dim() == 2 else 0, BLOCK=block, LIMIT=self.precision.limit, **self.kinds,
        )  # fmt: skip

    def outside(self, width: int, alpha: Tensor, by_child: Tensor) -> None:
        """Compute d log Z / d β of the spans of a width that have parents."""
        rows = self.layout.with_parents(width)
        tops = slice(rows.stop, self.layout.width(width).stop)
        by_child[tops].zero_()  # whole sentences have no parent; the rule gradient reads these rows
        if rows.stop == rows.start:
            return
        self._gather(width, alpha, by_child)
        self.outside_rows(width, by_child, alpha[rows])

    def outside_rows(self, width: int, by_child: Tensor, out: Tensor) -> None:
        """Compute d log Z / d β of the spans of a width that have parents from the derivatives of their η and ζ."""
        rows, rules = self.layout.with_parents(width), self.rules[..., : self.child_states]
        with self.matrix_context():
            if rules.dim() == 2:
                self.outside_product(by_child[rows], rules, out)
            else:
                for here, sentence in self.layout.sentence_rows(width):
                    part = slice(here.start - rows.start, here.stop - rows.start)
                    self.outside_product(by_child[here], rules[sentence], out[part])

    def outside_product(self, by_child: Tensor, rules: Tensor, alpha: Tensor) -> None:
        """Compute d log Z / d β of some spans from the derivatives of their η and ζ, by one matrix product."""
        torch.mm(by_child, rules, out=alpha)

    def _gather(self, width: int, alpha: Tensor, by_child: Tensor) -> None:
        layout = self.layout
        rows = layout.with_parents(width)
        if width == 1:
            by_child[rows.stop : layout.words].zero_()
        spans = rows.stop - rows.start
        if spans == 0:
            return
        paired = width > 1 and self._uses_pair_kernel(layout.n - width, 2 * spans)
        block = _block_size(self.states, PAIRED_STATES_BACK if paired else STATES_AT_ONCE)
        blocks = triton.cdiv(self.states, block)
        tables = (layout.first_rows, layout.sentence_of_row, layout.words_before, layout.length_of_sentence)
        # Derivatives of η and ζ are clamped so that their products with the rules cannot overflow.
        bound = self.precision.limit / _block_size(4 * self.states, 2**40)
        choices = {**self.equal, **self.padded, **self.kinds}
        choices |= {"BLOCK": block, "CHUNK": min(block, WIDE_RANGE_STATES_AT_ONCE)}
        choices |= {"HEAD": self.precision.head, "CHILD_LIMIT": bound}
        if paired:
            below = layout.width(width - 1)
            rest = self.empty(below.stop - below.start, 2 * self.states, dtype=self.precision.work)
            self.partial = (rest, rest)
            pair_kernels.inside_pair_bwd_kernel[(triton.cdiv(spans, 2), blocks, 2)](
                self.chart, alpha, by_child, rest, self.exponent, *tables, width, self.batch, layout.n, rows.start,
                spans, self.states, EVEN=self.states % block == 0, num_warps=PAIRED_WARPS_BACK,
                **self._register_limit(PAIRED_REGISTERS_BACK), **choices,
            )  # fmt: skip
            return
        partial, self.partial = self.partial, None
        kernels.inside_split_bwd_kernel[(spans, blocks, 2)](
            self.chart, alpha, by_child, self.exponent, self.bonus, partial[0] if partial else alpha, *tables, width,
            self.batch, layout.n, rows.start, self.states, HAS_BONUS=self.arguments.span_bonus is not None,
            HAS_PARTIAL=partial is not None, BLOCK_K=1 if partial else SPLITS_AT_ONCE, **_warp_options(block),
            **({} if block <= FEW_STATES else self._register_limit(REGISTERS_BACK)), **choices,
        )  # fmt: skip

    def _register_limit(self, most: int) -> dict[str, int]:
        return {"maxnreg": most} if self.precision.stored == torch.bfloat16 else {}

    def rule_gradients(self, by_child: Tensor) -> Tensor:
        """Compute the gradient of the rules, [(B,) 2N, N + P]: one product over all spans, and one over all words."""
        states = self.child_states
        both = self.empty(*self.rules.shape, dtype=self.gradient_dtype)  # sums are in the wide dtype
        with self.matrix_context():
            if both.dim() == 2:
                self.rule_gradient_rows(by_child, slice(0, 2 * self.states), both)
            else:
                for sentence, spans in enumerate(self._rows_with_parents()):
                    if len(spans) < 2:  # a sentence of one or two words has no nonterminal child
                        both[sentence].zero_()
                    if spans:
                        mm_wide(by_child[spans[0]].T, self.emit[spans[0]], both[sentence, :, states:])
                    if len(spans) > 1:
                        by_spans, beta = (
                            torch.cat([each[rows] for rows in spans[1:]]) for each in (by_child, self.beta)
                        )
                        mm_wide(by_spans.T, beta, both[sentence, :, :states])
        return both

    def rule_gradient_rows(self, by_child: Tensor, rows: slice, out: Tensor) -> None:
        """Compute the gradient of some rows of unbatched rules [left; right] into ``out`` [rows, N + P]."""
        words = self.layout.words
        with self.matrix_context():
            mm_wide(by_child[words:, rows].T, self.beta[words:], out[:, : self.child_states])
            mm_wide(by_child[:words, rows].T, self.emit, out[:, self.child_states :])

    def emission_gradients(self, by_child: Tensor) -> Tensor:
        """Compute the gradient of the log-emissions, [B, n, P]."""
        layout = self.layout
        emissions = self.arguments.log_emissions
        by_emit = self.empty(layout.words, self.tags, dtype=self.precision.work)
        rules = self.rules[..., self.child_states :]
        with self.matrix_context():
            if rules.dim() == 2:
                mm_wide(by_child[: layout.words], rules, by_emit)
            else:
                by_emit.zero_()
                for rows, sentence in self.layout.sentence_rows(1):
                    mm_wide(by_child[rows], rules[sentence], by_emit[rows])
        padded = self.arguments.lengths is not None  # positions beyond the end of a sentence have no gradient
        made = torch.zeros_like if padded else torch.empty_like
        gradients = made(emissions, memory_format=torch.contiguous_format)
        block = _block_size(self.tags, 1024)
        end_kernels.words_bwd_kernel[(layout.words, triton.cdiv(self.tags, block))](
            by_emit, self.emit, gradients, layout.sentence_of_row, layout.words_before, layout.order, self.tags,
            *gradients.stride()[:2], LIMIT=self.precision.limit, BLOCK=block, **self.kinds,
        )  # fmt: skip
        return gradients

    def _rows_with_parents(self) -> list[list[slice]]:
        """Return the rows that have a parent of each sentence, width by width; none for a sentence of one word."""
        rows_by_sentence: list[list[slice]] = [[] for _ in range(self.batch)]
        for width in range(1, self.layout.n):
            for rows, sentence in self.layout.sentence_rows(width):
                rows_by_sentence[sentence].append(rows)
        return rows_by_sentence

    def row_bonus(self) -> Tensor:
        """Return log2 of the weight of each row, DEAD for forbidden spans; an unused tensor if there is no bonus."""
        if self.arguments.span_bonus is None:
            return self.exponent
        bonus = self.empty(self.layout.rows, dtype=self.precision.work).zero_()
        cells = self.arguments.span_bonus.detach().reshape(-1)[self.layout.cells] / math.log(2)
        bonus[self.layout.words :] = cells.clamp(min=DEAD)
        return bonus

    def empty(self, *size: int, dtype: torch.dtype) -> Tensor:
        """Allocate an uninitialised tensor on the device of the chart."""
        return torch.empty(size, dtype=dtype, device=self.device)

    def matrix_context(self) -> AbstractContextManager[None]:
        """Let float32 products use TF32 if and only if it was asked for."""
        return matrix_mode("tf32" if self.precision.tf32 else None, self.device)

    def _out_of_memory_error(self) -> ResourceError:
        item = self.precision.stored.itemsize
        chart = 6 * self.states * self.layout.rows * item
        rules = 2 * self.states * (self.states + self.tags)
        gradient = rules * self.arguments.left.element_size() / 1e9
        more = f", and the rules' gradient {gradient:.1f} GB more" if self._holds_gradient else ""
        return ResourceError(
            f"the chart of {self.batch} sentences of up to {self.layout.n} words at N = {self.states} needs "
            f"{chart / 1e9:.1f} GB{more}; reduce the batch, the length or the number of nonterminals"
        )


def stacked_rules(left: Tensor, right: Tensor, dtype: torch.dtype) -> Tensor:
    """Stack left and right to [(B,) 2N, N + P]: a view if they are adjacent in memory already, else a copy."""
    if are_stacked(left, right, dtype):
        return view_stacked(left)
    return torch.cat([left.detach().to(dtype), right.detach().to(dtype)], -2)


def are_stacked(left: Tensor, right: Tensor, dtype: torch.dtype) -> bool:
    """Return whether left and right are of this dtype and the two halves of one tensor [(B,) 2N, N + P]."""
    nonterminals, symbols = left.shape[-2:]
    strides = (symbols, 1) if left.dim() == 2 else (2 * nonterminals * symbols, symbols, 1)
    return (
        left.dtype == right.dtype == dtype
        and left.stride() == right.stride() == strides
        and left.data_ptr() + nonterminals * symbols * left.element_size() == right.data_ptr()
        and left.untyped_storage().data_ptr() == right.untyped_storage().data_ptr()
    )


def view_stacked(left: Tensor) -> Tensor:
    """Return the tensor of which ``left`` is the first half, if ``are_stacked``."""
    *batch, nonterminals, symbols = left.shape
    return left.detach().as_strided((*batch, 2 * nonterminals, symbols), left.stride())


def _warp_options(block: int) -> dict[str, int]:
    few = block <= FEW_STATES
    return {"UNROLL": 2 if few else 1, "num_warps": 2 if few else 4}


def _block_size(columns: int, most: int) -> int:
    return min(triton.next_power_of_2(columns), most)
