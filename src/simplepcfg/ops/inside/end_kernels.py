"""Triton kernels of the words and of the whole sentences, the bottom and the top of the chart."""

# mypy: ignore-errors
import triton
import triton.language as tl

from simplepcfg.ops.inside.kernels import ALIVE, DEAD


@triton.jit
def words_kernel(
    log_emissions,  # [B, n, P]
    emit,  # out [words, P]
    best,  # out [words], float64
    exponent,  # out [rows]
    reach,  # out [rows]
    sentence_of_row,
    words_before,
    order,
    P,
    stride_b,
    stride_n,
    PEAK: tl.constexpr,
    WORK: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Emissions of each word divided by its largest one, times 2^PEAK; the top kernel adds its log to log Z."""
    row = tl.program_id(0).to(tl.int64)
    b = tl.load(sentence_of_row + row)
    position = row - tl.load(words_before + b)
    source = log_emissions + tl.load(order + b).to(tl.int64) * stride_b + position * stride_n
    largest = tl.full((BLOCK,), float("-inf"), WORK)
    for start in range(0, P, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        largest = tl.maximum(largest, tl.load(source + columns, mask=columns < P, other=float("-inf")).to(WORK))
    top = tl.max(largest, 0)
    alive = top > float("-inf")
    top = tl.where(alive, top, 0.0)
    tl.store(best + row, top.to(tl.float64))
    tl.store(exponent + row, tl.where(alive, -PEAK, DEAD).to(WORK))
    tl.store(reach + row, tl.where(alive, 0.0, DEAD).to(WORK))
    boost = tl.exp2(tl.full((), PEAK, WORK))
    for start in range(0, P, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        values = tl.load(source + columns, mask=columns < P, other=float("-inf")).to(WORK)
        tl.store(emit + row * P + columns, (tl.exp(values - top) * boost).to(emit.dtype.element_ty), mask=columns < P)


@triton.jit
def top_fwd_kernel(
    beta, exponent, best, root, log_top, log_z, top_rows, words_before, length_of_sentence, order, N, stride_root,
    WORK: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """log Z = log (root · β), computed in logs, because all products may underflow."""
    b = tl.program_id(0)
    target = tl.load(order + b).to(tl.int64)
    row = tl.load(top_rows + b).to(tl.int64)
    has_tree = row >= 0
    row = tl.maximum(row, 0)
    largest = tl.full((BLOCK,), float("-inf"), tl.float64)
    for start in range(0, N, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        inside = columns < tl.where(has_tree, N, 0)
        value = tl.load(beta + row * N + columns, mask=inside, other=0.0).to(tl.float64)
        share = tl.load(root + target * stride_root + columns, mask=inside, other=0.0).to(tl.float64)
        both = (value > 0) & (share > 0)
        logs = tl.log(tl.where(both, value, 1.0)) + tl.log(tl.where(both, share, 1.0))
        largest = tl.maximum(largest, tl.where(both, logs, float("-inf")))
    top = tl.max(largest, 0)
    own = tl.load(exponent + row).to(tl.float64)
    possible = tl.where(own > ALIVE, top, float("-inf")) > float("-inf")
    place = tl.where(possible, top, 0.0)
    total = tl.zeros((BLOCK,), tl.float64)
    for start in range(0, N, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        inside = columns < tl.where(has_tree, N, 0)
        value = tl.load(beta + row * N + columns, mask=inside, other=0.0).to(tl.float64)
        share = tl.load(root + target * stride_root + columns, mask=inside, other=0.0).to(tl.float64)
        both = (value > 0) & (share > 0)
        logs = tl.log(tl.where(both, value, 1.0)) + tl.log(tl.where(both, share, 1.0))
        total += tl.where(both, tl.exp(logs - place), 0.0)
    here = tl.where(possible, place + tl.log(tl.where(possible, tl.sum(total, 0), 1.0)), float("-inf"))
    tl.store(log_top + b, here)
    words = tl.zeros((BLOCK,), tl.float64)
    first = tl.load(words_before + b)
    length = tl.load(length_of_sentence + b)
    for start in range(0, length, BLOCK):
        position = start + tl.arange(0, BLOCK)
        words += tl.load(best + first + position, mask=position < length, other=0.0)
    log_z_value = here + own * 0.6931471805599453 + tl.sum(words, 0)
    tl.store(log_z + target, tl.where(possible, log_z_value, float("-inf")).to(log_z.dtype.element_ty))


@triton.jit
def top_bwd_kernel(
    beta, root, log_top, grad, alpha, by_root, top_rows, order, N, stride_root,
    WORK: tl.constexpr, LIMIT: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """d log Z / d β of whole sentences, root / (root · β), and d log Z / d root, β / (root · β), times the gradient."""
    b = tl.program_id(0)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    target = tl.load(order + b).to(tl.int64)
    row = tl.load(top_rows + b).to(tl.int64)
    has_tree = row >= 0
    row = tl.maximum(row, 0)
    inside = columns < N
    within = columns < tl.where(has_tree, N, 0)
    value = tl.load(beta + row * N + columns, mask=within, other=0.0).to(tl.float64)
    share = tl.load(root + target * stride_root + columns, mask=inside, other=0.0).to(tl.float64)
    here = tl.load(log_top + b)
    weight = tl.load(grad + target).to(tl.float64)
    weight = tl.where(here > float("-inf"), weight, 0.0)
    here = tl.where(here > float("-inf"), here, 0.0)
    both = (value > 0) & (share > 0)
    outside = tl.where(both, tl.exp(tl.log(tl.where(both, share, 1.0)) - here) * weight, 0.0)
    outside = tl.minimum(tl.maximum(outside, -LIMIT), LIMIT)
    tl.store(alpha + row * N + columns, outside.to(WORK).to(alpha.dtype.element_ty), mask=within)
    slope = tl.where(both, tl.exp(tl.log(tl.where(both, value, 1.0)) - here) * weight, 0.0)
    slope = tl.minimum(tl.maximum(slope, -LIMIT), LIMIT)
    tl.store(by_root + target * N + columns, slope.to(by_root.dtype.element_ty), mask=inside)


@triton.jit
def words_bwd_kernel(
    by_emit, emit, by_log_emission, sentence_of_row, words_before, order, P, stride_b, stride_n,
    WORK: tl.constexpr, LIMIT: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """d log Z / d log-emissions, the marginal of each preterminal over each word."""
    row = tl.program_id(0).to(tl.int64)
    b = tl.load(sentence_of_row + row)
    position = row - tl.load(words_before + b)
    target = by_log_emission + tl.load(order + b).to(tl.int64) * stride_b + position * stride_n
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = columns < P
    value = tl.load(emit + row * P + columns, mask=inside, other=0.0).to(WORK)
    slope = tl.load(by_emit + row * P + columns, mask=inside, other=0.0).to(WORK)
    slope = tl.minimum(tl.maximum(slope, -LIMIT), LIMIT)
    tl.store(target + columns, tl.where(value > 0, value * slope, 0.0), mask=inside)
