"""Triton kernels of the gradients of emissions: scaling of rows, and sums over the occurrences of each word."""

# mypy: ignore-errors
import triton
import triton.language as tl


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
    earlier = 0
    for start in range(0, own, 8 * BLOCK_W):
        places = start + tl.arange(0, 8 * BLOCK_W)
        earlier += tl.sum((tl.load(rows + places, mask=places < own, other=-1) == word).to(tl.int32), 0)
    if earlier == 0:
        target = total + word.to(tl.int64) * D + columns
        inside = columns < D
        sums = tl.zeros((BLOCK_D,), total.dtype.element_ty)
        for start in range(own, W, BLOCK_W):
            places = start + tl.arange(0, BLOCK_W)
            same = tl.load(rows + places, mask=places < W, other=-1) == word
            if tl.max(same.to(tl.int32), 0) > 0:
                source = by_occurrence + places.to(tl.int64)[:, None] * D + columns[None, :]
                sums += tl.sum(tl.load(source, mask=same[:, None] & inside[None, :], other=0.0), 0)
        tl.store(target, tl.load(target, mask=inside, other=0.0) + sums, mask=inside)


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
