"""Triton kernels of the backward pass of networks: ReLU masks with column sums, and sums of gradients."""

# mypy: ignore-errors
import triton
import triton.language as tl


@triton.jit
def relu_bwd_kernel(
    grad,  # [rows, D]
    activation,  # [rows, D], if HAS_RELU: the output of the ReLU
    out,  # out [rows, D], if HAS_RELU: grad where the activation is positive; may be the same tensor as grad
    copy,  # out [rows, D], if HAS_COPY: a copy of grad
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
    """Mask a block of rows and compute its column sums, without atomics and in a fixed order."""
    block = tl.program_id(0)
    columns = tl.program_id(1) * BLOCK_D + tl.arange(0, BLOCK_D)
    # All rows are loaded at once. As out may be grad, a loop would have to wait for each store before the next load.
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
    second,  # [rows, D], contiguous, if COUNT is 2
    out,  # [rows, D], float32, contiguous
    size,  # rows · D
    COUNT: tl.constexpr,  # 1 or 2 gradients
    ADD: tl.constexpr,  # whether to add to the contents of out
    BLOCK: tl.constexpr,
):
    """out = first + second, or out += first + second, in float32, for the gradients of residual connections."""
    place = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = place < size
    total = tl.load(first + place, mask=inside, other=0.0).to(tl.float32)
    if COUNT > 1:
        total += tl.load(second + place, mask=inside, other=0.0).to(tl.float32)
    if ADD:
        total += tl.load(out + place, mask=inside, other=0.0)
    tl.store(out + place, total, mask=inside)
