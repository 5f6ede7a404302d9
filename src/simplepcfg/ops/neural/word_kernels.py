"""Triton kernels of emissions at the words of a batch: log-probabilities, sums over a word's positions, and scaling.

A word may occur at several positions. Sums over these follow links from its first position to its last, so that they
are made in a fixed order.
"""

# mypy: ignore-errors
import triton
import triton.language as tl


@triton.jit(do_not_specialize=["W"])
def word_links_kernel(
    rows,  # [B, W]: the word at each position
    firsts,  # out [B, W] int32: 1 at the first position of each word, else 0
    links,  # out [B, W] int32: the next position of the same word, or W
    W,
    BLOCK: tl.constexpr,
):
    """Find out whether a position is the first of its word, and the next position of that word."""
    own = tl.program_id(0)
    start = tl.program_id(1).to(tl.int64) * W
    word = tl.load(rows + start + own)
    before = tl.zeros((BLOCK,), tl.int32)
    after = tl.zeros((BLOCK,), tl.int32) + W
    for begin in range(0, W, BLOCK):
        places = begin + tl.arange(0, BLOCK)
        same = tl.load(rows + start + places, mask=places < W, other=-1) == word
        before += (same & (places < own)).to(tl.int32)
        after = tl.minimum(after, tl.where(same & (places > own), places, W))
    tl.store(firsts + start + own, (tl.sum(before, 0) == 0).to(tl.int32))
    tl.store(links + start + own, tl.min(after, 0))


@triton.jit
def _sum_over_positions(matrix, links, first, columns, W, D, KIND: tl.constexpr, BLOCK: tl.constexpr):
    """The sum of the rows of ``matrix`` [W, D] at all positions of a word, from its first one on."""
    sums = tl.zeros((BLOCK,), KIND)
    place = first
    while place < W:
        sums += tl.load(matrix + place.to(tl.int64) * D + columns, mask=columns < D, other=0.0).to(KIND)
        place = tl.load(links + place)
    return sums


@triton.jit(do_not_specialize=["W"])
def add_occurrences_kernel(
    total,  # [V, D], added to
    by_occurrence,  # [W, D]
    rows,  # [W]: the row of ``total`` that each occurrence belongs to
    firsts,
    links,
    W,
    D,
    BLOCK: tl.constexpr,
):
    """Add to ``total`` the sum over each word's positions."""
    own = tl.program_id(0)
    if tl.load(firsts + own) > 0:
        columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
        target = total + tl.load(rows + own).to(tl.int64) * D + columns
        sums = _sum_over_positions(by_occurrence, links, own, columns, W, D, total.dtype.element_ty, BLOCK)
        tl.store(target, tl.load(target, mask=columns < D, other=0.0) + sums, mask=columns < D)


@triton.jit(do_not_specialize=["W"])
def word_log_probabilities_kernel(
    logits,  # [B, W, P], in place
    log_sums,  # [B, P]: the normaliser
    exponentials,  # [B · P, V], if CLEARS: those of the batch's words are set to 0
    rows,  # [B, W]
    W,
    P,
    stride,  # of ``exponentials``
    CLEARS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Log-probabilities of one position's word from its logits, at most 0, for a block of preterminals."""
    sentence = tl.program_id(2).to(tl.int64)
    place = sentence * W + tl.program_id(0)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = columns < P
    here = logits + place * P + columns
    log_probability = tl.load(here, mask=inside, other=0.0) - tl.load(
        log_sums + sentence * P + columns, mask=inside, other=0.0
    )
    tl.store(here, tl.where(log_probability > 0.0, 0.0, log_probability), mask=inside)  # NaN stays NaN
    if CLEARS:
        target = exponentials + (sentence * P + columns) * stride + tl.load(rows + place)
        tl.store(target, tl.zeros((BLOCK,), exponentials.dtype.element_ty), mask=inside)


@triton.jit(do_not_specialize=["W"])
def word_logit_gradients_kernel(
    grad,  # [B, W, P]: by log-probabilities
    log_probabilities,  # [B, W, P]
    log_sums,  # [B, P]
    by_log_sums,  # [B, P]: the gradient of the normaliser
    firsts,  # [B, W]
    links,  # [B, W]
    out,  # out [B, W, P]
    W,
    P,
    ROUNDING: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """The gradient of a word's logits for a block of preterminals, at the word's first position; 0 at later ones."""
    own = tl.program_id(0)
    sentence = tl.program_id(2).to(tl.int64)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = columns < P
    here = (sentence * W + own) * P + columns
    gradient = tl.zeros((BLOCK,), log_sums.dtype.element_ty)
    if tl.load(firsts + sentence * W + own) > 0:
        gradient = _sum_over_positions(
            grad + sentence * W * P, links + sentence * W, own, columns, W, P, log_sums.dtype.element_ty, BLOCK
        )
        log_probability = tl.load(log_probabilities + here, mask=inside, other=0.0)
        normaliser = tl.load(log_sums + sentence * P + columns, mask=inside, other=0.0)
        is_certain = log_probability >= -ROUNDING * (4.0 + tl.abs(normaliser))
        probability = tl.exp(tl.where(is_certain, 0.0, log_probability))
        gradient += probability * tl.load(by_log_sums + sentence * P + columns, mask=inside, other=0.0)
    tl.store(out + here, gradient.to(out.dtype.element_ty), mask=inside)


@triton.jit
def scale_rows_kernel(
    rows,  # [n, D]
    scales,  # [n], float32
    added,  # [n, D], or anything where HAS_ADDED is false
    out,  # [n, D], of any type
    D,
    HAS_ADDED: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """out = scale · row, plus ``added`` if HAS_ADDED."""
    row = tl.program_id(0).to(tl.int64)
    scale = tl.load(scales + row)
    for start in range(0, D, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        inside = columns < D
        scaled = tl.load(rows + row * D + columns, mask=inside, other=0.0).to(tl.float32) * scale
        if HAS_ADDED:
            scaled += tl.load(added + row * D + columns, mask=inside, other=0.0).to(tl.float32)
        tl.store(out + row * D + columns, scaled.to(out.dtype.element_ty), mask=inside)
