"""Triton kernels of the inside algorithm: split sums, their derivatives, and span marginals. README.md derives them.

A row of the chart holds probabilities that are scaled by a power of two: probability = stored value · 2^exponent. The
tensor ``exponent`` [rows] holds the exponent of each row. ``reach`` [rows] adds to it the exponent of the largest
stored β of the row. The rules of a parent sum to 1, so no η or ζ of the row exceeds 2^reach, and the scale of a product
is known before it is computed. DEAD is the exponent of a row of zeros.
"""

# mypy: ignore-errors
import triton
import triton.language as tl

from simplepcfg.ops.inside.span_rows import (
    _children,
    _parent_and_sibling,
    _parents,
    _sentence,
    _start_and_length,
)

# Arguments that change with the width are in `do_not_specialize`, so that kernels are not recompiled for each width.
DEAD = tl.constexpr(-1.0e9)
ALIVE = tl.constexpr(-5.0e8)


@triton.jit
def _exponent(x, WORK: tl.constexpr):
    """The exponent that frexp returns: floor(log2(x)) + 1 for positive x, and DEAD for 0."""
    safe = tl.where(x > 0, x, 1.0)
    return tl.where(x > 0, tl.floor(tl.log2(safe.to(WORK))) + 1.0, DEAD)


@triton.jit
def _halves(x):
    """2^x as two factors, each of which is in range even if 2^x is not."""
    half = tl.floor(x * 0.5)
    return tl.exp2(half), tl.exp2(x - half)


@triton.jit
def _parent_scale(below, above):
    """The exponent that scales α · sibling to a derivative: that of both children minus that of the parent."""
    return tl.where(above > ALIVE, below - above, DEAD)


@triton.jit
def _parent_product(outside, beside, scale, HEAD: tl.constexpr):
    """α · sibling · 2^scale, for a scale of at most HEAD.

    A positive scale is applied to the sibling, which can be multiplied by 2^HEAD without overflow. A negative scale is
    divided between both factors.
    """
    scale = tl.minimum(scale, HEAD)
    middle = tl.where(scale > 0, scale, tl.floor(scale * 0.5))
    return (outside * tl.exp2(scale - middle)) * (beside * tl.exp2(middle))


@triton.jit
def _gather_wide_range(
    chart, alpha, exponent, bonus, first_rows, offset, b, width, first, last, own, side, columns, batch, n, N,
    EQUAL: tl.constexpr, HAS_BONUS: tl.constexpr, WORK: tl.constexpr, CHUNK: tl.constexpr,
):  # fmt: skip
    """Sum the derivatives from the parents whose other child has width ``first`` to ``last``, for scales of any size.

    A scale above HEAD occurs for a parent whose children have their largest values at different states, which the
    forward pass summed in logs or nearly so. Neither α nor the sibling can be multiplied by 2^scale then. The sibling
    is therefore divided by its own power of two first, and α is multiplied by 2^(scale + that exponent) in two halves.
    The intermediate result lies between α and the final product, both of which are in range.
    """
    MOST: tl.constexpr = 126.0 if WORK == tl.float32 else 1000.0  # noqa: SIM300 (a type, in capitals)
    inside = columns < N
    gathered = tl.zeros((CHUNK,), WORK)
    for d in range(first, last + 1):
        parent, sibling = _parent_and_sibling(first_rows, offset, b, width, d, True, side, batch, n, EQUAL)
        below = own + tl.load(exponent + sibling)
        if HAS_BONUS:
            below += tl.load(bonus + parent).to(WORK)
        outside = tl.load(alpha + parent * N + columns, mask=inside, other=0.0).to(WORK)
        beside = tl.load(chart + sibling * 2 * N + (1 - side) * N + columns, mask=inside, other=0.0).to(WORK)
        peak = tl.maximum(tl.floor(tl.log2(tl.where(beside > 0, beside, 1.0))), -MOST)
        both = _parent_scale(below, tl.load(exponent + parent)) + peak
        half = tl.floor(both * 0.5)
        outside *= tl.exp2(tl.minimum(half, MOST))
        outside *= tl.exp2(tl.minimum(both - half, MOST))
        gathered += outside * (beside * tl.exp2(-peak))
    return gathered


@triton.jit
def _store_child_gradient(
    chart, by_child, gradient, row, side, columns, N, CHILD_LIMIT: tl.constexpr, WORK: tl.constexpr
):
    """Store the derivative of log Z with respect to η (side 0) or ζ (side 1) of a span, at ``columns``.

    It is 0 for a state whose stored value is 0. For other states it is a marginal divided by the value, and so bounded.
    """
    target = row * 2 * N + side * N + columns
    mine = tl.load(chart + target, mask=columns < N, other=0.0).to(WORK)
    gradient = tl.where(mine > 0, tl.minimum(tl.maximum(gradient, -CHILD_LIMIT), CHILD_LIMIT), 0.0)
    tl.store(by_child + target, gradient.to(by_child.dtype.element_ty), mask=columns < N)


@triton.jit
def _split_sum_in_log_space(
    chart, beta, exponent, reach, first_rows, row, offset, b, width, batch, n, bonus, N,
    EQUAL: tl.constexpr, PEAK: tl.constexpr, WORK: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """β of one span in log space, in two passes over its splits, for a row whose products of η and ζ underflow.

    Logs are in float64, because logs in the hundreds have too few fractional digits in float32.
    """
    largest = tl.full((BLOCK,), float("-inf"), tl.float64)
    for start in range(0, N, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        inside = columns < N
        for k in range(1, width):
            left, right = _children(first_rows, offset, b, width, k, True, batch, n, EQUAL)
            scale = (tl.load(exponent + left) + tl.load(exponent + right)).to(tl.float64)
            eta = tl.load(chart + left * 2 * N + columns, mask=inside, other=0.0).to(WORK).to(tl.float64)
            zeta = tl.load(chart + right * 2 * N + N + columns, mask=inside, other=0.0).to(WORK).to(tl.float64)
            both = (eta > 0) & (zeta > 0)
            logs = tl.log2(tl.where(both, eta, 1.0)) + tl.log2(tl.where(both, zeta, 1.0)) + scale
            largest = tl.maximum(largest, tl.where(both, logs, float("-inf")))
    top = tl.max(largest, 0)
    alive = top > ALIVE
    place = tl.where(alive, tl.ceil(top) - PEAK, 0.0)
    peak = tl.zeros((BLOCK,), tl.float64)
    for start in range(0, N, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        inside = columns < N
        total = tl.zeros((BLOCK,), tl.float64)
        for k in range(1, width):
            left, right = _children(first_rows, offset, b, width, k, True, batch, n, EQUAL)
            scale = (tl.load(exponent + left) + tl.load(exponent + right)).to(tl.float64)
            eta = tl.load(chart + left * 2 * N + columns, mask=inside, other=0.0).to(WORK).to(tl.float64)
            zeta = tl.load(chart + right * 2 * N + N + columns, mask=inside, other=0.0).to(WORK).to(tl.float64)
            both = (eta > 0) & (zeta > 0)
            logs = tl.log2(tl.where(both, eta, 1.0)) + tl.log2(tl.where(both, zeta, 1.0)) + scale
            total += tl.where(both, tl.exp2(logs - place), 0.0)
        total *= tl.exp2(bonus - tl.floor(bonus))
        peak = tl.maximum(peak, total)
        tl.store(beta + row * N + columns, total.to(WORK).to(beta.dtype.element_ty), mask=inside)
    alive = tl.where(bonus > ALIVE, top, DEAD) > ALIVE
    own = tl.where(alive, place + tl.floor(bonus), DEAD)
    tl.store(exponent + row, own.to(WORK))
    tl.store(reach + row, tl.where(alive, own + _exponent(tl.max(peak, 0), tl.float64), DEAD).to(WORK))


@triton.jit(do_not_specialize=["width", "batch", "n", "first_row"])
def inside_split_fwd_kernel(
    chart,  # [rows, 2N]: η then ζ
    beta,  # out [rows, N]
    exponent,  # [rows], this width's are written
    reach,  # [rows], this width's are written where ONE_BLOCK
    peaks,  # out [spans, blocks]: the largest β of each block, for ``finish_rows_fwd_kernel``
    bonus,  # [rows], if HAS_BONUS: log2 of the weight of the span
    partial,  # [spans, N], if HAS_PARTIAL: sums over all splits but the first and the last
    partial_place,  # [spans], if HAS_PARTIAL: the exponents of these sums
    first_rows,
    sentence_of_row,
    width,
    batch,
    n,
    first_row,
    N,
    EQUAL: tl.constexpr,
    PADDED: tl.constexpr,  # many rows may be dead, because sentences are padded: their splits are not loaded
    HAS_BONUS: tl.constexpr,
    HAS_PARTIAL: tl.constexpr,
    PEAK: tl.constexpr,
    SAFE: tl.constexpr,
    WORK: tl.constexpr,
    ONE_BLOCK: tl.constexpr,
    SPLITS: tl.constexpr,  # power of two, at least width - 1
    BLOCK_K: tl.constexpr,
    UNROLL: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """β = Σ over splits of η ⊙ ζ for one span and one block of states."""
    b = _sentence(sentence_of_row, first_row, tl.program_id(0), True, width, n, EQUAL)
    offset = tl.program_id(0).to(tl.int64)
    block = tl.program_id(1)
    row = first_row + offset

    every = 1 + tl.arange(0, SPLITS)
    before, after = _children(first_rows, offset, b, width, every, every < width, batch, n, EQUAL)
    places = tl.load(reach + before, mask=every < width, other=DEAD)
    places += tl.load(reach + after, mask=every < width, other=DEAD)
    if HAS_PARTIAL:
        places = tl.where((every == 1) | (every == width - 1), places, DEAD)
    largest = tl.max(places, 0)
    if HAS_PARTIAL:
        before_place = tl.load(partial_place + offset)
        largest = tl.maximum(largest, before_place + PEAK)
    alive = largest > ALIVE
    place = tl.where(alive, largest - PEAK, 0.0)  # every product is at most 2^PEAK

    columns = block * BLOCK + tl.arange(0, BLOCK)
    inside = columns < N
    total = tl.zeros((BLOCK_K, BLOCK), WORK)
    last = width
    if HAS_PARTIAL:
        last = 2
    if PADDED:
        last = tl.where(alive, last, 1)
    for start in tl.range(1, last, BLOCK_K, loop_unroll_factor=UNROLL):
        k = start + tl.arange(0, BLOCK_K)
        if HAS_PARTIAL:  # the first and the last split, which need the preceding width
            k = tl.where(k == 1, 1, tl.where(k == 2, width - 1, width))
        some = k < width
        left, right = _children(first_rows, offset, b, width, k, some, batch, n, EQUAL)
        scale = tl.load(exponent + left, mask=some, other=DEAD) + tl.load(exponent + right, mask=some, other=DEAD)
        # The factor is at most 2^PEAK: the largest β of a row is at least 1, so reach is not below exponent.
        first_half, second_half = _halves(tl.where(scale > ALIVE, scale - place, DEAD))
        mask = some[:, None] & inside[None, :]
        eta = tl.load(chart + left[:, None] * 2 * N + columns[None, :], mask=mask, other=0.0).to(WORK)
        zeta = tl.load(chart + right[:, None] * 2 * N + N + columns[None, :], mask=mask, other=0.0).to(WORK)
        total += (eta * first_half[:, None]) * (zeta * second_half[:, None])
    sums = tl.sum(total, 0)
    if HAS_PARTIAL:
        factor = tl.where(before_place > ALIVE, tl.exp2(before_place - place), 0.0)
        sums += tl.load(partial + offset * N + columns, mask=inside, other=0.0) * factor
    weight = tl.zeros((), WORK)
    if HAS_BONUS:  # the integer part is added to the exponent, and the fraction multiplies the values
        weight = tl.load(bonus + row).to(WORK)
        sums *= tl.exp2(weight - tl.floor(weight))
    peak = tl.max(sums, 0)
    own = tl.where(alive, tl.where(weight > ALIVE, place + tl.floor(weight), DEAD), DEAD).to(WORK)
    tl.store(beta + row * N + columns, sums.to(beta.dtype.element_ty), mask=inside)
    if ONE_BLOCK:
        if tl.where(own > ALIVE, peak, SAFE) < SAFE:
            _split_sum_in_log_space(
                chart, beta, exponent, reach, first_rows, row, offset, b, width, batch, n, weight, N,
                EQUAL, PEAK, WORK, BLOCK,
            )  # fmt: skip
        else:
            tl.store(exponent + row, own)
            tl.store(reach + row, tl.where(own > ALIVE, own + _exponent(peak, WORK), DEAD).to(WORK))
    else:
        tl.store(peaks + offset * tl.num_programs(1) + block, peak)
        if block == 0:
            tl.store(exponent + row, own)


@triton.jit(do_not_specialize=["width", "batch", "n", "first_row", "blocks"])
def finish_rows_fwd_kernel(
    chart, beta, exponent, reach, peaks, bonus, first_rows, sentence_of_row, width, batch, n, first_row, N, blocks,
    EQUAL: tl.constexpr, HAS_BONUS: tl.constexpr, PEAK: tl.constexpr, SAFE: tl.constexpr, WORK: tl.constexpr,
    BLOCKS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Compute the reach of each row from the maxima of its blocks, and recompute rows that underflowed in log space."""
    offset = tl.program_id(0).to(tl.int64)
    row = first_row + offset
    index = tl.arange(0, BLOCKS)
    peak = tl.max(tl.load(peaks + offset * blocks + index, mask=index < blocks, other=0.0), 0)
    own = tl.load(exponent + row)
    if tl.where(own > ALIVE, peak, SAFE) < SAFE:
        weight = tl.zeros((), WORK)
        if HAS_BONUS:
            weight = tl.load(bonus + row).to(WORK)
        b = _sentence(sentence_of_row, first_row, tl.program_id(0), True, width, n, EQUAL)
        _split_sum_in_log_space(
            chart, beta, exponent, reach, first_rows, row, offset, b, width, batch, n, weight, N,
            EQUAL, PEAK, WORK, BLOCK,
        )  # fmt: skip
    else:
        tl.store(reach + row, tl.where(own > ALIVE, own + _exponent(peak, WORK), DEAD).to(WORK))


@triton.jit(do_not_specialize=["width", "batch", "n", "first_row"])
def inside_split_bwd_kernel(
    chart,  # [rows, 2N]
    alpha,  # [rows, N]: d log Z / d β of wider spans
    by_child,  # out [rows, 2N]: d log Z / d η and d log Z / d ζ of this width
    exponent,
    bonus,
    partial,  # [spans, 2N], if HAS_PARTIAL: sums over all parents but the narrowest
    first_rows,
    sentence_of_row,
    words_before,
    length_of_sentence,
    width,
    batch,
    n,
    first_row,
    N,
    EQUAL: tl.constexpr,
    PADDED: tl.constexpr,
    HAS_BONUS: tl.constexpr,
    HAS_PARTIAL: tl.constexpr,
    WORK: tl.constexpr,
    CHILD_LIMIT: tl.constexpr,
    HEAD: tl.constexpr,
    BLOCK_K: tl.constexpr,
    UNROLL: tl.constexpr,
    CHUNK: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """The derivatives of η and ζ of each span: sums over the parents of which it is the left or the right child."""
    b = _sentence(sentence_of_row, first_row, tl.program_id(0), True, width, n, EQUAL)
    offset = tl.program_id(0).to(tl.int64)
    side = tl.program_id(2)  # 0: as left child, by η; 1: as right child, by ζ
    row = first_row + offset
    start_word, length = _start_and_length(words_before, length_of_sentence, offset, b, width, n, EQUAL, PADDED)
    parents = _parents(start_word, width, length, side, PADDED)
    own = tl.load(exponent + row)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = columns < N
    total = tl.zeros((BLOCK_K, BLOCK), WORK)
    nearest = parents
    if HAS_PARTIAL:
        nearest = tl.minimum(parents, 1)
    furthest = tl.full((BLOCK_K,), DEAD, WORK)
    for start in tl.range(1, nearest + 1, BLOCK_K, loop_unroll_factor=UNROLL):
        d = start + tl.arange(0, BLOCK_K)  # the sibling's width
        some = d <= nearest
        parent, sibling = _parent_and_sibling(first_rows, offset, b, width, d, some, side, batch, n, EQUAL)
        above = tl.load(exponent + parent, mask=some, other=DEAD)
        below = own + tl.load(exponent + sibling, mask=some, other=DEAD)
        if HAS_BONUS:
            below += tl.load(bonus + parent, mask=some, other=0.0).to(WORK)
        scale = _parent_scale(below, above)
        furthest = tl.maximum(furthest, scale)
        mask = some[:, None] & inside[None, :]
        outside = tl.load(alpha + parent[:, None] * N + columns[None, :], mask=mask, other=0.0).to(WORK)
        beside = tl.load(chart + sibling[:, None] * 2 * N + (1 - side) * N + columns[None, :], mask=mask, other=0.0).to(
            WORK
        )
        total += _parent_product(outside, beside, scale[:, None], HEAD)
    rest = tl.where(parents > 1, N, 0)
    if tl.max(furthest, 0) > HEAD:  # rare; processed in small chunks, so that it needs few registers
        for done in range(0, BLOCK, CHUNK):
            part = tl.program_id(1) * BLOCK + done + tl.arange(0, CHUNK)
            gathered = _gather_wide_range(
                chart, alpha, exponent, bonus, first_rows, offset, b, width, 1, nearest.to(tl.int32), own, side,
                part, batch, n, N, EQUAL, HAS_BONUS, WORK, CHUNK,
            )  # fmt: skip
            if HAS_PARTIAL:
                gathered += tl.load(partial + offset * 2 * N + side * N + part, mask=part < rest, other=0.0)
            _store_child_gradient(chart, by_child, gathered, row, side, part, N, CHILD_LIMIT, WORK)
    else:
        gathered = tl.sum(total, 0)
        if HAS_PARTIAL:
            gathered += tl.load(partial + offset * 2 * N + side * N + columns, mask=columns < rest, other=0.0)
        _store_child_gradient(chart, by_child, gathered, row, side, columns, N, CHILD_LIMIT, WORK)


@triton.jit(do_not_specialize=["first_row"])
def span_marginal_kernel(
    beta, alpha, marginal, first_row, N, WORK: tl.constexpr, LIMIT: tl.constexpr, BLOCK: tl.constexpr
):
    """The marginal of each span: Σ α β over the states whose stored β is not 0."""
    row = first_row + tl.program_id(0).to(tl.int64)
    total = tl.zeros((BLOCK,), WORK)
    for start in range(0, N, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        inside = columns < N
        value = tl.load(beta + row * N + columns, mask=inside, other=0.0).to(WORK)
        outside = tl.load(alpha + row * N + columns, mask=inside, other=0.0).to(WORK)
        total += tl.where(value > 0, value * tl.minimum(tl.maximum(outside, -LIMIT), LIMIT), 0.0)
    tl.store(marginal + row, tl.sum(total, 0))
