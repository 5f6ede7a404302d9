"""Triton kernels of the softmax over rows and of its gradient. One program computes one row.

A row that is HELD is kept in registers, in two blocks of FIRST and REST columns, both powers of two. Rows of 3 · 2^k
symbols, as grammars with twice as many preterminals as nonterminals have, then need no padding. Other rows are read
twice, FIRST columns at a time.
"""

# mypy: ignore-errors
import triton
import triton.language as tl


@triton.jit
def _store_raised(target, columns, probability, least, S):
    """Store probabilities, raising those below ``least`` to it; NaN stays NaN."""
    probability = tl.where(probability < least, least, probability)
    tl.store(target + columns, probability.to(target.dtype.element_ty), mask=columns < S)


@triton.jit
def softmax_fwd_kernel(
    logits,  # [rows, S], float32
    probabilities,  # out [rows, S]
    S,
    least,
    logit_stride,
    out_stride,
    HELD: tl.constexpr,
    FIRST: tl.constexpr,
    REST: tl.constexpr,  # 0 for none
):
    """Softmax of a row."""
    row = tl.program_id(0).to(tl.int64)
    source = logits + row * logit_stride
    target = probabilities + row * out_stride
    columns = tl.arange(0, FIRST)
    if HELD:
        exponentials = tl.load(source + columns, mask=columns < S, other=float("-inf"))
        top = tl.max(exponentials, 0)
        if REST > 0:
            beyond = FIRST + tl.arange(0, REST)
            more = tl.load(source + beyond, mask=beyond < S, other=float("-inf"))
            top = tl.maximum(top, tl.max(more, 0))
        exponentials = tl.exp(exponentials - top)
        total = tl.sum(exponentials, 0)
        if REST > 0:
            more = tl.exp(more - top)
            total += tl.sum(more, 0)
            _store_raised(target, beyond, more * (1.0 / total), least, S)
        _store_raised(target, columns, exponentials * (1.0 / total), least, S)
    else:
        # Each lane has its own running maximum and sum. The first block is full, so no maximum stays at -inf.
        tops = tl.full((FIRST,), float("-inf"), tl.float32)
        sums = tl.zeros((FIRST,), tl.float32)
        for start in range(0, S, FIRST):
            x = tl.load(source + start + columns, mask=start + columns < S, other=float("-inf"))
            higher = tl.maximum(tops, x)
            sums = sums * tl.exp(tops - higher) + tl.exp(x - higher)
            tops = higher
        top = tl.max(tops, 0)
        total = tl.sum(sums * tl.exp(tops - top), 0)
        for start in range(0, S, FIRST):
            here = start + columns
            x = tl.load(source + here, mask=here < S, other=float("-inf"))
            _store_raised(target, here, tl.exp(x - top) * (1.0 / total), least, S)


@triton.jit
def _load_both(p, dp, columns, S):
    """Load probabilities and their gradient, 0 beyond the end of the row."""
    inside = columns < S
    return (
        tl.load(p + columns, mask=inside, other=0.0).to(tl.float32),
        tl.load(dp + columns, mask=inside, other=0.0).to(tl.float32),
    )


@triton.jit
def softmax_bwd_kernel(
    probabilities,  # [rows, S]
    grad,  # [rows, S]: the gradient of the probabilities
    out,  # out [rows, S]: the gradient of the logits
    S,
    stride,
    grad_stride,
    out_stride,
    HELD: tl.constexpr,
    FIRST: tl.constexpr,
    REST: tl.constexpr,
):
    """p · (dp − Σ p dp) of a row."""
    row = tl.program_id(0).to(tl.int64)
    at_p = probabilities + row * stride
    at_dp = grad + row * grad_stride
    target = out + row * out_stride
    columns = tl.arange(0, FIRST)
    if HELD:
        p, dp = _load_both(at_p, at_dp, columns, S)
        total = tl.sum(p * dp, 0)
        if REST > 0:
            beyond = FIRST + tl.arange(0, REST)
            more_p, more_dp = _load_both(at_p, at_dp, beyond, S)
            total += tl.sum(more_p * more_dp, 0)
            tl.store(target + beyond, (more_p * (more_dp - total)).to(target.dtype.element_ty), mask=beyond < S)
        tl.store(target + columns, (p * (dp - total)).to(target.dtype.element_ty), mask=columns < S)
    else:
        sums = tl.zeros((FIRST,), tl.float32)
        for start in range(0, S, FIRST):
            p, dp = _load_both(at_p, at_dp, start + columns, S)
            sums += p * dp
        total = tl.sum(sums, 0)
        for start in range(0, S, FIRST):
            here = start + columns
            p, dp = _load_both(at_p, at_dp, here, S)
            tl.store(target + here, (p * (dp - total)).to(target.dtype.element_ty), mask=here < S)
