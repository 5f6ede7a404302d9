"""Triton kernels of the optimizer step: sums of the batch, norm of the gradient, checks and clipping, AdamW.

PyTorch launches about sixty small kernels for the same work, and launch overhead dominates their time.
"""

# mypy: ignore-errors
import triton
import triton.language as tl


@triton.jit(do_not_specialize=["B", "n", "end", "total"])
def count_kernel(
    losses,  # [B]
    lengths,  # [B] int64, if HAS_LENGTHS
    batch,  # out, float64: loss, tokens, sentences, sentences of probability 0
    weights,  # out [B]: the weight of each loss in the mean
    B,
    n,
    end,
    total,
    HAS_LENGTHS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Sums of a batch over its sentences of positive probability, by a single program."""
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
    sums,  # out: one for each program
    size,
    each,  # the number of elements of each program, a multiple of BLOCK
    BLOCK: tl.constexpr,
):
    """Σ x² of consecutive elements, in a fixed order."""
    start = tl.program_id(0).to(tl.int64) * each
    found = tl.zeros((BLOCK,), tl.float32)
    for offset in range(0, each, BLOCK):
        places = start + offset + tl.arange(0, BLOCK)
        x = tl.load(numbers + places, mask=places < size, other=0.0)
        found += x * x
    tl.store(sums + tl.program_id(0), tl.sum(found, 0))


@triton.jit
def finish_step_kernel(
    sums,  # [PARTS]: partial sums of the squared gradient
    batch,  # loss, tokens, sentences, sentences of probability 0, stop, failed
    values,  # of StepCounters: two rows of loss, tokens, sentences, norm, steps; then its counters
    steps,  # the number of Adam's steps, updated here
    scalars,  # out: whether weights are updated, the factor of the gradient, Adam's two bias corrections
    clip,  # 0 for none
    clip_epsilon,
    least_loss,  # for each token
    log_beta1,
    log_beta2,
    PARTS: tl.constexpr,
):
    """Checks, running sums and the scalars of Adam, by a single program; StepCounters.add is the same in PyTorch."""
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
    """Pointers to consecutive elements whose address, a multiple of 16 bytes, is in the table."""
    address = tl.load(table + number)
    return tl.multiple_of(address.to(tl.pointer_type(tl.float32)), 16) + offsets


@triton.jit
def _adam_update(
    p, g, m, v, mean, rate, mean_share, move, factor, by_first, by_second, first, beta2, second, decay, epsilon
):
    """Update some weights by AdamW, and their exponential moving average.

    Square roots and divisions are the compiler's approximations, with errors of a few units in the last place. Correct
    rounding would take a tenth of the time of the update, and no test against float64 showed a difference.
    """
    g = g * factor
    m_new = m + (g - m) * first
    v_new = v * beta2 + g * g * second
    p_new = p - rate * (decay * p + by_first * m_new / (tl.sqrt(v_new) * by_second + epsilon))
    # Old values are selected instead of multiplying the change by 0, because the new ones may be NaN.
    p, m, v = tl.where(move, p_new, p), tl.where(move, m_new, m), tl.where(move, v_new, v)
    return p, m, v, mean + (p - mean) * mean_share


@triton.jit
def adam_kernel(
    table,  # [programs, 6] int64: addresses of weights, gradient, both moments and the average; the number of elements
    shares,  # [programs]: multipliers of the learning rate
    scalars,  # from finish_step_kernel
    rates,  # the learning rate, and the weight of the new parameters in their moving average
    first,  # 1 - beta1
    beta2,
    second,  # 1 - beta2, computed in float64 on the host
    decay,
    epsilon,
    HAS_MEAN: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Update one block of one parameter."""
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
    if count == BLOCK:  # loads without a mask are vectorised
        p, g, m, v = tl.load(at_p), tl.load(at_g), tl.load(at_m), tl.load(at_v)
        mean = tl.load(at_mean) if HAS_MEAN else p
        p, m, v, mean = _adam_update(
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
        p, m, v, mean = _adam_update(
            p, g, m, v, mean, rate, mean_share, move, factor, by_first, by_second, first, beta2, second, decay, epsilon
        )
        tl.store(at_p, p, mask=some)
        tl.store(at_m, m, mask=some)
        tl.store(at_v, v, mask=some)
        if HAS_MEAN:
            tl.store(at_mean, mean, mask=some)
