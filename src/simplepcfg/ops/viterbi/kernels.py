"""Triton kernels of the Viterbi algorithm: max-plus matrix product, best splits, and top-down reconstruction."""

# mypy: ignore-errors
# ruff: noqa: RET505 (a jitted function returns from both branches of a constexpr condition)
import triton
import triton.language as tl

NONE = tl.constexpr(1 << 30)  # larger than every index


@triton.jit
def _larger(best, one, two, AS_BITS: tl.constexpr):
    """The maximum of three tensors; with AS_BITS they are the bits of float32 numbers, none of them positive.

    Of two such numbers the larger one has the smaller bits, if these are read as an unsigned integer. Hopper and later
    GPUs have an instruction for the minimum of three integers.
    """
    if AS_BITS:
        return tl.minimum(tl.minimum(one.to(tl.uint32, bitcast=True), two.to(tl.uint32, bitcast=True)), best)
    else:
        return tl.maximum(tl.maximum(one, two), best)


@triton.jit(do_not_specialize=["R"])
def max_plus_kernel(
    values,  # [K, stride_values]: log β*, transposed; at least K rounded up to 2 PAIRS rows, -inf beyond K
    rules,  # [K, stride_rules]: log rules, transposed; as many rows
    out,  # [parts, R, M]
    R,
    K,
    M,
    stride_values,
    stride_rules,
    AS_BITS: tl.constexpr,  # see _larger
    PAIRS: tl.constexpr,  # of b's, for which the loop is unrolled
    TALL: tl.constexpr,  # a thread holds TALL rows of the tile
    WIDE: tl.constexpr,  # and twice WIDE columns
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,  # ROWS · COLUMNS is the number of threads
):
    """out[r, a] = max_b values[b, r] + rules[b, a] over this program's part of the b's, for one tile of the output.

    Each thread holds TALL · 2 WIDE results in registers and computes them from TALL + 2 WIDE loaded numbers for each b.
    The columns of the tile are divided into two halves, because a load of fewer elements than threads goes directly to
    the registers of each thread, and not through shared memory.
    """
    row = tl.program_id(1) * (TALL * ROWS) + (tl.arange(0, TALL) * ROWS)[:, None] + tl.arange(0, ROWS)[None, :]
    column = tl.program_id(0) * (2 * WIDE * COLUMNS)
    column += (tl.arange(0, WIDE) * COLUMNS)[:, None] + tl.arange(0, COLUMNS)[None, :]
    part = tl.program_id(2)
    each = tl.cdiv(tl.cdiv(K, 2 * PAIRS), tl.num_programs(2)) * 2 * PAIRS
    first = part * each
    last = tl.minimum(first + each, K)
    value = values + first.to(tl.int64) * stride_values + row
    rule = rules + first.to(tl.int64) * stride_rules + column
    first_half = tl.full((TALL, WIDE, ROWS, COLUMNS), float("-inf"), out.dtype.element_ty)
    second_half = tl.full((TALL, WIDE, ROWS, COLUMNS), float("-inf"), out.dtype.element_ty)
    if AS_BITS:
        first_half = first_half.to(tl.uint32, bitcast=True)
        second_half = second_half.to(tl.uint32, bitcast=True)
    for _ in range(first, last, 2 * PAIRS):
        for _ in tl.static_range(PAIRS):
            one = tl.load(value)[:, None, :, None]
            two = tl.load(value + stride_values)[:, None, :, None]
            by_one = one + tl.load(rule)[None, :, None, :]
            by_two = two + tl.load(rule + stride_rules)[None, :, None, :]
            first_half = _larger(first_half, by_one, by_two, AS_BITS)
            by_one = one + tl.load(rule + WIDE * COLUMNS)[None, :, None, :]
            by_two = two + tl.load(rule + stride_rules + WIDE * COLUMNS)[None, :, None, :]
            second_half = _larger(second_half, by_one, by_two, AS_BITS)
            value += 2 * stride_values
            rule += 2 * stride_rules
    if AS_BITS:
        first_half = first_half.to(out.dtype.element_ty, bitcast=True)
        second_half = second_half.to(out.dtype.element_ty, bitcast=True)
    r = row[:, None, :, None]
    a = column[None, :, None, :]
    target = out + (part.to(tl.int64) * R + r) * M + a
    tl.store(target, first_half, mask=(r < R) & (a < M))
    tl.store(target + WIDE * COLUMNS, second_half, mask=(r < R) & (a < M - WIDE * COLUMNS))


@triton.jit(do_not_specialize=["width", "first_row", "words"])
def split_maxima_kernel(
    children,  # [rows, 2N]
    best,  # out [rows, N]
    bonus,  # [rows of width 2 or more], if HAS_BONUS
    first_rows,
    sentence_of_row,
    width,
    first_row,
    words,
    N,
    HAS_BONUS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """The best split of one span for a block of states."""
    offset = tl.program_id(0).to(tl.int64)
    row = first_row + offset
    b = tl.load(sentence_of_row + row).to(tl.int64)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = columns < N
    highest = tl.full((BLOCK,), float("-inf"), best.dtype.element_ty)
    for k in range(1, width):
        before = offset + tl.load(first_rows + k) + b * (width - k)
        after = offset + tl.load(first_rows + width - k) + b * k + k
        eta = tl.load(children + before * 2 * N + columns, mask=inside, other=float("-inf"))
        zeta = tl.load(children + after * 2 * N + N + columns, mask=inside, other=float("-inf"))
        highest = tl.maximum(highest, eta + zeta)
    if HAS_BONUS:
        highest += tl.load(bonus + row - words)
    tl.store(best + row * N + columns, highest, mask=inside)


@triton.jit
def _best_child(values, rules, stride_rules, count, BLOCK: tl.constexpr):
    """The symbol with the largest sum of value and rule, of equal ones the first."""
    top = tl.full((BLOCK,), float("-inf"), values.dtype.element_ty)
    symbol = tl.full((BLOCK,), 0, tl.int32) + NONE
    for start in range(0, count, BLOCK):
        index = start + tl.arange(0, BLOCK)
        inside = index < count
        score = tl.load(values + index, mask=inside, other=float("-inf"))
        score += tl.load(rules + index.to(tl.int64) * stride_rules, mask=inside, other=float("-inf"))
        symbol = tl.where(score > top, index, symbol)
        top = tl.maximum(score, top)
    return tl.min(tl.where(top == tl.max(top, 0), symbol, NONE), 0)


@triton.jit(do_not_specialize=["step", "n"])
def descend_kernel(
    children,
    best,
    emit,  # [words, P]
    rules,  # [(B,) N + P, stride_rules]: log rules, transposed
    starts,  # of the trees' nodes [B, n], see ops/descent.py
    ends,
    splits,
    labels,
    tags,  # [B, n + 1]
    first_rows,
    words_before,
    order,
    step,
    n,
    N,
    P,
    stride_rules,
    stride_sentence,  # of the rules; 0 if they have no batch dimension
    SPLITS: tl.constexpr,  # power of two, at least n - 1
    BLOCK: tl.constexpr,
):
    """Expand node ``step`` of every tree: find its best split, and the best symbol of one child."""
    b = tl.program_id(0).to(tl.int64)
    side = tl.program_id(1)  # 0: the left child; 1: the right one
    label = tl.load(labels + b * n + step)
    if label >= 0:
        start = tl.load(starts + b * n + step)
        width = tl.load(ends + b * n + step) - start
        before_words = tl.load(words_before + b)
        k = 1 + tl.arange(0, SPLITS)
        some = k < width
        before = tl.load(first_rows + k, mask=some, other=0) + before_words - b * (k - 1) + start
        after = tl.load(first_rows + width - k, mask=some, other=0) + before_words - b * (width - k - 1) + start + k
        scores = tl.load(children + before * 2 * N + label, mask=some, other=float("-inf"))
        scores += tl.load(children + after * 2 * N + N + label, mask=some, other=float("-inf"))
        split = tl.min(tl.where((scores == tl.max(scores, 0)) & some, k, NONE), 0)
        begin = start + side * split
        span = tl.where(side == 0, split, width - split)
        row = tl.load(first_rows + span) + before_words - b * (span - 1) + begin
        rule = rules + tl.load(order + b).to(tl.int64) * stride_sentence + side * N + label
        if span > 1:
            symbol = _best_child(best + row * N, rule, stride_rules, N, BLOCK)
            node = b * n + tl.where(side == 0, step + 1, step + split)
            tl.store(starts + node, begin)
            tl.store(ends + node, begin + span)
            tl.store(labels + node, symbol.to(tl.int64))
        else:
            symbol = _best_child(emit + row * P, rule + (b * 0 + N) * stride_rules, stride_rules, P, BLOCK)
            tl.store(tags + b * (n + 1) + begin, symbol.to(tl.int64))
        if side == 0:
            tl.store(splits + b * n + step, start + split)
