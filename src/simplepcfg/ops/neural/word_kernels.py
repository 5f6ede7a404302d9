"""Triton kernels of the gradients of emissions: sums over the occurrences of each word, and scaling of rows."""

# mypy: ignore-errors
import triton
import triton.language as tl


@triton.jit
def _earlier_occurrences(rows, own, word, BLOCK_W: tl.constexpr):
    """How often the word occurs before position ``own``."""
    earlier = 0
    for start in range(0, own, 8 * BLOCK_W):
        places = start + tl.arange(0, 8 * BLOCK_W)
        earlier += tl.sum((tl.load(rows + places, mask=places < own, other=-1) == word).to(tl.int32), 0)
    return earlier


@triton.jit
def _add_rows_of_word(sums, matrix, rows, first, word, columns, W, D, BLOCK_W: tl.constexpr):
    """Add the rows of ``matrix`` [W, D] at all positions of a word from ``first`` on, in order."""
    inside = columns < D
    for start in range(first, W, BLOCK_W):
        places = start + tl.arange(0, BLOCK_W)
        same = tl.load(rows + places, mask=places < W, other=-1) == word
        if tl.max(same.to(tl.int32), 0) > 0:
            source = matrix + places.to(tl.int64)[:, None] * D + columns[None, :]
            sums += tl.sum(tl.load(source, mask=same[:, None] & inside[None, :], other=0.0), 0)
    return sums


@triton.jit(do_not_specialize=["W"])
def add_occurrences_kernel(
    total,  # [V, D], added to
    by_occurrence,  # [W, D]
    rows,  # [W]: the row of ``total`` that each occurrence belongs to
    W,
    D,
    BLOCK_W: tl.constexpr,
    BLOCK_D: tl.constexpr,
):
    """The program of a word's first occurrence adds all its occurrences, in order; those of later ones return."""
    own = tl.program_id(0)
    word = tl.load(rows + own)
    columns = tl.program_id(1) * BLOCK_D + tl.arange(0, BLOCK_D)
    if _earlier_occurrences(rows, own, word, BLOCK_W) == 0:
        target = total + word.to(tl.int64) * D + columns
        inside = columns < D
        sums = tl.zeros((BLOCK_D,), total.dtype.element_ty)
        sums = _add_rows_of_word(sums, by_occurrence, rows, own, word, columns, W, D, BLOCK_W)
        tl.store(target, tl.load(target, mask=inside, other=0.0) + sums, mask=inside)


@triton.jit(do_not_specialize=["W"])
def word_logit_gradients_kernel(
    grad,  # [B, W, P]: by log-probabilities
    log_probabilities,  # [B, W, P]
    log_sums,  # [B, P]: the normaliser
    by_log_sums,  # [B, P]: the gradient of the normaliser
    rows,  # [B, W]
    out,  # out [B, W, P]
    W,
    P,
    ROUNDING: tl.constexpr,
    BLOCK_W: tl.constexpr,
    BLOCK_P: tl.constexpr,
):
    """The gradient of a word's logits for a block of preterminals, at the word's first occurrence; 0 at later ones."""
    own = tl.program_id(0)
    sentence = tl.program_id(2).to(tl.int64)
    rows += sentence * W
    word = tl.load(rows + own)
    columns = tl.program_id(1) * BLOCK_P + tl.arange(0, BLOCK_P)
    inside = columns < P
    here = (sentence * W + own) * P + columns
    found = tl.zeros((BLOCK_P,), log_sums.dtype.element_ty)
    if _earlier_occurrences(rows, own, word, BLOCK_W) == 0:
        found = _add_rows_of_word(found, grad + sentence * W * P, rows, own, word, columns, W, P, BLOCK_W)
        log_probability = tl.load(log_probabilities + here, mask=inside, other=0.0)
        normaliser = tl.load(log_sums + sentence * P + columns, mask=inside, other=0.0)
        is_certain = log_probability >= -ROUNDING * (4.0 + tl.abs(normaliser))
        probability = tl.exp(tl.where(is_certain, 0.0, log_probability))
        found += probability * tl.load(by_log_sums + sentence * P + columns, mask=inside, other=0.0)
    tl.store(out + here, found.to(out.dtype.element_ty), mask=inside)


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
        found = tl.load(rows + row * D + columns, mask=inside, other=0.0).to(tl.float32) * scale
        if HAS_ADDED:
            found += tl.load(added + row * D + columns, mask=inside, other=0.0).to(tl.float32)
        tl.store(out + row * D + columns, found.to(out.dtype.element_ty), mask=inside)
