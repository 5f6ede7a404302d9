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
    ONE_BLOCK: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Softmax of a row: held in registers where it fits, else read twice."""
    row = tl.program_id(0).to(tl.int64)
    source = scores + row * score_stride
    target = probabilities + row * out_stride
    columns = tl.arange(0, BLOCK)
    if ONE_BLOCK:
        inside = columns < S
        x = tl.load(source + columns, mask=inside, other=float("-inf"))
        top = tl.max(x, 0)
        powers = tl.exp(x - top)
        found = powers * (1.0 / tl.sum(powers, 0))
        found = tl.where(found < least, least, found)
        tl.store(target + columns, found.to(target.dtype.element_ty), mask=inside)
    else:
        # Each lane keeps a maximum and a sum of its own; the first block is full, so no lane stays at -inf.
        tops = tl.full((BLOCK,), float("-inf"), tl.float32)
        sums = tl.zeros((BLOCK,), tl.float32)
        for start in range(0, S, BLOCK):
            x = tl.load(source + start + columns, mask=start + columns < S, other=float("-inf"))
            higher = tl.maximum(tops, x)
            sums = sums * tl.exp(tops - higher) + tl.exp(x - higher)
            tops = higher
        top = tl.max(tops, 0)
        total = tl.sum(sums * tl.exp(tops - top), 0)
        for start in range(0, S, BLOCK):
            inside = start + columns < S
            x = tl.load(source + start + columns, mask=inside, other=float("-inf"))
            found = tl.exp(x - top) * (1.0 / total)
            found = tl.where(found < least, least, found)
            tl.store(target + start + columns, found.to(target.dtype.element_ty), mask=inside)


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
