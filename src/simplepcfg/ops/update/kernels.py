"""Triton kernels of what a step does beside its gradient: count the batch, measure the gradient, decide, move.

Torch launches some sixty small kernels for the same, each as long as its launch takes.
"""

# mypy: ignore-errors
import triton
import triton.language as tl


@triton.jit(do_not_specialize=["B", "n", "end", "total"])
def count_kernel(
    losses,  # [B]
    lengths,  # [B] int64, or anything where HAS_LENGTHS is false
    batch,  # out: loss, tokens, sentences, impossible; float64
    weights,  # out [B]: of each loss in the mean
    B,
    n,
    end,
    total,
    HAS_LENGTHS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Sums of a batch over its possible sentences. One program."""
    places = tl.arange(0, BLOCK)
    inside = places < B
    loss = tl.load(losses + places, mask=inside, other=0.0)
    possible = inside & (loss != float("inf"))
    if HAS_LENGTHS:
        words = tl.load(lengths + places, mask=inside, other=0)
    else:
        words = tl.full((BLOCK,), 0, tl.int64) + n
    sentences = tl.sum(possible.to(tl.int32), 0)
    tl.store(batch, tl.sum(tl.where(possible, loss.to(tl.float64), 0.0), 0))
    tl.store(batch + 1, tl.sum(tl.where(possible, words + end, 0), 0).to(tl.float64))
    tl.store(batch + 2, sentences.to(tl.float64))
    tl.store(batch + 3, (B - sentences).to(tl.float64))
    shares = possible.to(losses.dtype.element_ty) / total.to(losses.dtype.element_ty)
    tl.store(weights + places, shares, mask=inside)


@triton.jit
def square_sums_kernel(
    numbers,  # [size]
    sums,  # out: one a program
    size,
    each,  # numbers of a program, a multiple of BLOCK
    BLOCK: tl.constexpr,
):
    """Σ x² of a stretch of numbers, always added up in the same order."""
    start = tl.program_id(0).to(tl.int64) * each
    found = tl.zeros((BLOCK,), tl.float32)
    for offset in range(0, each, BLOCK):
        places = start + offset + tl.arange(0, BLOCK)
        x = tl.load(numbers + places, mask=places < size, other=0.0)
        found += x * x
    tl.store(sums + tl.program_id(0), tl.sum(found, 0))


@triton.jit
def settle_kernel(
    sums,  # [PARTS]: of squares of the gradient
    batch,  # loss, tokens, sentences, impossible, stop, failed
    values,  # of the tally: two lines of loss, tokens, sentences, norm, steps; then its counters
    steps,  # of Adam, counted here
    scalars,  # out: whether weights move, the gradient's factor, Adam's two corrections
    clip,  # 0 for none
    clip_epsilon,
    least_loss,  # a token
    log_beta1,
    log_beta2,
    PARTS: tl.constexpr,
):
    """What the norm and the sums of a batch mean for the step. One program; StepCounters.add has it in torch."""
    norm = tl.sqrt(tl.sum(tl.load(sums + tl.arange(0, PARTS)).to(tl.float64), 0))
    loss, tokens, sentences = tl.load(batch), tl.load(batch + 1), tl.load(batch + 2)
    finite = tl.abs(loss + norm) < float("inf")  # false of NaN
    good = finite & (loss >= least_loss * tokens) & (sentences > 0) & (tl.load(batch + 5) == 0)
    for line in tl.static_range(2):
        place = values + 5 * line
        tl.store(place, tl.load(place) + tl.where(good, loss, 0.0))
        tl.store(place + 1, tl.load(place + 1) + tl.where(good, tokens, 0.0))
        tl.store(place + 2, tl.load(place + 2) + tl.where(good, sentences, 0.0))
        tl.store(place + 3, tl.load(place + 3) + tl.where(good, norm, 0.0))
        tl.store(place + 4, tl.load(place + 4) + tl.where(good, 1.0, 0.0))
    counters = values + 10
    skipped = tl.where(good, 0.0, 1.0).to(tl.float64)
    in_a_row = (tl.load(counters + 1) + 1) * skipped
    tl.store(counters, tl.load(counters) + skipped)
    tl.store(counters + 1, in_a_row)
    tl.store(counters + 2, tl.maximum(tl.load(counters + 2), in_a_row))
    tl.store(counters + 3, tl.load(counters + 3) + tl.load(batch + 3))
    tl.store(counters + 4, norm)
    tl.store(counters + 5, tl.load(counters + 5) + tl.load(batch + 4))
    tl.store(counters + 6, tl.load(counters + 6) + tl.load(batch + 5))
    done = tl.load(steps) + tl.where(good, 1.0, 0.0)
    tl.store(steps, done)
    count = tl.maximum(done, 1.0).to(tl.float64)
    factor = tl.where((clip > 0) & (norm + clip_epsilon > clip), clip / (norm + clip_epsilon), 1.0)
    tl.store(scalars, tl.where(good, 1.0, 0.0))
    tl.store(scalars + 1, factor.to(tl.float32))
    tl.store(scalars + 2, (1 / (1 - tl.exp(count * log_beta1))).to(tl.float32))
    tl.store(scalars + 3, (1 / tl.sqrt(1 - tl.exp(count * log_beta2))).to(tl.float32))


@triton.jit
def _place(table, number, offsets):
    """A stretch of numbers whose address stands in the table; every stretch begins at a multiple of 16 bytes."""
    address = tl.load(table + number)
    return tl.multiple_of(address.to(tl.pointer_type(tl.float32)), 16) + offsets


@triton.jit
def _move(p, g, m, v, mean, rate, mean_share, move, factor, by_first, by_second, first, beta2, second, decay, epsilon):
    """AdamW of some weights, and their average's step towards them.

    Roots and quotients are the compiler's, a few units in the last place off: rounded correctly they cost a tenth of
    the update's time, and no test against float64 told the two apart.
    """
    g = g * factor
    m_new = m + (g - m) * first
    v_new = v * beta2 + g * g * second
    p_new = p - rate * (decay * p + by_first * m_new / (tl.sqrt(v_new) * by_second + epsilon))
    # Chosen, not multiplied: what does not move may be NaN.
    p, m, v = tl.where(move, p_new, p), tl.where(move, m_new, m), tl.where(move, v_new, v)
    return p, m, v, mean + (p - mean) * mean_share


@triton.jit
def adam_kernel(
    table,  # [programs, 6] int64: addresses of weights, gradient, both moments and the average; how many there are
    shares,  # [programs]: of the learning rate
    scalars,  # of settle_kernel
    rates,  # the learning rate, and the share of the new weights in their average
    first,  # 1 - beta1
    beta2,
    second,  # 1 - beta2, which float32 could not find from beta2
    decay,
    epsilon,
    HAS_MEAN: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """One stretch of one parameter."""
    row = table + tl.program_id(0) * 6
    offsets = tl.arange(0, BLOCK)
    count = tl.load(row + 5)
    rate = tl.load(rates) * tl.load(shares + tl.program_id(0))
    mean_share = tl.load(rates + 1)
    move = tl.load(scalars) > 0
    factor, by_first, by_second = tl.load(scalars + 1), tl.load(scalars + 2), tl.load(scalars + 3)
    at_p, at_g = _place(row, 0, offsets), _place(row, 1, offsets)
    at_m, at_v = _place(row, 2, offsets), _place(row, 3, offsets)
    at_mean = _place(row, 4 if HAS_MEAN else 0, offsets)
    if count == BLOCK:  # without a mask loads are wide
        p, g, m, v = tl.load(at_p), tl.load(at_g), tl.load(at_m), tl.load(at_v)
        mean = tl.load(at_mean) if HAS_MEAN else p
        p, m, v, mean = _move(
            p, g, m, v, mean, rate, mean_share, move, factor, by_first, by_second, first, beta2, second, decay, epsilon
        )
        tl.store(at_p, p)
        tl.store(at_m, m)
        tl.store(at_v, v)
        if HAS_MEAN:
            tl.store(at_mean, mean)
    else:
        some = offsets < count
        p, g = tl.load(at_p, mask=some, other=0.0), tl.load(at_g, mask=some, other=0.0)
        m, v = tl.load(at_m, mask=some, other=0.0), tl.load(at_v, mask=some, other=0.0)
        mean = tl.load(at_mean, mask=some, other=0.0) if HAS_MEAN else p
        p, m, v, mean = _move(
            p, g, m, v, mean, rate, mean_share, move, factor, by_first, by_second, first, beta2, second, decay, epsilon
        )
        tl.store(at_p, p, mask=some)
        tl.store(at_m, m, mask=some)
        tl.store(at_v, v, mask=some)
        if HAS_MEAN:
            tl.store(at_mean, mean, mask=some)
