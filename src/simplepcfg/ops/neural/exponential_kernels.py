"""Triton kernels of exp(a bᵀ) and of its row sums, which never store the logits a bᵀ."""

# mypy: ignore-errors
import triton
import triton.language as tl

LOG2_E, LN_2 = tl.constexpr(1.4426950408889634), tl.constexpr(0.6931471805599453)


@triton.jit
def _logits(
    at_a, at_b, D, EVEN: tl.constexpr, WIDE: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr
):
    """A tile of a bᵀ, summed in float32. WIDE is for Triton's interpreter, which multiplies bfloat16 as integers."""
    columns = tl.arange(0, BK)
    product = tl.zeros((BM, BN), tl.float32)
    for start in range(0, D, BK):
        if EVEN:
            x = tl.load(at_a + start)
            y = tl.load(at_b + start)
        else:
            x = tl.load(at_a + start, mask=columns[None, :] < D - start, other=0.0)
            y = tl.load(at_b + start, mask=columns[None, :] < D - start, other=0.0)
        if WIDE:
            x, y = x.to(tl.float32), y.to(tl.float32)
        product = tl.dot(x, tl.trans(y), product)
    return product


@triton.jit
def _rows_of(matrix, rows, count, D, BK: tl.constexpr):
    """Pointers to the first BK columns of these rows; row 0 stands in for rows beyond the last."""
    kept = tl.where(rows < count, rows, 0)
    return matrix + kept[:, None] * D + tl.arange(0, BK)[None, :]


@triton.jit
def _exponential_tiles(
    at_a,
    b,
    out,
    left_out,
    rows,
    shift,
    first,
    last,
    n,
    V,
    D,
    out_stride,
    HAS_OUT: tl.constexpr,
    LEAVES_OUT: tl.constexpr,
    EVEN: tl.constexpr,
    WIDE: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
):
    """Row sums of 2^(logits − shift) over the column tiles first … last − 1, and the largest logits, in base 2."""
    total = tl.zeros((BM,), tl.float32)
    highest = tl.full((BM,), float("-inf"), tl.float32)
    for tile in range(first, last):
        columns = tile * BN + tl.arange(0, BN)
        inside = columns < V
        # Columns beyond the last repeat the first one, which does not change the largest logit.
        logits = _logits(at_a, _rows_of(b, columns, V, D, BK), D, EVEN, WIDE, BM, BN, BK)
        highest = tl.maximum(highest, tl.max(logits, 1))
        exponentials = tl.where(inside[None, :], tl.exp2(logits * LOG2_E - shift[:, None]), 0.0)
        total += tl.sum(exponentials, 1)
        if HAS_OUT:
            if LEAVES_OUT:
                kept = tl.load(left_out + columns, mask=inside, other=0) == 0
                exponentials = tl.where(kept[None, :], exponentials, 0.0)
            target = out + rows.to(tl.int64)[:, None] * out_stride + columns[None, :]
            tl.store(target, exponentials.to(out.dtype.element_ty), mask=(rows < n)[:, None] & inside[None, :])
    return total, highest * LOG2_E


@triton.jit
def exponentials_kernel(
    a,  # [n, D]
    b,  # [V, D]
    out,  # out [n, V], or anything where HAS_OUT is false
    left_out,  # int8 [V], if LEAVES_OUT: 1 for the columns that are 0 in ``out``; their row sums are not changed
    shifts,  # out [n]: what is subtracted from the logits of each row, in base 2
    totals,  # out [SPLIT, n]: sums of the exponentials of each row, over one part of the columns each
    highest,  # out [SPLIT, n]: the largest logit of each part, in base 2
    n,
    V,
    D,
    out_stride,
    SPLIT: tl.constexpr,
    HAS_OUT: tl.constexpr,
    LEAVES_OUT: tl.constexpr,
    EVEN: tl.constexpr,
    WIDE: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    FIRST: tl.constexpr,
):
    """Exponentials relative to the maximum of the first FIRST logits of a row, which all its programs compute alike."""
    split = tl.program_id(0) % SPLIT
    rows = (tl.program_id(0) // SPLIT) * BM + tl.arange(0, BM)
    at_a = _rows_of(a, rows, n, D, BK)
    at_b = _rows_of(b, tl.arange(0, FIRST), V, D, BK)
    shift = tl.max(_logits(at_a, at_b, D, EVEN, WIDE, BM, FIRST, BK), 1) * LOG2_E
    tiles = tl.cdiv(V, BN)
    each = tl.cdiv(tiles, SPLIT)
    total, largest = _exponential_tiles(
        at_a, b, out, left_out, rows, shift, split * each, tl.minimum((split + 1) * each, tiles), n, V, D, out_stride,
        HAS_OUT, LEAVES_OUT, EVEN, WIDE, BM, BN, BK,
    )  # fmt: skip
    tl.store(shifts + rows, shift, mask=rows < n)
    tl.store(totals + split * n + rows, total, mask=rows < n)
    tl.store(highest + split * n + rows, largest, mask=rows < n)


@triton.jit
def _total(totals, rows, n, SPLIT: tl.constexpr, SIZE: tl.constexpr):
    """The sums of rows, adding their parts in order."""
    total = tl.zeros((SIZE,), tl.float32)
    for split in range(SPLIT):
        total += tl.load(totals + split * n + rows, mask=rows < n, other=0.0)
    return total


@triton.jit
def _highest(highest, rows, n, SPLIT: tl.constexpr, SIZE: tl.constexpr):
    """The largest logit of each row."""
    largest = tl.full((SIZE,), float("-inf"), tl.float32)
    for split in range(SPLIT):
        largest = tl.maximum(largest, tl.load(highest + split * n + rows, mask=rows < n, other=0.0))
    return largest


@triton.jit
def _has_overflowed(total, largest):
    """Whether the sum of a row is too large because its first logits are far below others. True for NaN, too."""
    return (total < largest) == 0


@triton.jit
def list_overflowed_rows_kernel(totals, overflowed, count, n, largest, SPLIT: tl.constexpr, SIZE: tl.constexpr):
    """Write the rows to be recomputed to the front of ``overflowed`` [n], in order, and their number to ``count``."""
    written = tl.zeros((), tl.int32)
    for start in range(0, n, SIZE):
        rows = start + tl.arange(0, SIZE)
        here = (_has_overflowed(_total(totals, rows, n, SPLIT, SIZE), largest) & (rows < n)).to(tl.int32)
        tl.store(overflowed + written + tl.cumsum(here, 0) - here, rows, mask=here > 0)
        written += tl.sum(here, 0)
    tl.store(count, written)


@triton.jit
def recompute_rows_kernel(
    a,
    b,
    out,
    left_out,
    highest,
    overflowed,
    count,
    recomputed,  # out [PARTS, n]: sums of these rows' exponentials, over one part of the columns each
    n,
    V,
    D,
    out_stride,
    SPLIT: tl.constexpr,
    PARTS: tl.constexpr,
    HAS_OUT: tl.constexpr,
    LEAVES_OUT: tl.constexpr,
    EVEN: tl.constexpr,
    WIDE: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
):
    """Recompute the overflowed rows relative to their largest logits. Programs without such a row return at once."""
    part = tl.program_id(0) % PARTS
    first = (tl.program_id(0) // PARTS) * BM
    last = tl.load(count)
    if first < last:
        places = first + tl.arange(0, BM)
        rows = tl.load(overflowed + places, mask=places < last, other=n)
        tiles = tl.cdiv(V, BN)
        each = tl.cdiv(tiles, PARTS)
        total, _ = _exponential_tiles(
            _rows_of(a, rows, n, D, BK), b, out, left_out, rows, _highest(highest, rows, n, SPLIT, BM), part * each,
            tl.minimum((part + 1) * each, tiles), n, V, D, out_stride, HAS_OUT, LEAVES_OUT, EVEN, WIDE, BM, BN, BK,
        )  # fmt: skip
        tl.store(recomputed + part * n + rows, total, mask=rows < n)


@triton.jit
def finish_rows_kernel(
    shifts,
    totals,
    highest,
    recomputed,
    log_sums,  # out [n]
    factors,  # out [n]: 1 / Σ, which normalises the exponentials
    n,
    largest,
    SPLIT: tl.constexpr,
    PARTS: tl.constexpr,
    SIZE: tl.constexpr,
):
    """The log-sum-exp and the factor of each row."""
    rows = tl.program_id(0) * SIZE + tl.arange(0, SIZE)
    shift = tl.load(shifts + rows, mask=rows < n, other=0.0)
    total = tl.where(rows < n, _total(totals, rows, n, SPLIT, SIZE), 1.0)
    overflowed = _has_overflowed(total, largest)
    if tl.max(overflowed.to(tl.int32), 0) > 0:
        total = tl.where(overflowed, _total(recomputed, rows, n, PARTS, SIZE), total)
        shift = tl.where(overflowed, _highest(highest, rows, n, SPLIT, SIZE), shift)
    tl.store(log_sums + rows, (shift + tl.log2(total)) * LN_2, mask=rows < n)
    tl.store(factors + rows, 1.0 / total, mask=rows < n)
