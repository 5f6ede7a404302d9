"""Split sums of two widths at once: a row that both need is read once. README.md counts what that saves.

β(i, i + w) and β(i, i + w + 1) have the same left children but for one, and the right child of one split is nearly that
of the neighbour's next split. The wider one's two splits that need width w itself are added afterwards.
"""

# mypy: ignore-errors
import triton
import triton.language as tl

from simplepcfg.ops.inside.kernels import ALIVE, DEAD, MOST, _halves


@triton.jit
def _halves_of(scale, alive):
    return _halves(tl.where(alive, tl.minimum(scale, MOST), DEAD))


@triton.jit
def inside_pair_fwd_kernel(
    chart,  # [rows, 2N]
    beta,  # out [rows, N], of this width
    partial,  # out [spans of the next width, N]: its sums but for the first and the last split
    partial_place,  # out [spans of the next width]: their exponents
    exponent,
    reach,
    peaks,  # out [spans, blocks]
    first_rows,
    sentence_of_row,
    words_before,
    length_of_sentence,
    width,
    first_row,
    spans,
    N,
    PEAK: tl.constexpr,
    WORK: tl.constexpr,
    SPLITS: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """β of this width, and most of β of the next, for a few neighbouring spans and one block of states."""
    block = tl.program_id(1)
    offset = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    real = offset < spans
    row = first_row + offset
    b = tl.load(sentence_of_row + row, mask=real, other=0).to(tl.int64)
    start = offset - tl.load(words_before + b) + b * (width - 1)
    wider = real & (start + width < tl.load(length_of_sentence + b))

    every = 1 + tl.arange(0, SPLITS)
    some = real[:, None] & (every < width)[None, :]
    inner = wider[:, None] & ((every > 1) & (every < width))[None, :]
    to_left = tl.load(first_rows + every, mask=every < width, other=0).to(tl.int64)
    to_right = tl.load(first_rows + width - every, mask=every < width, other=0).to(tl.int64)
    to_next = tl.load(first_rows + width + 1 - every, mask=every < width, other=0).to(tl.int64)
    lefts = offset[:, None] + to_left[None, :] + b[:, None] * (width - every)[None, :]
    rights = offset[:, None] + (to_right + every)[None, :] + b[:, None] * every[None, :]
    nexts = offset[:, None] + (to_next + every)[None, :] + b[:, None] * (every - 1)[None, :]
    all_left = tl.load(reach + lefts * 2, mask=some, other=DEAD)
    largest = tl.max(all_left + tl.load(reach + rights * 2 + 1, mask=some, other=DEAD), 1)
    next_largest = tl.max(all_left + tl.load(reach + nexts * 2 + 1, mask=inner, other=DEAD), 1)
    alive = largest > ALIVE
    place = tl.where(alive, largest - PEAK, 0.0)
    next_alive = next_largest > ALIVE
    next_place = tl.where(next_alive, next_largest - PEAK, 0.0)

    columns = block * BLOCK + tl.arange(0, BLOCK)
    inside = columns < N
    sums = tl.zeros((ROWS, BLOCK), WORK)
    next_sums = tl.zeros((ROWS, BLOCK), WORK)
    for k in range(1, width):
        left = offset + tl.load(first_rows + k).to(tl.int64) + b * (width - k)
        right = offset + tl.load(first_rows + width - k).to(tl.int64) + b * k + k
        far_right = offset + tl.load(first_rows + width + 1 - k).to(tl.int64) + b * (k - 1) + k
        both = wider & (offset * 0 + k > 1)
        left_exponent = tl.load(exponent + left, mask=real, other=DEAD)
        scale = left_exponent + tl.load(exponent + right, mask=real, other=DEAD)
        next_scale = left_exponent + tl.load(exponent + far_right, mask=both, other=DEAD)
        # A row can have an exponent and yet hold no η, or no ζ: nothing bounds its 2^scale, and 0 · ∞ is NaN.
        left_reach = tl.load(reach + left * 2, mask=real, other=DEAD)
        reached = left_reach + tl.load(reach + right * 2 + 1, mask=real, other=DEAD)
        next_reached = left_reach + tl.load(reach + far_right * 2 + 1, mask=both, other=DEAD)
        one, two = _halves_of(scale - place, reached > ALIVE)
        three, four = _halves_of(next_scale - next_place, next_reached > ALIVE)
        mask = real[:, None] & inside[None, :]
        next_mask = both[:, None] & inside[None, :]
        eta = tl.load(chart + left[:, None] * 2 * N + columns[None, :], mask=mask, other=0.0).to(WORK)
        zeta = tl.load(chart + right[:, None] * 2 * N + N + columns[None, :], mask=mask, other=0.0).to(WORK)
        far = tl.load(chart + far_right[:, None] * 2 * N + N + columns[None, :], mask=next_mask, other=0.0).to(WORK)
        sums += (eta * one[:, None]) * (zeta * two[:, None])
        next_sums += (eta * three[:, None]) * (far * four[:, None])

    tl.store(
        beta + row[:, None] * N + columns[None, :],
        sums.to(beta.dtype.element_ty),
        mask=real[:, None] & inside[None, :],
    )
    tl.store(peaks + offset * tl.num_programs(1) + block, tl.where(alive, tl.max(sums, 1), float("inf")), mask=real)
    target = offset - b  # the next width has one span less a sentence
    tl.store(partial + target[:, None] * N + columns[None, :], next_sums, mask=wider[:, None] & inside[None, :])
    if block == 0:
        tl.store(exponent + row, tl.where(alive, place, DEAD), mask=real)
        tl.store(partial_place + target, tl.where(next_alive, next_place, DEAD), mask=wider)


@triton.jit
def inside_pair_bwd_kernel(
    chart,  # [rows, 2N]
    alpha,  # [rows, N]
    by_child,  # out [rows, 2N], of this width
    partial,  # out [spans of the width below, 2N]: its sums but for parents of this width
    exponent,
    first_rows,
    sentence_of_row,
    words_before,
    length_of_sentence,
    width,
    first_row,
    spans,
    N,
    WORK: tl.constexpr,
    LIMIT: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """d log Z / d η and d ζ of this width, and most of those of the width below, which share their parents' rows."""
    side = tl.program_id(2)
    offset = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    real = offset < spans
    row = first_row + offset
    b = tl.load(sentence_of_row + row, mask=real, other=0).to(tl.int64)
    start = offset - tl.load(words_before + b) + b * (width - 1)
    length = tl.load(length_of_sentence + b).to(tl.int64)
    parents = tl.where(side == 0, length - (start + width), start)
    parents = tl.where(real, parents, 0)
    # The narrower child of the same parents: it starts where this one does, or ends where this one does.
    below = offset + b + side
    own = tl.load(exponent + row, mask=real, other=DEAD)
    own_below = tl.load(exponent + tl.load(first_rows + width - 1).to(tl.int64) + below, mask=real, other=DEAD)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = columns < N
    found = tl.zeros((ROWS, BLOCK), WORK)
    found_below = tl.zeros((ROWS, BLOCK), WORK)
    for d in range(1, tl.max(parents, 0) + 1):
        some = parents >= d
        moved = tl.where(side == 0, 0, d)
        parent = offset + tl.load(first_rows + width + d).to(tl.int64) - b * d - moved
        sibling = offset + tl.load(first_rows + d).to(tl.int64) + b * (width - d) + tl.where(side == 0, width, -d)
        wider = offset + tl.load(first_rows + d + 1).to(tl.int64) + b * (width - 1 - d)
        wider += tl.where(side == 0, width - 1, -d)
        above = tl.load(exponent + parent, mask=some, other=DEAD)
        scale = own + tl.load(exponent + sibling, mask=some, other=DEAD) - above
        scale_below = own_below + tl.load(exponent + wider, mask=some, other=DEAD) - above
        one, two = _halves_of(scale, (above > ALIVE) & (scale > ALIVE))
        three, four = _halves_of(scale_below, (above > ALIVE) & (scale_below > ALIVE))
        mask = (some & (above > ALIVE))[:, None] & inside[None, :]
        outside = tl.load(alpha + parent[:, None] * N + columns[None, :], mask=mask, other=0.0).to(WORK)
        shift = (1 - side) * N
        beside = tl.load(chart + sibling[:, None] * 2 * N + shift + columns[None, :], mask=mask, other=0.0).to(WORK)
        beyond = tl.load(chart + wider[:, None] * 2 * N + shift + columns[None, :], mask=mask, other=0.0).to(WORK)
        # Half a product can leave the range where the whole does not; ∞ would become NaN beside a 0.
        half = tl.minimum(tl.maximum(outside * one[:, None], -LIMIT), LIMIT)
        found += half * tl.minimum(beside * two[:, None], LIMIT)
        half = tl.minimum(tl.maximum(outside * three[:, None], -LIMIT), LIMIT)
        found_below += half * tl.minimum(beyond * four[:, None], LIMIT)

    within = real[:, None] & inside[None, :]
    target = row[:, None] * 2 * N + side * N + columns[None, :]
    mine = tl.load(chart + target, mask=within, other=0.0).to(WORK)
    found = tl.where(mine > 0, tl.minimum(tl.maximum(found, -LIMIT), LIMIT), 0.0)
    tl.store(by_child + target, found.to(by_child.dtype.element_ty), mask=within)
    tl.store(partial + below[:, None] * 2 * N + side * N + columns[None, :], found_below, mask=within)
