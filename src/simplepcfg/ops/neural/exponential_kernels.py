"""Triton kernels of powers of a matrix product: exp(a bᵀ) and its row sums, the scores themselves never stored."""

# mypy: ignore-errors
import triton
import triton.language as tl

LOG2_E, LN_2 = tl.constexpr(1.4426950408889634), tl.constexpr(0.6931471805599453)


@triton.jit
def _scores(
    at_a, at_b, D, EVEN: tl.constexpr, WIDE: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr
):
    """A tile of a bᵀ, summed in float32. WIDE is for Triton's interpreter, which multiplies bfloat16 as integers."""
    columns = tl.arange(0, BK)
    found = tl.zeros((BM, BN), tl.float32)
    for start in range(0, D, BK):
        if EVEN:
            x = tl.load(at_a + start)
            y = tl.load(at_b + start)
        else:
            x = tl.load(at_a + start, mask=columns[None, :] < D - start, other=0.0)
            y = tl.load(at_b + start, mask=columns[None, :] < D - start, other=0.0)
        if WIDE:
            x, y = x.to(tl.float32), y.to(tl.float32)
        found = tl.dot(x, tl.trans(y), found)
    return found


@triton.jit
def _rows_of(matrix, rows, count, D, BK: tl.constexpr):
    """Where the first BK columns of these rows lie; of rows beyond the last, those of the first."""
    kept = tl.where(rows < count, rows, 0)
    return matrix + kept[:, None] * D + tl.arange(0, BK)[None, :]


@triton.jit
def _power_tiles(
    at_a,
    b,
    out,
    rows,
    shift,
    first,
    last,
    n,
    V,
    D,
    out_stride,
    HAS_OUT: tl.constexpr,
    EVEN: tl.constexpr,
    WIDE: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
):
    """Tiles first … last − 1 of columns of 2^(scores − shift), scores in powers of two: row sums, the largest score."""
    total = tl.zeros((BM,), tl.float32)
    highest = tl.full((BM,), float("-inf"), tl.float32)
    for tile in range(first, last):
        columns = tile * BN + tl.arange(0, BN)
        inside = columns < V
        # Columns beyond the last are the first again, which leaves the largest score what it is.
        scores = _scores(at_a, _rows_of(b, columns, V, D, BK), D, EVEN, WIDE, BM, BN, BK)
        highest = tl.maximum(highest, tl.max(scores, 1))
        powers = tl.where(inside[None, :], tl.exp2(scores * LOG2_E - shift[:, None]), 0.0)
        total += tl.sum(powers, 1)
        if HAS_OUT:
            target = out + rows.to(tl.int64)[:, None] * out_stride + columns[None, :]
            tl.store(target, powers.to(out.dtype.element_ty), mask=(rows < n)[:, None] & inside[None, :])
    return total, highest * LOG2_E


@triton.jit
def powers_kernel(
    a,  # [n, D]
    b,  # [V, D]
    out,  # out [n, V], or anything where HAS_OUT is false
    shifts,  # out [n]: what a row's scores are taken relative to, as an exponent of two
    totals,  # out [SPLIT, n]: sums of a row's powers, a part of the columns each
    highest,  # out [SPLIT, n]: the largest score of each part, likewise
    n,
    V,
    D,
    out_stride,
    SPLIT: tl.constexpr,
    HAS_OUT: tl.constexpr,
    EVEN: tl.constexpr,
    WIDE: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    FIRST: tl.constexpr,
):
    """exp(a bᵀ) relative to the largest of a row's first scores: all parts of a row find the same."""
    split = tl.program_id(0) % SPLIT
    rows = (tl.program_id(0) // SPLIT) * BM + tl.arange(0, BM)
    at_a = _rows_of(a, rows, n, D, BK)
    at_b = _rows_of(b, tl.arange(0, FIRST), V, D, BK)
    shift = tl.max(_scores(at_a, at_b, D, EVEN, WIDE, BM, FIRST, BK), 1) * LOG2_E
    tiles = tl.cdiv(V, BN)
    each = tl.cdiv(tiles, SPLIT)
    total, largest = _power_tiles(
        at_a, b, out, rows, shift, split * each, tl.minimum((split + 1) * each, tiles), n, V, D, out_stride,
        HAS_OUT, EVEN, WIDE, BM, BN, BK,
    )  # fmt: skip
    tl.store(shifts + rows, shift, mask=rows < n)
    tl.store(totals + split * n + rows, total, mask=rows < n)
    tl.store(highest + split * n + rows, largest, mask=rows < n)


@triton.jit
def _total(totals, rows, n, SPLIT: tl.constexpr, SIZE: tl.constexpr):
    """Sums of rows, of the parts in order."""
    total = tl.zeros((SIZE,), tl.float32)
    for split in range(SPLIT):
        total += tl.load(totals + split * n + rows, mask=rows < n, other=0.0)
    return total


@triton.jit
def _highest(highest, rows, n, SPLIT: tl.constexpr, SIZE: tl.constexpr):
    """The largest scores of rows."""
    found = tl.full((SIZE,), float("-inf"), tl.float32)
    for split in range(SPLIT):
        found = tl.maximum(found, tl.load(highest + split * n + rows, mask=rows < n, other=0.0))
    return found


@triton.jit
def _is_far(total, largest):
    """Whether a row's first scores lay so far below others that its powers are huge. NaN is far, too."""
    return (total < largest) == 0


@triton.jit
def far_rows_kernel(totals, far, count, n, largest, SPLIT: tl.constexpr, SIZE: tl.constexpr):
    """``far`` [n] begins with the rows that are to be made again, in order, and ``count`` says how many they are."""
    found = tl.zeros((), tl.int32)
    for start in range(0, n, SIZE):
        rows = start + tl.arange(0, SIZE)
        here = (_is_far(_total(totals, rows, n, SPLIT, SIZE), largest) & (rows < n)).to(tl.int32)
        tl.store(far + found + tl.cumsum(here, 0) - here, rows, mask=here > 0)
        found += tl.sum(here, 0)
    tl.store(count, found)


@triton.jit
def powers_again_kernel(
    a,
    b,
    out,
    highest,
    far,
    count,
    again,  # out [PARTS, n]: sums of far rows' powers, a part of the columns each
    n,
    V,
    D,
    out_stride,
    SPLIT: tl.constexpr,
    PARTS: tl.constexpr,
    HAS_OUT: tl.constexpr,
    EVEN: tl.constexpr,
    WIDE: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
):
    """Far rows once more, relative to their largest scores. Where there are none all programs leave at once."""
    part = tl.program_id(0) % PARTS
    first = (tl.program_id(0) // PARTS) * BM
    last = tl.load(count)
    if first < last:
        places = first + tl.arange(0, BM)
        rows = tl.load(far + places, mask=places < last, other=n)
        tiles = tl.cdiv(V, BN)
        each = tl.cdiv(tiles, PARTS)
        total, _ = _power_tiles(
            _rows_of(a, rows, n, D, BK), b, out, rows, _highest(highest, rows, n, SPLIT, BM), part * each,
            tl.minimum((part + 1) * each, tiles), n, V, D, out_stride, HAS_OUT, EVEN, WIDE, BM, BN, BK,
        )  # fmt: skip
        tl.store(again + part * n + rows, total, mask=rows < n)


@triton.jit
def settle_powers_kernel(
    shifts,
    totals,
    highest,
    again,
    log_sums,  # out [n]
    factors,  # out [n]: 1 / Σ, which makes powers probabilities
    n,
    largest,
    SPLIT: tl.constexpr,
    PARTS: tl.constexpr,
    SIZE: tl.constexpr,
):
    """Log-sums and factors of all rows."""
    rows = tl.program_id(0) * SIZE + tl.arange(0, SIZE)
    shift = tl.load(shifts + rows, mask=rows < n, other=0.0)
    total = tl.where(rows < n, _total(totals, rows, n, SPLIT, SIZE), 1.0)
    far = _is_far(total, largest)
    if tl.max(far.to(tl.int32), 0) > 0:
        total = tl.where(far, _total(again, rows, n, PARTS, SIZE), total)
        shift = tl.where(far, _highest(highest, rows, n, SPLIT, SIZE), shift)
    tl.store(log_sums + rows, (shift + tl.log2(total)) * LN_2, mask=rows < n)
    tl.store(factors + rows, 1.0 / total, mask=rows < n)
