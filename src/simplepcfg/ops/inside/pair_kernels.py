"""Triton kernels that sum the splits of two widths at once, so that rows which both need are read once.

β(i, i + w) and β(i, i + w + 1) share all left children but one, and neighbouring spans share right children. The two
splits of the wider span that need width w itself are added by the next kernel. The code handles two neighbouring spans,
a and b, with separate scalar variables for their rows and factors, because every warp repeats this arithmetic.
README.md counts the loads.
"""

# mypy: ignore-errors
# ruff: noqa: RET505 (a jitted function returns from both branches of a constexpr condition)
import triton
import triton.language as tl

from simplepcfg.ops.inside.kernels import (
    ALIVE,
    DEAD,
    _gather_wide_range,
    _halves,
    _parent_product,
    _parent_scale,
    _store_child_gradient,
)
from simplepcfg.ops.inside.span_rows import (
    _first_row,
    _parent_and_sibling,
    _parents,
    _sentence,
    _start_and_length,
)


@triton.jit
def _row(base, row, stride, columns, N, WORK: tl.constexpr, EVEN: tl.constexpr):
    """Load a block of states of a row, without a mask if the blocks fill the row exactly (EVEN)."""
    if EVEN:
        return tl.load(base + row * stride + columns).to(WORK)
    else:
        return tl.load(base + row * stride + columns, mask=columns < N, other=0.0).to(WORK)


@triton.jit
def _everywhere(real, columns):
    """Broadcast one condition to a block. It is added to zeros because the interpreter cannot broadcast a condition."""
    return tl.zeros_like(columns) + real.to(tl.int32) > 0


@triton.jit
def _row_if(real, base, row, stride, columns, N, WORK: tl.constexpr, EVEN: tl.constexpr):
    """Load a block of states of a row if ``real`` is true, else zeros."""
    if EVEN:
        return tl.load(base + row * stride + columns, mask=_everywhere(real, columns), other=0.0).to(WORK)
    else:
        return tl.load(base + row * stride + columns, mask=tl.where(real, columns, N) < N, other=0.0).to(WORK)


@triton.jit
def _keep(base, row, stride, columns, values, real, N, EVEN: tl.constexpr):
    """Store a block of states of a row if ``real`` is true."""
    values = values.to(base.dtype.element_ty)
    if EVEN:
        tl.store(base + row * stride + columns, values, mask=_everywhere(real, columns))
    else:
        tl.store(base + row * stride + columns, values, mask=tl.where(real, columns, N) < N)


@triton.jit
def _splits(first_rows, offset, b, width, k, mask, batch, n, EQUAL: tl.constexpr):
    """The rows of split k: the left child, the right child, and the right child of the span that is one word wider."""
    left = offset + _first_row(first_rows, k, mask, batch, n, EQUAL) + b * (width - k)
    right = offset + _first_row(first_rows, width - k, mask, batch, n, EQUAL) + b * k + k
    later = offset + _first_row(first_rows, width + 1 - k, mask, batch, n, EQUAL) + b * (k - 1) + k
    return left, right, later


@triton.jit
def _places(
    reach, first_rows, offset, b, wider, width, batch, n,
    PEAK: tl.constexpr, EQUAL: tl.constexpr, SPLITS: tl.constexpr,
):  # fmt: skip
    """The exponents of the sums of this span and of the wider one, for which no product exceeds 2^PEAK."""
    k = 1 + tl.arange(0, SPLITS)
    some = k < width
    left, right, later = _splits(first_rows, offset, b, width, k, some, batch, n, EQUAL)
    lefts = tl.load(reach + left, mask=some, other=DEAD)
    largest = tl.max(lefts + tl.load(reach + right, mask=some, other=DEAD), 0)
    inner = tl.where(wider, k, width) < width
    inner &= k > 1
    next_largest = tl.max(lefts + tl.load(reach + later, mask=inner, other=DEAD), 0)
    return tl.where(largest > ALIVE, largest - PEAK, DEAD), tl.where(next_largest > ALIVE, next_largest - PEAK, DEAD)


@triton.jit
def _factors(left, right, place):
    """2^(left + right − place) as two factors, 0 for a row of zeros. The product is at most 2^PEAK."""
    scale = left + right
    return _halves(tl.where(scale > ALIVE, scale - place, DEAD))


@triton.jit(do_not_specialize=["width", "batch", "n", "first_row", "spans"])
def inside_pair_fwd_kernel(
    chart,  # [rows, 2N]
    beta,  # out [rows, N], of this width
    partial,  # out [spans of the next width, N]: sums over all splits but the first and the last
    partial_place,  # out [spans of the next width]: their exponents
    exponent,
    reach,
    peaks,  # out [spans, blocks]
    first_rows,
    sentence_of_row,
    words_before,
    length_of_sentence,
    width,
    batch,
    n,
    first_row,
    spans,
    N,
    EQUAL: tl.constexpr,
    PADDED: tl.constexpr,
    EVEN: tl.constexpr,  # N is a multiple of BLOCK
    PEAK: tl.constexpr,
    WORK: tl.constexpr,
    SPLITS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """β of this width, and most of β of the next, for two neighbouring spans and one block of states."""
    offset_a = tl.program_id(0) * 2
    has_a = offset_a < spans  # always true, but a tensor, as has_b is
    has_b = offset_a + 1 < spans
    offset_b = tl.minimum(offset_a + 1, spans - 1)  # if the number of spans is odd, b repeats the last one
    b_a = _sentence(sentence_of_row, first_row, offset_a, True, width, n, EQUAL)
    b_b = _sentence(sentence_of_row, first_row, offset_b, True, width, n, EQUAL)
    offset_a = offset_a.to(tl.int64)
    offset_b = offset_b.to(tl.int64)
    # Spans beyond the end of a padded sentence have partial sums, too, which are 0.
    start_a, length_a = _start_and_length(words_before, length_of_sentence, offset_a, b_a, width, n, EQUAL, False)
    start_b, length_b = _start_and_length(words_before, length_of_sentence, offset_b, b_b, width, n, EQUAL, False)
    wider_a = start_a + width < length_a
    wider_b = start_b + width < length_b
    place_a, next_place_a = _places(reach, first_rows, offset_a, b_a, wider_a, width, batch, n, PEAK, EQUAL, SPLITS)
    place_b, next_place_b = _places(reach, first_rows, offset_b, b_b, wider_b, width, batch, n, PEAK, EQUAL, SPLITS)

    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    sums_a = tl.zeros((BLOCK,), WORK)
    sums_b = tl.zeros((BLOCK,), WORK)
    next_a = tl.zeros((BLOCK,), WORK)
    next_b = tl.zeros((BLOCK,), WORK)
    zetas = chart + N
    last = width
    if PADDED:
        highest = tl.maximum(tl.maximum(place_a, next_place_a), tl.maximum(place_b, next_place_b))
        last = tl.where(highest > ALIVE, width, 1)
    for k in range(1, last):
        left_a, right_a, later_a = _splits(first_rows, offset_a, b_a, width, k, True, batch, n, EQUAL)
        left_b, right_b, later_b = _splits(first_rows, offset_b, b_b, width, k, True, batch, n, EQUAL)
        # Split 1 of the wider span needs this width itself, which is not complete: load another row with factor 0.
        inner_a = tl.where(wider_a, k, 1) > 1
        inner_b = tl.where(wider_b, k, 1) > 1
        later_a = tl.where(inner_a, later_a, right_a)
        later_b = tl.where(inner_b, later_b, right_b)
        eta_a = _row(chart, left_a, 2 * N, columns, N, WORK, EVEN)
        eta_b = _row(chart, left_b, 2 * N, columns, N, WORK, EVEN)
        zeta_a = _row(zetas, right_a, 2 * N, columns, N, WORK, EVEN)
        zeta_b = _row(zetas, right_b, 2 * N, columns, N, WORK, EVEN)
        later_zeta_a = _row(zetas, later_a, 2 * N, columns, N, WORK, EVEN)
        later_zeta_b = _row(zetas, later_b, 2 * N, columns, N, WORK, EVEN)
        own_a = tl.load(exponent + left_a)
        own_b = tl.load(exponent + left_b)
        one, two = _factors(own_a, tl.load(exponent + right_a), place_a)
        sums_a += (eta_a * one) * (zeta_a * two)
        one, two = _factors(own_b, tl.load(exponent + right_b), place_b)
        sums_b += (eta_b * one) * (zeta_b * two)
        one, two = _factors(own_a, tl.where(inner_a, tl.load(exponent + later_a), DEAD), next_place_a)
        next_a += (eta_a * one) * (later_zeta_a * two)
        one, two = _factors(own_b, tl.where(inner_b, tl.load(exponent + later_b), DEAD), next_place_b)
        next_b += (eta_b * one) * (later_zeta_b * two)

    block = tl.program_id(1)
    blocks = tl.num_programs(1)
    _keep(beta, first_row + offset_a, N, columns, sums_a, has_a, N, EVEN)
    _keep(beta, first_row + offset_b, N, columns, sums_b, has_b, N, EVEN)
    tl.store(peaks + offset_a * blocks + block, tl.max(sums_a, 0))
    tl.store(peaks + offset_b * blocks + block, tl.max(sums_b, 0), mask=has_b)
    # The next width has one span fewer in each sentence.
    _keep(partial, offset_a - b_a, N, columns, next_a, wider_a, N, EVEN)
    _keep(partial, offset_b - b_b, N, columns, next_b, has_b & wider_b, N, EVEN)
    if block == 0:
        tl.store(exponent + first_row + offset_a, place_a)
        tl.store(exponent + first_row + offset_b, place_b, mask=has_b)
        tl.store(partial_place + offset_a - b_a, next_place_a, mask=wider_a)
        tl.store(partial_place + offset_b - b_b, next_place_b, mask=has_b & wider_b)


@triton.jit
def _parents_of(first_rows, offset, b, width, d, side, batch, n, EQUAL: tl.constexpr):
    """The rows of a parent, of its other child (of width d), and of the sibling of the narrower child."""
    parent, sibling = _parent_and_sibling(first_rows, offset, b, width, d, True, side, batch, n, EQUAL)
    wider = offset + _first_row(first_rows, d + 1, True, batch, n, EQUAL) + b * (width - 1 - d)
    return parent, sibling, wider + tl.where(side == 0, width - 1, -d)


@triton.jit(do_not_specialize=["width", "batch", "n", "first_row", "spans"])
def inside_pair_bwd_kernel(
    chart,  # [rows, 2N]
    alpha,  # [rows, N]
    by_child,  # out [rows, 2N], of this width
    partial,  # out [spans of the narrower width, 2N]: sums over all parents but those of this width
    exponent,
    first_rows,
    sentence_of_row,
    words_before,
    length_of_sentence,
    width,
    batch,
    n,
    first_row,
    spans,
    N,
    EQUAL: tl.constexpr,
    PADDED: tl.constexpr,
    EVEN: tl.constexpr,
    WORK: tl.constexpr,
    CHILD_LIMIT: tl.constexpr,
    HEAD: tl.constexpr,
    CHUNK: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """The derivatives of η and ζ of this width, and most of those of the narrower width: both share parents."""
    side = tl.program_id(2)
    offset_a = tl.program_id(0) * 2
    has_a = offset_a < spans  # always true, but a tensor, as has_b is
    has_b = offset_a + 1 < spans
    offset_b = tl.minimum(offset_a + 1, spans - 1)
    b_a = _sentence(sentence_of_row, first_row, offset_a, True, width, n, EQUAL)
    b_b = _sentence(sentence_of_row, first_row, offset_b, True, width, n, EQUAL)
    offset_a = offset_a.to(tl.int64)
    offset_b = offset_b.to(tl.int64)
    start_a, length_a = _start_and_length(words_before, length_of_sentence, offset_a, b_a, width, n, EQUAL, PADDED)
    start_b, length_b = _start_and_length(words_before, length_of_sentence, offset_b, b_b, width, n, EQUAL, PADDED)
    parents_a = _parents(start_a, width, length_a, side, PADDED)
    parents_b = _parents(start_b, width, length_b, side, PADDED)
    # The narrower child of the same parents has the same start (side 0) or the same end (side 1) as this span.
    below_a = offset_a + b_a + side
    below_b = offset_b + b_b + side
    narrower = _first_row(first_rows, width - 1, True, batch, n, EQUAL)
    own_a = tl.load(exponent + first_row + offset_a)
    own_b = tl.load(exponent + first_row + offset_b)
    own_below_a = tl.load(exponent + narrower + below_a)
    own_below_b = tl.load(exponent + narrower + below_b)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    siblings = chart + (1 - side) * N
    found_a = tl.zeros((BLOCK,), WORK)
    found_b = tl.zeros((BLOCK,), WORK)
    found_below_a = tl.zeros((BLOCK,), WORK)
    found_below_b = tl.zeros((BLOCK,), WORK)
    furthest = tl.full((), DEAD, WORK)
    for d in range(1, tl.maximum(parents_a, parents_b).to(tl.int32) + 1):
        parent_a, sibling_a, wider_a = _parents_of(first_rows, offset_a, b_a, width, d, side, batch, n, EQUAL)
        parent_b, sibling_b, wider_b = _parents_of(first_rows, offset_b, b_b, width, d, side, batch, n, EQUAL)
        some_a = d <= parents_a
        some_b = d <= parents_b
        alpha_a = _row_if(some_a, alpha, parent_a, N, columns, N, WORK, EVEN)
        alpha_b = _row_if(some_b, alpha, parent_b, N, columns, N, WORK, EVEN)
        beside_a = _row_if(some_a, siblings, sibling_a, 2 * N, columns, N, WORK, EVEN)
        beside_b = _row_if(some_b, siblings, sibling_b, 2 * N, columns, N, WORK, EVEN)
        beyond_a = _row_if(some_a, siblings, wider_a, 2 * N, columns, N, WORK, EVEN)
        beyond_b = _row_if(some_b, siblings, wider_b, 2 * N, columns, N, WORK, EVEN)
        above_a = tl.load(exponent + parent_a, mask=some_a, other=DEAD)
        above_b = tl.load(exponent + parent_b, mask=some_b, other=DEAD)
        scale_a = _parent_scale(own_a + tl.load(exponent + sibling_a, mask=some_a, other=DEAD), above_a)
        scale_b = _parent_scale(own_b + tl.load(exponent + sibling_b, mask=some_b, other=DEAD), above_b)
        below_scale_a = _parent_scale(own_below_a + tl.load(exponent + wider_a, mask=some_a, other=DEAD), above_a)
        below_scale_b = _parent_scale(own_below_b + tl.load(exponent + wider_b, mask=some_b, other=DEAD), above_b)
        furthest = tl.maximum(furthest, tl.maximum(scale_a, scale_b))
        furthest = tl.maximum(furthest, tl.maximum(below_scale_a, below_scale_b))
        found_a += _parent_product(alpha_a, beside_a, scale_a, HEAD)
        found_b += _parent_product(alpha_b, beside_b, scale_b, HEAD)
        found_below_a += _parent_product(alpha_a, beyond_a, below_scale_a, HEAD)
        found_below_b += _parent_product(alpha_b, beyond_b, below_scale_b, HEAD)

    row_a = first_row + offset_a
    row_b = first_row + offset_b
    if furthest > HEAD:  # rare, as in the plain kernel
        last_a = parents_a.to(tl.int32)
        last_b = parents_b.to(tl.int32)
        for done in range(0, BLOCK, CHUNK):
            part = tl.program_id(1) * BLOCK + done + tl.arange(0, CHUNK)
            gathered = _gather_wide_range(
                chart, alpha, exponent, exponent, first_rows, offset_a, b_a, width, 1, last_a, own_a, side, part,
                batch, n, N, EQUAL, False, WORK, CHUNK,
            )  # fmt: skip
            _store_child_gradient(chart, by_child, gathered, row_a, side, part, N, CHILD_LIMIT, WORK)
            gathered = _gather_wide_range(
                chart, alpha, exponent, exponent, first_rows, offset_b, b_b, width, 1, last_b, own_b, side, part,
                batch, n, N, EQUAL, False, WORK, CHUNK,
            )  # fmt: skip
            _store_child_gradient(chart, by_child, gathered, row_b, side, part, N, CHILD_LIMIT, WORK)
            # The narrowest parent of the narrower child has this width; its contribution is added by the next kernel.
            gathered = _gather_wide_range(
                chart, alpha, exponent, exponent, first_rows, below_a, b_a, width - 1, 2, last_a + 1, own_below_a, side,
                part, batch, n, N, EQUAL, False, WORK, CHUNK,
            )  # fmt: skip
            tl.store(partial + below_a * 2 * N + side * N + part, gathered, mask=part < N)
            gathered = _gather_wide_range(
                chart, alpha, exponent, exponent, first_rows, below_b, b_b, width - 1, 2, last_b + 1, own_below_b, side,
                part, batch, n, N, EQUAL, False, WORK, CHUNK,
            )  # fmt: skip
            tl.store(partial + below_b * 2 * N + side * N + part, gathered, mask=part < N)
    else:
        mine = _row(chart + side * N, row_a, 2 * N, columns, N, WORK, EVEN)
        found_a = tl.where(mine > 0, tl.minimum(tl.maximum(found_a, -CHILD_LIMIT), CHILD_LIMIT), 0.0)
        _keep(by_child + side * N, row_a, 2 * N, columns, found_a, has_a, N, EVEN)
        mine = _row(chart + side * N, row_b, 2 * N, columns, N, WORK, EVEN)
        found_b = tl.where(mine > 0, tl.minimum(tl.maximum(found_b, -CHILD_LIMIT), CHILD_LIMIT), 0.0)
        _keep(by_child + side * N, row_b, 2 * N, columns, found_b, has_b, N, EVEN)
        _keep(partial + side * N, below_a, 2 * N, columns, found_below_a, has_a, N, EVEN)
        _keep(partial + side * N, below_b, 2 * N, columns, found_below_b, has_b, N, EVEN)
