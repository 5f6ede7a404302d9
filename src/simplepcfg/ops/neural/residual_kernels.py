"""Triton kernels of the networks' backward: a ReLU's mask with its bias' gradient, and a sum of gradients."""

# mypy: ignore-errors
import triton
import triton.language as tl


@triton.jit
def relu_bwd_kernel(
    grad,  # [rows, D]
    activation,  # [rows, D]: the ReLU's result, or anything where HAS_RELU is false
    out,  # [rows, D]: grad where the activation is positive; may be grad itself; not written where HAS_RELU is false
    copy,  # [rows, D]: grad as it is, where HAS_COPY
    column_sums,  # out [row blocks, D], float32
    rows,
    D,
    grad_stride,
    out_stride,
    copy_stride,
    HAS_RELU: tl.constexpr,
    HAS_COPY: tl.constexpr,
    ROWS: tl.constexpr,  # of a program
    BLOCK_D: tl.constexpr,
):
    """Masked rows and, for this block of rows, their column sums: no atomics, a fixed order."""
    block = tl.program_id(0)
    columns = tl.program_id(1) * BLOCK_D + tl.arange(0, BLOCK_D)
    # All rows at once: out may be grad itself, so in a loop no load could begin before the last store.
    row = (block * ROWS + tl.arange(0, ROWS)).to(tl.int64)
    inside = (row < rows)[:, None] & (columns < D)[None, :]
    place = row[:, None] * D + columns[None, :]
    value = tl.load(grad + row[:, None] * grad_stride + columns[None, :], mask=inside, other=0.0)
    if HAS_COPY:
        tl.store(copy + row[:, None] * copy_stride + columns[None, :], value, mask=inside)
    if HAS_RELU:
        positive = tl.load(activation + place, mask=inside, other=0.0) > 0
        value = tl.where(positive, value, 0.0)
        tl.store(out + row[:, None] * out_stride + columns[None, :], value, mask=inside)
    tl.store(column_sums + block.to(tl.int64) * D + columns, tl.sum(value.to(tl.float32), 0), mask=columns < D)


@triton.jit
def sum_gradients_kernel(
    first,  # [rows, D], contiguous
    second,  # likewise, or anything where COUNT is 1
    out,  # [rows, D], float32, contiguous
    size,  # rows · D
    COUNT: tl.constexpr,  # 1 or 2 gradients
    ADD: tl.constexpr,  # whether to what is there already
    BLOCK: tl.constexpr,
):
    """out = first + second, or out += first + second, in float32: what residual connections hand on to the table."""
    place = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = place < size
    total = tl.load(first + place, mask=inside, other=0.0).to(tl.float32)
    if COUNT > 1:
        total += tl.load(second + place, mask=inside, other=0.0).to(tl.float32)
    if ADD:
        total += tl.load(out + place, mask=inside, other=0.0)
    tl.store(out + place, total, mask=inside)
