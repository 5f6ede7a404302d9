"""The Triton kernel that draws trees from the top down: one launch draws one node of every tree. See README.md."""

# mypy: ignore-errors
import triton
import triton.language as tl

NONE = tl.constexpr(1 << 30)  # larger than every index


@triton.jit
def _draw_child(values, rules, count, uniform, WORK: tl.constexpr, BLOCK: tl.constexpr):
    """Draw a symbol with probability proportional to rule · value, by its cumulative sums."""
    total = tl.zeros((BLOCK,), WORK)
    for start in range(0, count, BLOCK):
        index = start + tl.arange(0, BLOCK)
        value = tl.load(values + index, mask=index < count, other=0.0).to(WORK)
        total += value * tl.load(rules + index, mask=index < count, other=0.0).to(WORK)
    goal = (tl.sum(total, 0).to(tl.float64) * uniform).to(WORK)
    first = tl.full((BLOCK,), 0, tl.int32) + NONE
    possible = tl.full(
        (BLOCK,), 0, tl.int32
    )  # the last symbol with a positive weight, in case rounding leaves the goal out of reach
    before = tl.zeros((), WORK)
    for start in range(0, count, BLOCK):
        index = start + tl.arange(0, BLOCK)
        value = tl.load(values + index, mask=index < count, other=0.0).to(WORK)
        weight = value * tl.load(rules + index, mask=index < count, other=0.0).to(WORK)
        sums = before + tl.cumsum(weight, 0)
        first = tl.where((sums > goal) & (weight > 0), tl.minimum(first, index), first)
        possible = tl.where(weight > 0, index, possible)
        before += tl.sum(weight, 0)
    return tl.minimum(tl.min(first, 0), tl.max(possible, 0))


@triton.jit(do_not_specialize=["step", "n", "samples", "draws"])
def draw_kernel(
    chart,  # [rows, 2N]: η and ζ
    beta,  # [rows, N]
    emit,  # [words, P]
    exponent,  # [rows]
    rules,  # [(B,) 2N, N + P]
    uniforms,  # [T, draws]
    starts,  # of the trees' nodes [T, n], see ops/descent.py
    ends,
    splits,
    labels,
    tags,  # [T, n + 1]
    first_rows,
    words_before,
    places,  # [B]: the place of each sentence in decreasing order of length
    step,
    n,
    N,
    P,
    samples,  # number of trees for each sentence
    draws,
    stride_sentence,  # of the rules; 0 if they have no batch dimension
    BY_WIDTH: tl.constexpr,  # the row of a span is its width, because there are no words
    WORK: tl.constexpr,
    SPLITS: tl.constexpr,  # power of two, at least n - 1
    BLOCK: tl.constexpr,
):
    """Expand node ``step`` of every tree: draw its split, the same in both programs, and one of its children."""
    tree = tl.program_id(0).to(tl.int64)
    side = tl.program_id(1)  # 0: the left child; 1: the right one
    label = tl.load(labels + tree * n + step)
    if label >= 0:
        start = tl.load(starts + tree * n + step)
        width = tl.load(ends + tree * n + step) - start
        chance = uniforms + tree * draws + 2 + 3 * step
        sentence = tree // samples
        k = 1 + tl.arange(0, SPLITS)
        some = k < width
        if BY_WIDTH:
            left = k.to(tl.int64)
            right = tl.where(some, width - k, 1)
        else:
            b = tl.load(places + sentence).to(tl.int64)
            words = tl.load(words_before + b)
            left = tl.load(first_rows + k, mask=some, other=0) + words - b * (k - 1) + start
            right = tl.load(first_rows + width - k, mask=some, other=0) + words - b * (width - k - 1) + start + k
        eta = tl.load(chart + left * 2 * N + label, mask=some, other=0.0).to(WORK).to(tl.float64)
        zeta = tl.load(chart + right * 2 * N + N + label, mask=some, other=0.0).to(WORK).to(tl.float64)
        scale = tl.load(exponent + left, mask=some, other=0.0) + tl.load(exponent + right, mask=some, other=0.0)
        both = (eta > 0) & (zeta > 0)
        logs = tl.log2(tl.where(both, eta, 1.0)) + tl.log2(tl.where(both, zeta, 1.0)) + scale.to(tl.float64)
        logs = tl.where(both, logs, float("-inf"))
        weights = tl.where(both, tl.exp2(logs - tl.max(logs, 0)), 0.0)
        goal = tl.load(chance) * tl.sum(weights, 0)
        reached = (tl.cumsum(weights, 0) > goal) & both
        split = tl.minimum(tl.min(tl.where(reached, k, NONE), 0), tl.max(tl.where(both, k, 1), 0))
        begin = start + side * split
        span = tl.where(side == 0, split, width - split)
        if BY_WIDTH:
            row = span
            word = span * 0
        else:
            row = tl.load(first_rows + span) + words - b * (span - 1) + begin
            word = row
        rule = rules + sentence * stride_sentence + (side * N + label) * (N + P)
        uniform = tl.load(chance + 1 + side)
        if span > 1:
            symbol = _draw_child(beta + row * N, rule, N, uniform, WORK, BLOCK)
            node = tree * n + tl.where(side == 0, step + 1, step + split)
            tl.store(starts + node, begin)
            tl.store(ends + node, begin + span)
            tl.store(labels + node, symbol.to(tl.int64))
        else:
            symbol = _draw_child(emit + word * P, rule + N, P, uniform, WORK, BLOCK)
            tl.store(tags + tree * (n + 1) + begin, symbol.to(tl.int64))
        if side == 0:
            tl.store(splits + tree * n + step, start + split)
