"""Triton kernels of the inside algorithm: split sums, outside sums, row maxima. README.md derives them.

Rows are probabilities times 2^exponent. ``exponent`` [rows] holds each row's own; ``reach`` [rows, 2] adds the exponent
of the largest stored η and ζ, so that a product's place is known before it is formed. DEAD marks rows of zeros.
"""

# mypy: ignore-errors
import triton
import triton.language as tl

DEAD = tl.constexpr(-1.0e9)
ALIVE = tl.constexpr(-5.0e8)
MOST = tl.constexpr(252.0)  # two halves of 2^126: no row that can be told from 0 needs more


@triton.jit
def _exponent(x, WORK: tl.constexpr):
    """floor(log2(x)) + 1 of positive x, DEAD of 0: like frexp."""
    safe = tl.where(x > 0, x, 1.0)
    return tl.where(x > 0, tl.floor(tl.log2(safe.to(WORK))) + 1.0, DEAD)


@triton.jit
def _halves(x):
    """2^x as a product of two powers, each in range where the whole is not."""
    half = tl.floor(x * 0.5)
    return tl.exp2(half), tl.exp2(x - half)


@triton.jit
def reach_kernel(
    chart,  # [rows, 2N]
    exponent,
    reach,  # out [rows, 2]
    first_row,
    N,
    WORK: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """The exponent of the largest η, or ζ, of a row; the matrix product has just written it."""
    row = first_row + tl.program_id(0).to(tl.int64)
    side = tl.program_id(1)
    source = chart + row * 2 * N + side * N
    largest = tl.zeros((BLOCK,), WORK)
    for start in range(0, N, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        largest = tl.maximum(largest, tl.load(source + columns, mask=columns < N, other=0.0).to(WORK))
    top = tl.max(largest, 0)
    own = tl.load(exponent + row)
    tl.store(reach + row * 2 + side, tl.where(top > 0, own + _exponent(top, WORK), DEAD).to(WORK))


@triton.jit
def _children(first_rows, offset, b, width, k, mask):
    """Rows of the left and right child of split k of the span at ``offset`` within its width."""
    before = tl.load(first_rows + k, mask=mask, other=0).to(tl.int64)
    after = tl.load(first_rows + width - k, mask=mask, other=0).to(tl.int64)
    return offset + before + b * (width - k), offset + after + b * k + k


@triton.jit
def _far_split_sum(
    chart, beta, exponent, reach, first_rows, row, offset, b, width, bonus, N,
    PEAK: tl.constexpr, WORK: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """One span in logs, in two passes: for rows whose η and ζ peak too far apart for a product to be in range.

    In float64: a log of some hundreds leaves float32 too few digits behind the point.
    """
    largest = tl.full((BLOCK,), float("-inf"), tl.float64)
    for start in range(0, N, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        inside = columns < N
        for k in range(1, width):
            left, right = _children(first_rows, offset, b, width, k, True)
            scale = (tl.load(exponent + left) + tl.load(exponent + right)).to(tl.float64)
            eta = tl.load(chart + left * 2 * N + columns, mask=inside, other=0.0).to(WORK).to(tl.float64)
            zeta = tl.load(chart + right * 2 * N + N + columns, mask=inside, other=0.0).to(WORK).to(tl.float64)
            both = (eta > 0) & (zeta > 0)
            logs = tl.log2(tl.where(both, eta, 1.0)) + tl.log2(tl.where(both, zeta, 1.0)) + scale
            largest = tl.maximum(largest, tl.where(both, logs, float("-inf")))
    top = tl.max(largest, 0)
    alive = top > ALIVE
    place = tl.where(alive, tl.ceil(top) - PEAK, 0.0)
    for start in range(0, N, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        inside = columns < N
        total = tl.zeros((BLOCK,), tl.float64)
        for k in range(1, width):
            left, right = _children(first_rows, offset, b, width, k, True)
            scale = (tl.load(exponent + left) + tl.load(exponent + right)).to(tl.float64)
            eta = tl.load(chart + left * 2 * N + columns, mask=inside, other=0.0).to(WORK).to(tl.float64)
            zeta = tl.load(chart + right * 2 * N + N + columns, mask=inside, other=0.0).to(WORK).to(tl.float64)
            both = (eta > 0) & (zeta > 0)
            logs = tl.log2(tl.where(both, eta, 1.0)) + tl.log2(tl.where(both, zeta, 1.0)) + scale
            total += tl.where(both, tl.exp2(logs - place), 0.0)
        total *= tl.exp2(bonus - tl.floor(bonus))
        tl.store(beta + row * N + columns, total.to(WORK).to(beta.dtype.element_ty), mask=inside)
    tl.store(exponent + row, tl.where(alive, tl.where(bonus > ALIVE, place + tl.floor(bonus), DEAD), DEAD).to(WORK))


@triton.jit
def inside_split_fwd_kernel(
    chart,  # [rows, 2N]: η then ζ
    beta,  # out [rows, N]
    exponent,  # [rows], this width's are written
    reach,  # [rows, 2]
    peaks,  # out [spans, blocks]: the largest β of each block, for ``far_fwd_kernel``
    bonus,  # [rows] log2 of the span's weight, or anything where HAS_BONUS is false
    partial,  # [spans, N] and
    partial_place,  # [spans]: all splits but the first and the last, where HAS_PARTIAL
    first_rows,
    sentence_of_row,
    width,
    first_row,
    N,
    HAS_BONUS: tl.constexpr,
    HAS_PARTIAL: tl.constexpr,
    PEAK: tl.constexpr,
    SAFE: tl.constexpr,
    WORK: tl.constexpr,
    ONE_BLOCK: tl.constexpr,
    SPLITS: tl.constexpr,  # power of two, at least width - 1
    BLOCK_K: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """β = Σ over splits of η ⊙ ζ for one span and one block of states."""
    offset = tl.program_id(0).to(tl.int64)
    block = tl.program_id(1)
    row = first_row + offset
    b = tl.load(sentence_of_row + row).to(tl.int64)

    every = 1 + tl.arange(0, SPLITS)
    before, after = _children(first_rows, offset, b, width, every, every < width)
    places = tl.load(reach + before * 2, mask=every < width, other=DEAD)
    places += tl.load(reach + after * 2 + 1, mask=every < width, other=DEAD)
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
    for start in range(1, last, BLOCK_K):
        k = start + tl.arange(0, BLOCK_K)
        if HAS_PARTIAL:  # only the two splits that need the width just done
            k = tl.where(k == 1, 1, tl.where(k == 2, width - 1, width))
        some = k < width
        left, right = _children(first_rows, offset, b, width, k, some)
        scale = tl.load(exponent + left, mask=some, other=DEAD) + tl.load(exponent + right, mask=some, other=DEAD)
        # A row can have an exponent and yet hold no η, or no ζ: nothing bounds its 2^scale, and 0 · ∞ is NaN.
        reached = tl.load(reach + left * 2, mask=some, other=DEAD)
        reached += tl.load(reach + right * 2 + 1, mask=some, other=DEAD)
        scale = tl.where(reached > ALIVE, tl.minimum(scale - place, MOST), DEAD)
        first_half, second_half = _halves(scale)
        mask = some[:, None] & inside[None, :]
        eta = tl.load(chart + left[:, None] * 2 * N + columns[None, :], mask=mask, other=0.0).to(WORK)
        zeta = tl.load(chart + right[:, None] * 2 * N + N + columns[None, :], mask=mask, other=0.0).to(WORK)
        total += (eta * first_half[:, None]) * (zeta * second_half[:, None])
    sums = tl.sum(total, 0)
    if HAS_PARTIAL:
        factor = tl.where(before_place > ALIVE, tl.exp2(before_place - place), 0.0)
        sums += tl.load(partial + offset * N + columns, mask=inside, other=0.0) * factor
    peak = tl.max(sums, 0)
    weight = tl.zeros((), WORK)
    if HAS_BONUS:  # its whole part joins the exponent, which stays a whole number; the rest the values
        weight = tl.load(bonus + row).to(WORK)
        sums *= tl.exp2(weight - tl.floor(weight))
    if ONE_BLOCK:
        if tl.where(alive, peak, SAFE) < SAFE:
            _far_split_sum(
                chart, beta, exponent, reach, first_rows, row, offset, b, width, weight, N, PEAK, WORK, BLOCK
            )
        else:
            tl.store(beta + row * N + columns, sums.to(beta.dtype.element_ty), mask=inside)
            tl.store(
                exponent + row, tl.where(alive, tl.where(weight > ALIVE, place + tl.floor(weight), DEAD), DEAD).to(WORK)
            )
    else:
        tl.store(beta + row * N + columns, sums.to(beta.dtype.element_ty), mask=inside)
        tl.store(peaks + offset * tl.num_programs(1) + block, tl.where(alive, peak, float("inf")))
        if block == 0:
            tl.store(
                exponent + row, tl.where(alive, tl.where(weight > ALIVE, place + tl.floor(weight), DEAD), DEAD).to(WORK)
            )


@triton.jit
def far_fwd_kernel(
    chart, beta, exponent, reach, peaks, bonus, first_rows, sentence_of_row, width, first_row, N, blocks,
    HAS_BONUS: tl.constexpr, PEAK: tl.constexpr, SAFE: tl.constexpr, WORK: tl.constexpr,
    BLOCKS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Sum again in logs what the split sums left out of range: rare, else it returns at once."""
    offset = tl.program_id(0).to(tl.int64)
    index = tl.arange(0, BLOCKS)
    peak = tl.max(tl.load(peaks + offset * blocks + index, mask=index < blocks, other=0.0), 0)
    if peak < SAFE:
        row = first_row + offset
        weight = tl.zeros((), WORK)
        if HAS_BONUS:
            weight = tl.load(bonus + row).to(WORK)
        b = tl.load(sentence_of_row + row).to(tl.int64)
        _far_split_sum(chart, beta, exponent, reach, first_rows, row, offset, b, width, weight, N, PEAK, WORK, BLOCK)


@triton.jit
def inside_split_bwd_kernel(
    chart,  # [rows, 2N]
    alpha,  # [rows, N]: d log Z / d β of wider spans
    by_child,  # out [rows, 2N]: d log Z / d η and d log Z / d ζ of this width
    exponent,
    bonus,
    partial,  # [spans, 2N]: all parents but the nearest, where HAS_PARTIAL
    first_rows,
    sentence_of_row,
    words_before,
    length_of_sentence,
    width,
    first_row,
    N,
    HAS_BONUS: tl.constexpr,
    HAS_PARTIAL: tl.constexpr,
    WORK: tl.constexpr,
    LIMIT: tl.constexpr,
    BLOCK_K: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """What its parents hand to a span, gathered: as left child from ends beyond, as right child from starts before."""
    offset = tl.program_id(0).to(tl.int64)
    side = tl.program_id(2)  # 0: as left child, by η; 1: as right child, by ζ
    row = first_row + offset
    b = tl.load(sentence_of_row + row).to(tl.int64)
    start_word = offset - tl.load(words_before + b) + b * (width - 1)
    length = tl.load(length_of_sentence + b)
    parents = tl.where(side == 0, length - (start_word + width), start_word)
    own = tl.load(exponent + row)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = columns < N
    total = tl.zeros((BLOCK_K, BLOCK), WORK)
    nearest = parents
    if HAS_PARTIAL:
        nearest = tl.minimum(parents, 1)
    for start in range(1, nearest + 1, BLOCK_K):
        d = start + tl.arange(0, BLOCK_K)  # the sibling's width
        some = d <= nearest
        shift = tl.where(side == 0, 0, d)
        parent = offset + tl.load(first_rows + width + d, mask=some, other=0).to(tl.int64) - b * d - shift
        sibling = offset + tl.load(first_rows + d, mask=some, other=0).to(tl.int64) + b * (width - d)
        sibling += tl.where(side == 0, width, -d)
        above = tl.load(exponent + parent, mask=some, other=DEAD)
        scale = own + tl.load(exponent + sibling, mask=some, other=DEAD) - above
        if HAS_BONUS:
            scale += tl.load(bonus + parent, mask=some, other=0.0).to(WORK)
        live = some & (above > ALIVE) & (scale > ALIVE)
        first_half, second_half = _halves(tl.where(live, tl.minimum(scale, MOST), DEAD))
        mask = live[:, None] & inside[None, :]
        outside = tl.load(alpha + parent[:, None] * N + columns[None, :], mask=mask, other=0.0).to(WORK)
        beside = tl.load(chart + sibling[:, None] * 2 * N + (1 - side) * N + columns[None, :], mask=mask, other=0.0).to(
            WORK
        )
        # Half a product can leave the range where the whole does not; ∞ would become NaN beside a 0.
        outside = tl.minimum(tl.maximum(outside * first_half[:, None], -LIMIT), LIMIT)
        total += outside * tl.minimum(beside * second_half[:, None], LIMIT)
    found = tl.sum(total, 0)
    if HAS_PARTIAL:
        rest = columns < tl.where(parents > 1, N, 0)
        found += tl.load(partial + offset * 2 * N + side * N + columns, mask=rest, other=0.0)
    target = row * 2 * N + side * N + columns
    mine = tl.load(chart + target, mask=inside, other=0.0).to(WORK)
    # A state that forward left at 0 takes no part; the others' derivatives are posteriors over values, hence bounded.
    found = tl.where(mine > 0, tl.minimum(tl.maximum(found, -LIMIT), LIMIT), 0.0)
    tl.store(by_child + target, found.to(by_child.dtype.element_ty), mask=inside)


@triton.jit
def outside_kernel(beta, alpha, posterior, first_row, N, WORK: tl.constexpr, LIMIT: tl.constexpr, BLOCK: tl.constexpr):
    """Tie the outside values to what forward kept, and give the span's posterior, Σ α β."""
    row = first_row + tl.program_id(0).to(tl.int64)
    total = tl.zeros((BLOCK,), WORK)
    for start in range(0, N, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        inside = columns < N
        value = tl.load(beta + row * N + columns, mask=inside, other=0.0).to(WORK)
        outside = tl.load(alpha + row * N + columns, mask=inside, other=0.0).to(WORK)
        outside = tl.where(value > 0, tl.minimum(tl.maximum(outside, -LIMIT), LIMIT), 0.0)
        total += value * outside
        tl.store(alpha + row * N + columns, outside.to(alpha.dtype.element_ty), mask=inside)
    tl.store(posterior + row, tl.sum(total, 0))
