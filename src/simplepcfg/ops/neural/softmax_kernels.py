"""Triton kernels of row softmaxes: scores in, probabilities out, and back. A row belongs to one program."""

# mypy: ignore-errors
import triton
import triton.language as tl


@triton.jit
def softmax_fwd_kernel(
    scores,  # [rows, S], float32
    probabilities,  # out [rows, S]
    S,
    least,  # probabilities below this are raised to it; NaN stays what it is
    score_stride,
    out_stride,
    BLOCK: tl.constexpr,
):
    """Softmax of a row, held in registers."""
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK)
    inside = columns < S
    x = tl.load(scores + row * score_stride + columns, mask=inside, other=float("-inf"))
    powers = tl.exp(x - tl.max(x, 0))
    found = powers * (1.0 / tl.sum(powers, 0))
    found = tl.where(found < least, least, found)
    tl.store(probabilities + row * out_stride + columns, found.to(probabilities.dtype.element_ty), mask=inside)


@triton.jit
def softmax_bwd_kernel(
    probabilities,  # [rows, S]
    grad,  # [rows, S]: by the probabilities
    out,  # [rows, S]: by the scores
    S,
    stride,
    grad_stride,
    out_stride,
    ONE_BLOCK: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """p · (dp − Σ p dp) of a row."""
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK)
    if ONE_BLOCK:
        inside = columns < S
        p = tl.load(probabilities + row * stride + columns, mask=inside, other=0.0).to(tl.float32)
        dp = tl.load(grad + row * grad_stride + columns, mask=inside, other=0.0).to(tl.float32)
        total = tl.sum(p * dp, 0)
        tl.store(out + row * out_stride + columns, (p * (dp - total)).to(out.dtype.element_ty), mask=inside)
    else:
        sums = tl.zeros((BLOCK,), tl.float32)
        for start in range(0, S, BLOCK):
            inside = start + columns < S
            p = tl.load(probabilities + row * stride + start + columns, mask=inside, other=0.0).to(tl.float32)
            dp = tl.load(grad + row * grad_stride + start + columns, mask=inside, other=0.0).to(tl.float32)
            sums += p * dp
        total = tl.sum(sums, 0)
        for start in range(0, S, BLOCK):
            inside = start + columns < S
            p = tl.load(probabilities + row * stride + start + columns, mask=inside, other=0.0).to(tl.float32)
            dp = tl.load(grad + row * grad_stride + start + columns, mask=inside, other=0.0).to(tl.float32)
            found = (p * (dp - total)).to(out.dtype.element_ty)
            tl.store(out + row * out_stride + start + columns, found, mask=inside)
