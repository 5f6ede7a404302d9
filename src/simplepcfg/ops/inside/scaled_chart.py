"""The forward pass of the inside algorithm in scaled probabilities: each row has an exponent of its own.

README.md derives the recursion, the layout and the bounds that keep every number within the range of its type.
"""

import math
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from simplepcfg.ops.arguments import InsideArguments
from simplepcfg.ops.products import put_rows, row_parts, weighted_sums
from simplepcfg.ops.scales import DEAD, range_of, shift_to_peak
from simplepcfg.ops.shards import Shards
from simplepcfg.ops.transposed_rules import kept_layout, transposed_rules, with_gaps

# Split sums are computed for so many spans at a time that a thread's part of the temporary tensor stays in the cache,
# beside what it is made of: with four times as much, a Xeon with 2 MiB for each core took a quarter longer.
CACHE_BYTES = 1 << 19
# NumPy sums so many states or more in half the time of PyTorch, but by one thread.
LEAST_NUMPY_STATES, MOST_NUMPY_THREADS = 512, 2
# Rows with the states of all processes are made for so many bytes at a time, and for no fewer rows than this.
GATHERED_BYTES, LEAST_GATHERED_ROWS = 1 << 19, 64
EVERYTHING = (slice(None), slice(None))  # all sentences, all spans


class ScaledChart:
    """The chart of one batch: β by width, and η and ζ in one ``Square``. The backward pass only reads it.

    With ``shards``, root, rules and emissions are those of this process's symbols, and so are the states of the chart.
    """

    def __init__(self, arguments: InsideArguments, shards: Shards | None = None) -> None:
        self.arguments, self.shards = arguments, shards
        self.batch, self.n, self.nonterminals, preterminals = arguments.sizes
        processes = 1 if shards is None else shards.size
        self.child_states = arguments.left.shape[-1] - processes * preterminals  # the nonterminals of all processes
        self.dtype, self.device = arguments.log_emissions.dtype, arguments.log_emissions.device
        self.lengths = arguments.lengths_on_device
        self.range = range_of(self.dtype)
        self.take_rules()
        posts = (self.batch, self.n + 1, self.n + 1)
        self.square = Square(self.empty(*posts, self.nonterminals))
        self.exponents = Square(self.empty(*posts))
        self.words: Tensor  # [B, n, P], emissions divided by each word's largest, times 2^peak
        self.beta: dict[int, Tensor] = {}  # by width: [B, spans, N]
        self.splits: dict[int, tuple[Tensor, Tensor]] = {}  # by width: η and ζ of its splits, views of the square
        self.factors: dict[int, Tensor] = {}  # by width: [B, spans, splits], β = Σ factor · η ⊙ ζ
        self.scales: dict[int, Tensor] = {}  # by width: [B, spans, 2], stored row = scale · matrix product
        self.with_parents: dict[int, Tensor] = {}  # by width, if lengths differ: flat indices of spans with a parent
        # By width: indices of the spans that were recomputed in log space, and their exponents.
        self.log_space_spans: dict[int, tuple[tuple[Tensor, ...], Tensor]] = {}

    def take_rules(self) -> None:
        """Arrange the rules such that one matrix product gives η and ζ."""
        split = self.child_states
        both = transposed_rules(self.arguments.left, self.arguments.right)  # [(B,) N + P, 2N]
        self.transposed, self.transposed_word_rules = both[..., :split, :], both[..., split:, :]

    @cached_property
    def all_rules(self) -> Tensor:
        """The rules [L; R], [(B,) 2N, N + P], which the backward pass multiplies with."""
        return torch.cat([self.arguments.left.detach(), self.arguments.right.detach()], -2)

    @property
    def own_words(self) -> Tensor:
        """The emissions of this process's preterminals, [B, n, P], as they are in ``words``."""
        return self.words if self.shards is None else self.words.chunk(self.shards.size, -1)[self.shards.rank]

    @cached_property
    def rules(self) -> Tensor:
        """The rules of nonterminals, [(B,) 2N, N]."""
        left, right, split = self.arguments.left, self.arguments.right, self.child_states
        if self.arguments.batched_rules or self.device.type != "cpu":
            return self.all_rules[..., :split]
        sides = [side[:, :split] for side in (left.detach(), right.detach())]
        return kept_layout("of nonterminals", left, right, lambda *_: with_gaps(torch.cat(sides)))

    @property
    def word_rules(self) -> Tensor:
        """The rules of preterminals, [(B,) 2N, P]."""
        return self.all_rules[..., self.child_states :]

    def empty(self, *size: int) -> Tensor:
        """Allocate an uninitialised tensor with the dtype and device of the chart."""
        return torch.empty(size, dtype=self.dtype, device=self.device)

    def fill(self) -> Tensor:
        """Run the forward pass and return log Z of each sentence, [B]."""
        self._words()
        top = self.empty(self.batch, self.nonterminals).zero_()
        exponent = self.empty(self.batch).fill_(DEAD)
        for width in range(2, self.n + 1):
            exponents = self.split_sums(width)
            if width < self.n:
                self._children(width, exponents)
            else:
                self.recompute_in_log_space(width, exponents)
            ends = self.whole_sentences(width)
            if ends is not None:
                top[ends], exponent[ends] = self.beta[width][ends, 0], exponents[ends, 0]
        # In logs, because root and β may have their maxima at different states, and all products may underflow.
        self.top = top.double().mul_(2.0**-self.range.beta_peak)
        self.log_top = torch.logsumexp(self.top.log() + self.arguments.root.double().log(), -1)
        if self.shards is not None:
            self.log_top = self.shards.logsumexp(self.log_top)
        log_z = self.log_top + (exponent.double() + self.range.beta_peak) * math.log(2) + self.log_words
        return torch.where(self.log_top == -math.inf, self.log_top, log_z).to(self.dtype)

    def all_states(self, rows: Tensor) -> Tensor:
        """Return rows of β or of emissions with the states of all processes."""
        return rows if self.shards is None else self.shards.all_states(rows)

    def gathered_parts(self, count: int, states: int, rows: int = 1) -> list[slice]:
        """Split ``count`` items of some rows [states], which all processes share, into parts to be gathered in turn."""
        size = states * self.dtype.itemsize
        most = max(GATHERED_BYTES, LEAST_GATHERED_ROWS * size) // (rows * size)
        return [slice(count)] if self.shards is None else row_parts(count, most)

    def whole_sentences(self, width: int) -> Tensor | slice | None:
        """Return the indices of the sentences of this length, or None if there are none."""
        if self.lengths is None:
            return slice(None) if width == self.n else None
        return (self.lengths == width).nonzero().squeeze(1)

    def bonus(self, width: int) -> tuple[Tensor, Tensor] | None:
        """Return the spans' bonus as (whole, fraction), [B, spans] each: exp(bonus) = 2^whole · fraction."""
        if self.arguments.span_bonus is None:
            return None
        whole, fraction = (torch.diagonal(part, width, 1, 2) for part in self._bonuses)
        return whole, fraction

    @cached_property
    def _bonuses(self) -> tuple[Tensor, Tensor]:
        assert self.arguments.span_bonus is not None
        bonus = self.arguments.span_bonus.detach().double() / math.log(2)
        whole = bonus.floor()
        forbidden = bonus == -math.inf
        fraction = torch.exp2(bonus - whole).masked_fill(forbidden, 0.0)
        return whole.masked_fill(forbidden, DEAD).to(self.dtype), fraction.to(self.dtype)

    def chunks(self, width: int) -> list[tuple[slice, slice]]:
        """Split sentences and spans into slices whose [spans, splits, N] temporaries stay in cache.

        Where a slice is of one sentence, spans beyond its end are left out.
        """
        spans = self.n - width + 1
        each = (width - 1) * self.nonterminals * self.dtype.itemsize
        room = CACHE_BYTES * torch.get_num_threads()
        if each * spans * self.batch <= room or self.device.type != "cpu":
            return [EVERYTHING]
        if each * spans <= room:
            return [(part, slice(None)) for part in row_parts(self.batch, room // (each * spans))]
        lengths = self.arguments.lengths
        counts = [spans] * self.batch if lengths is None else (lengths - width + 1).tolist()  # of spans that exist
        return [
            (slice(b, b + 1), part)
            for b, count in enumerate(counts)
            if count > 0
            for part in row_parts(count, room // each)
        ]

    def _words(self) -> None:
        emissions = self.all_states(self.arguments.log_emissions)
        if self.lengths is not None:
            beyond = torch.arange(self.n, device=self.device) >= self.lengths[:, None]
            emissions = emissions.masked_fill(beyond[:, :, None], -math.inf)
        self.words, exponents, best = self.scaled_emissions(emissions)
        self.log_words = best.double().sum(-1)
        self._store(1, *self._with_maxima(torch.matmul(self.words, self.transposed_word_rules)), exponents)

    def scaled_emissions(self, emissions: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return exp(emissions) [..., P] divided by each word's largest, their exponents, and the log of the largest.

        Every tree contains every word once: what is divided out here is added to log Z at the end.
        """
        best = emissions.amax(-1)
        dead = best == -math.inf
        best.masked_fill_(dead, 0.0)
        # The factor 2^peak keeps products with small rules above the subnormal numbers, which have few digits.
        words = (emissions - best[..., None]).exp_().mul_(2.0**self.range.peak)
        return words, torch.full_like(best, -self.range.peak).masked_fill_(dead, DEAD), best

    def split_sums(self, width: int) -> Tensor:
        """Compute β of every span of this width, Σ over splits of η ⊙ ζ, and return its exponents, [B, spans]."""
        eta, zeta = self.splits[width] = self.square.children(width)
        eta_exponents, zeta_exponents = self.exponents.children(width)
        splits = eta_exponents + zeta_exponents  # [B, spans, splits]
        # The product of two rows with maxima near 2^peak is near 2^(2 peak), the scale of β.
        exponents = splits.amax(-1)
        factors = self.factors[width] = (splits - exponents.unsqueeze(-1)).exp2_()
        beta = self.weighted_products(width, factors, eta, zeta)
        self.beta[width] = beta
        bonus = self.bonus(width)
        if bonus is not None:
            whole, fraction = bonus
            beta *= fraction[..., None]
            factors *= fraction[..., None]
            exponents += whole
        return exponents

    def weighted_products(self, width: int, factors: Tensor, eta: Tensor, zeta: Tensor) -> Tensor:
        """Compute Σ factor · η ⊙ ζ over the splits of every span of this width: [B, spans, N]."""
        parts = self.chunks(width)
        if parts == [EVERYTHING] or self.lengths is None:
            beta = self.empty(*factors.shape[:2], self.nonterminals)
        else:
            beta = factors.new_zeros(*factors.shape[:2], self.nonterminals)
        few_threads = self.device.type == "cpu" and torch.get_num_threads() <= MOST_NUMPY_THREADS
        if few_threads and self.nonterminals >= LEAST_NUMPY_STATES:
            weights, ones, others, sums = (tensor.numpy() for tensor in (factors, eta, zeta, beta))
            with np.errstate(all="ignore"):  # rows of spans beyond the end of a sentence may hold anything
                for part in parts:
                    np.matmul(weights[part][..., None, :], ones[part] * others[part], out=sums[part][..., None, :])
            return beta
        if parts == [EVERYTHING]:
            return weighted_sums(factors, eta * zeta)
        for part in parts:
            beta[part] = weighted_sums(factors[part], eta[part] * zeta[part])
        return beta

    def recompute_in_log_space(self, width: int, exponents: Tensor) -> bool:
        """Recompute in log space the spans whose products of η and ζ underflowed; return whether there were any.

        This happens if η and ζ have their maxima at different states.
        """
        beta, factors = self.beta[width], self.factors[width]
        far = (beta.amax(-1) < self.range.safe) & (exponents > DEAD / 2)
        if not bool(far.any()):
            return False
        where = far.nonzero(as_tuple=True)
        eta, zeta = self.splits[width]
        eta_exponents, zeta_exponents = self.exponents.children(width)
        splits = eta_exponents[where].double() + zeta_exponents[where].double()
        logs = eta[where].double().log2_() + zeta[where].double().log2_() + splits[..., None]
        largest = logs.amax((-1, -2))
        dead = largest == -math.inf
        place = (largest.ceil() - self.range.beta_peak).masked_fill_(dead, 0.0)
        sums = torch.exp2(logs - place[:, None, None]).sum(1)
        recomputed = place.masked_fill(dead, DEAD)
        bonus = self.bonus(width)
        if bonus is not None:
            whole, fraction = bonus
            sums, recomputed = sums * fraction[where][:, None], recomputed + whole[where]
        beta[where], exponents[where] = sums.to(self.dtype), recomputed.to(self.dtype)
        factors[where] = 0.0
        self.log_space_spans[width] = (where, splits - place[:, None])
        return True

    def _children(self, width: int, exponents: Tensor) -> None:
        """Compute η and ζ of every span of this width by one matrix product with [L | R]."""
        children, maxima, lowest = self._with_maxima(self._multiply(width))
        # If η and ζ did not underflow, neither did β, so that one check suffices for all three.
        if lowest < self.range.safe and self.recompute_in_log_space(width, exponents):
            children, maxima, lowest = self._with_maxima(self._multiply(width))
        self._store(width, children, maxima, lowest, exponents)

    def _multiply(self, width: int) -> Tensor:
        beta = self.beta[width]
        if self.lengths is None or self.arguments.batched_rules:
            return torch.matmul(self.all_states(beta), self.transposed)
        self.with_parents[width] = rows = self.have_parents(width, self.lengths).flatten().nonzero().squeeze(1)
        flat = beta.view(-1, self.nonterminals)
        children = flat.new_zeros(flat.shape[0], 2 * self.nonterminals)
        if rows.numel():
            put_rows(children, rows, self.all_states(flat.index_select(0, rows)) @ self.transposed)
        return children

    def have_parents(self, width: int, lengths: Tensor) -> Tensor:
        """Return which spans of this width may be children, [B, spans]."""
        ends = torch.arange(width, self.n + 1, device=self.device)
        # A whole sentence has no parent, and spans beyond the end of a sentence do not exist.
        return (ends < lengths[:, None]) | ((ends == lengths[:, None]) & (ends > width))

    def _with_maxima(self, children: Tensor) -> tuple[Tensor, Tensor, float]:
        """Return the children as [B, spans, 2, N], the maxima of their rows, and the smallest maximum."""
        both = children.view(self.batch, -1, 2, self.nonterminals)
        maxima = both.amax(-1)
        return both, maxima, float(maxima.amin())

    def _store(self, width: int, both: Tensor, maxima: Tensor, lowest: float, exponents: Tensor) -> None:
        """Write the rows of η and ζ to the square, each scaled so that its maximum is near 2^peak."""
        shifts = shift_to_peak(maxima, self.range, lowest < self.range.low)
        scale = self.scales[width] = shifts.exp2()
        torch.mul(both, scale.unsqueeze(-1), out=self.square.rows(width))
        stored = torch.sub(exponents.unsqueeze(-1), shifts, out=self.exponents.rows(width))
        if lowest == 0.0:
            stored.masked_fill_(maxima == 0, DEAD)


class Square:
    """A tensor with η(i, j) at [i, j] and ζ(i, j) at [j, i]. The splits of all spans of one width are one view.

    ``cells`` is [B, n + 1, n + 1, N], or [B, n + 1, n + 1] for one number for each span.
    """

    def __init__(self, cells: Tensor) -> None:
        self.cells = cells
        self.batch, self.posts = cells.shape[:2]
        self.tail = tuple(cells.shape[3:])
        column = cells.stride(2)
        self.column, self.row = column, cells.stride(1)
        # From one span to the next of the same width, row and column both increase by 1.
        self.splits_stride = (cells.stride(0), self.row + column, column, *cells.stride()[3:])
        self.spans_stride = (cells.stride(0), self.row + column, *cells.stride()[3:])

    def children(self, width: int) -> tuple[Tensor, Tensor]:
        """Return η(i, i + k) and ζ(i + k, i + width) of every split: two views [B, spans, splits, …]."""
        size = (self.batch, self.posts - width, width - 1, *self.tail)
        return (
            torch.as_strided(self.cells, size, self.splits_stride, self.column),
            torch.as_strided(self.cells, size, self.splits_stride, width * self.row + self.column),
        )

    def rows(self, width: int) -> Tensor:
        """Return η and ζ of every span of one width: one view [B, spans, 2, …]."""
        size = (self.batch, self.posts - width, 2, *self.tail)
        sides = width * (self.row - self.column)
        stride = (self.spans_stride[0], self.spans_stride[1], sides, *self.spans_stride[2:])
        return torch.as_strided(self.cells, size, stride, width * self.column)
