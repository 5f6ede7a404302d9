"""Triton kernels of FlashInside in log space, as the paper describes it: the reference that benchmarks compare with.

Spans of one width lie together: row of width w, sentence b, start i = first(w) + b (n − w + 1) + i.
"""

# mypy: ignore-errors
import triton
import triton.language as tl

NEG_INF = tl.constexpr(float("-inf"))


@triton.jit
def _row(width, b, i, B, n):
    """The row of the span (i, i + width) of sentence b; width may be a block of widths."""
    before = B * ((width - 1) * (n + 1) - (width - 1) * width // 2)
    return (before + b * (n - width + 1) + i).to(tl.int64)


@triton.jit(do_not_specialize=["width"])
def merge_fwd_kernel(
    log_eta,  # [rows, N]
    log_zeta,  # [rows, N]
    log_beta,  # out [rows, N]
    maxima,  # out [spans of this width, blocks]: the largest log β of each block
    width,
    B,
    n,
    N,
    WORK: tl.constexpr,
    BLOCK_K: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """log β = log-sum-exp over splits of log η + log ζ, for one span and one block of states."""
    span = tl.program_id(0)
    b, i = span // (n - width + 1), span % (n - width + 1)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = columns < N
    top = tl.full((BLOCK,), NEG_INF, WORK)
    total = tl.zeros((BLOCK,), WORK)
    for start in range(1, width, BLOCK_K):
        k = start + tl.arange(0, BLOCK_K)
        mask = (k < width)[:, None] & inside[None, :]
        left, right = _row(k, b, i, B, n), _row(width - k, b, i + k, B, n)
        eta = tl.load(log_eta + left[:, None] * N + columns[None, :], mask=mask, other=NEG_INF)
        zeta = tl.load(log_zeta + right[:, None] * N + columns[None, :], mask=mask, other=NEG_INF)
        both = eta + zeta
        higher = tl.maximum(top, tl.max(both, 0))
        place = tl.where(higher > NEG_INF, higher, 0.0)
        total = total * tl.exp(top - place) + tl.sum(tl.exp(both - place[None, :]), 0)
        top = higher
    log_sum = tl.where(total > 0, top + tl.log(tl.where(total > 0, total, 1.0)), NEG_INF)
    tl.store(log_beta + _row(width, b, i, B, n) * N + columns, log_sum, mask=inside)
    tl.store(maxima + span * tl.num_programs(1) + tl.program_id(1), tl.max(tl.where(inside, log_sum, NEG_INF), 0))


@triton.jit(do_not_specialize=["width"])
def merge_bwd_kernel(
    log_eta,
    log_zeta,
    log_beta,
    by_log_beta,  # [spans of this width, N]
    by_log_eta,  # in and out [rows, N]
    by_log_zeta,
    width,
    B,
    n,
    N,
    BLOCK_K: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Add a span's derivative to those of its children, weighted by exp(log η + log ζ − log β) of each split.

    A child has one parent of each width on each side, so that no two programs of a launch add to the same row.
    """
    span = tl.program_id(0)
    b, i = span // (n - width + 1), span % (n - width + 1)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = columns < N
    own = tl.load(log_beta + _row(width, b, i, B, n) * N + columns, mask=inside, other=NEG_INF)
    slope = tl.load(by_log_beta + span.to(tl.int64) * N + columns, mask=inside, other=0.0)
    slope = tl.where(own > NEG_INF, slope, 0.0)
    own = tl.where(own > NEG_INF, own, 0.0)
    for start in range(1, width, BLOCK_K):
        k = start + tl.arange(0, BLOCK_K)
        mask = (k < width)[:, None] & inside[None, :]
        left, right = _row(k, b, i, B, n), _row(width - k, b, i + k, B, n)
        to_left, to_right = left[:, None] * N + columns[None, :], right[:, None] * N + columns[None, :]
        eta = tl.load(log_eta + to_left, mask=mask, other=NEG_INF)
        both = eta + tl.load(log_zeta + to_right, mask=mask, other=NEG_INF)
        share = slope[None, :] * tl.exp(both - own[None, :])
        tl.store(by_log_eta + to_left, tl.load(by_log_eta + to_left, mask=mask, other=0.0) + share, mask=mask)
        tl.store(by_log_zeta + to_right, tl.load(by_log_zeta + to_right, mask=mask, other=0.0) + share, mask=mask)


@triton.jit
def normalise_kernel(logs, maxima, values, N, BLOCK: tl.constexpr):
    """exp(log x − maximum of the row), the operand of the matrix product."""
    row = tl.program_id(0).to(tl.int64)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = columns < N
    top = tl.load(maxima + row)
    top = tl.where(top > NEG_INF, top, 0.0)
    scaled = tl.exp(tl.load(logs + row * N + columns, mask=inside, other=NEG_INF) - top)
    tl.store(values + row * N + columns, scaled, mask=inside)


@triton.jit
def log_fwd_kernel(eta, zeta, maxima, N, BLOCK: tl.constexpr):
    """Replace x by log x + the row's maximum, in place; -inf where x is 0."""
    row = tl.program_id(0).to(tl.int64)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = columns < N
    top = tl.load(maxima + row)
    top = tl.where(top > NEG_INF, top, 0.0)
    place = row * N + columns
    x = tl.load(eta + place, mask=inside, other=0.0)
    tl.store(eta + place, tl.where(x > 0, tl.log(tl.where(x > 0, x, 1.0)) + top, NEG_INF), mask=inside)
    x = tl.load(zeta + place, mask=inside, other=0.0)
    tl.store(zeta + place, tl.where(x > 0, tl.log(tl.where(x > 0, x, 1.0)) + top, NEG_INF), mask=inside)


@triton.jit
def log_bwd_kernel(log_eta, log_zeta, maxima, by_eta, by_zeta, N, BLOCK: tl.constexpr):
    """Replace derivatives with respect to logs by those with respect to matrix products, in place."""
    row = tl.program_id(0).to(tl.int64)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = columns < N
    top = tl.load(maxima + row)
    top = tl.where(top > NEG_INF, top, 0.0)
    place = row * N + columns
    x = tl.load(log_eta + place, mask=inside, other=NEG_INF)
    slope = tl.load(by_eta + place, mask=inside, other=0.0)
    derivative = slope * tl.exp(top - tl.where(x > NEG_INF, x, top))
    tl.store(by_eta + place, tl.where(x > NEG_INF, derivative, 0.0), mask=inside)
    x = tl.load(log_zeta + place, mask=inside, other=NEG_INF)
    slope = tl.load(by_zeta + place, mask=inside, other=0.0)
    derivative = slope * tl.exp(top - tl.where(x > NEG_INF, x, top))
    tl.store(by_zeta + place, tl.where(x > NEG_INF, derivative, 0.0), mask=inside)
