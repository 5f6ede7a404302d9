"""Triton kernels of powers of a matrix product: exp(a bᵀ) and its row sums, the scores themselves never stored."""

# mypy: ignore-errors
import triton
import triton.language as tl


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
def powers_kernel(
    a,  # [n, D]
    b,  # [V, D]
    out,  # out [n, V], or anything where HAS_OUT is false
    tops,  # out [n]: what a row's scores are taken relative to
    totals,  # out [SPLIT, n]: sums of a row's powers, a part of the columns each
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
    """exp(a bᵀ − top), where top is the largest of a row's first scores: all parts of a row find the same."""
    split = tl.program_id(0) % SPLIT
    rows = (tl.program_id(0) // SPLIT) * BM + tl.arange(0, BM)
    at_a = _rows_of(a, rows, n, D, BK)
    at_b = _rows_of(b, tl.arange(0, FIRST), V, D, BK)
    top = tl.max(_scores(at_a, at_b, D, EVEN, WIDE, BM, FIRST, BK), 1)
    total = tl.zeros((BM,), tl.float32)
    tiles = tl.cdiv(V, BN)
    each = tl.cdiv(tiles, SPLIT)
    for tile in range(split * each, tl.minimum((split + 1) * each, tiles)):
        columns = tile * BN + tl.arange(0, BN)
        inside = columns < V
        scores = _scores(at_a, _rows_of(b, columns, V, D, BK), D, EVEN, WIDE, BM, BN, BK)
        powers = tl.where(inside[None, :], tl.exp(scores - top[:, None]), 0.0)
        total += tl.sum(powers, 1)
        if HAS_OUT:
            target = out + rows.to(tl.int64)[:, None] * out_stride + columns[None, :]
            tl.store(target, powers.to(out.dtype.element_ty), mask=(rows < n)[:, None] & inside[None, :])
    tl.store(tops + rows, top, mask=rows < n)
    tl.store(totals + split * n + rows, total, mask=rows < n)


@triton.jit
def settle_powers_kernel(
    a,
    b,
    out,
    tops,
    totals,
    log_sums,  # out [n]
    factors,  # out [n]: 1 / Σ, which makes powers probabilities
    n,
    V,
    D,
    out_stride,
    largest,  # sums beyond are made again
    SPLIT: tl.constexpr,
    HAS_OUT: tl.constexpr,
    EVEN: tl.constexpr,
    WIDE: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
):
    """Log-sums and factors. Where the first scores lay so far below others that powers are huge, all is made again."""
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    top = tl.load(tops + rows, mask=rows < n, other=0.0)
    total = tl.zeros((BM,), tl.float32)
    for split in range(SPLIT):
        total += tl.load(totals + split * n + rows, mask=rows < n, other=1.0)
    if tl.max((total < largest).to(tl.int32) ^ 1, 0) > 0:  # NaN, too
        at_a = _rows_of(a, rows, n, D, BK)
        top = tl.full((BM,), float("-inf"), tl.float32)
        for tile in range(tl.cdiv(V, BN)):  # columns beyond the last are the first again
            at_b = _rows_of(b, tile * BN + tl.arange(0, BN), V, D, BK)
            top = tl.maximum(top, tl.max(_scores(at_a, at_b, D, EVEN, WIDE, BM, BN, BK), 1))
        total = tl.zeros((BM,), tl.float32)
        for tile in range(tl.cdiv(V, BN)):
            columns = tile * BN + tl.arange(0, BN)
            inside = columns < V
            scores = _scores(at_a, _rows_of(b, columns, V, D, BK), D, EVEN, WIDE, BM, BN, BK)
            powers = tl.where(inside[None, :], tl.exp(scores - top[:, None]), 0.0)
            total += tl.sum(powers, 1)
            if HAS_OUT:
                target = out + rows.to(tl.int64)[:, None] * out_stride + columns[None, :]
                tl.store(target, powers.to(out.dtype.element_ty), mask=(rows < n)[:, None] & inside[None, :])
    tl.store(log_sums + rows, top + tl.log(total), mask=rows < n)
    tl.store(factors + rows, 1.0 / total, mask=rows < n)
