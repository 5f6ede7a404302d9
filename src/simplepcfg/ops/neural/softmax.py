"""Softmax of matrix products, whose logits are computed for some rows at a time in a small buffer."""

from collections.abc import Callable

import torch
from torch import Tensor

from simplepcfg.errors import InputError
from simplepcfg.ops.autograd_context import Context
from simplepcfg.ops.products import aligned_rows, mm_wide, power_of_two, row_parts, wide_type

# Float32 logits of CACHED_BYTES stay in the L2 cache of a large GPU between the product and the softmax. For rows
# longer than LONGEST_CACHED so few rows fit that the products are too small to be efficient: LOGIT_BYTES are used
# instead.
CACHED_BYTES, LONGEST_CACHED = 24 << 20, 8192
LOGIT_BYTES = 1 << 30
LEAST_LOGIT_ROWS = 256
# On a CPU the elementwise passes over a product are done in blocks of this size, which fit the cache of one core.
CPU_CACHE_BYTES = 1 << 20
# The longest rows that a program holds in registers, and the size of the blocks in which it reads longer ones.
LONGEST_HELD = {"forward": 32768, "backward": 24576}
BLOCK = 8192
# Warps of a program. In the forward pass, rows of a length within TWO_BLOCKS are held in two blocks on half as many
# warps: two programs then share a multiprocessor, and one reads or writes while the other computes exponentials.
WARPS, TWO_BLOCKS = 16, (16384, 24576)
# The lowest probability of a rule. Logits can come to differ by hundreds in training. Rules that underflow to 0 could
# make a sentence impossible, and without a gradient it would stay so. README.md explains why this value is low enough
# to change nothing else, and high enough for the inside algorithm in float32.
LEAST = 2.0**-86
LEAST_FACTOR = 2.0**-43  # the lowest probability in factors whose products are rules


def check_least(least: float) -> None:
    """Raise InputError unless 0 < least < 1."""
    if not 0 < least < 1:
        raise InputError(f"least = {least}; give a probability more than 0 and less than 1, such as {LEAST:.1e}")


def rule_softmax(logits: Tensor, *, least: float = LEAST) -> Tensor:
    """Compute the softmax over the last dimension, with probabilities below ``least`` raised to it.

    The gradient is that of a softmax with the raised probabilities. It can be differentiated any number of times.
    """
    return _RuleSoftmax.apply(logits, least)


class _RuleSoftmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Context, logits: Tensor, least: float) -> Tensor:
        probabilities = logits.softmax(-1).clamp_(min=least)
        ctx.save_for_backward(probabilities)
        return probabilities

    @staticmethod
    def backward(ctx: Context, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (p,) = ctx.saved_tensors
        return torch.ops.aten._softmax_backward_data(grads[0], p, -1, p.dtype), None


def logit_row_parts(rows: int, columns: int, fused: bool) -> list[slice]:
    """Split rows into the parts whose logits are computed at a time."""
    size = LOGIT_BYTES if fused and columns > LONGEST_CACHED else CACHED_BYTES
    return row_parts(rows, max(LEAST_LOGIT_ROWS, size // (4 * columns)), 8)


def softmax_of_product(
    a: Tensor,
    b: Tensor,
    out: Tensor | None,
    log_sums: Tensor | None,
    fused: bool,
    least: float = 0.0,
    on_logits: Callable[[Tensor, slice], None] | None = None,
) -> None:
    """Compute softmax(a bᵀ) by rows into ``out`` [n, S] and log Σ exp(a bᵀ) into ``log_sums`` [n], if they are given.

    Args:
        a, b: ``[n, D]`` and ``[S, D]``.
        fused: whether to use the Triton kernels, which support ``out`` only.
        least: probabilities below this are raised to it.
        on_logits: called with the logits of some rows and their slice, before they are overwritten.
    """
    assert not fused or out is not None
    if out is not None and not fused:
        torch.mm(a, b.T, out=out)  # as large as the result: it is made there
        at_once = out.shape[0] if out.is_cuda else CPU_CACHE_BYTES // (out.element_size() * out.shape[1])
        for part in row_parts(out.shape[0], at_once):
            if on_logits is not None:
                on_logits(out[part], part)
            _plain_softmax(out[part], None if log_sums is None else log_sums[part], least)
        return
    parts = logit_row_parts(a.shape[0], b.shape[0], fused)
    logits = aligned_rows(a, parts[0].stop, b.shape[0], wide_type(a.dtype))
    for part in parts:
        here = logits[: part.stop - part.start]
        mm_wide(a[part], b.T, here)
        if out is not None:
            _fused_softmax(here, out[part], least)
            continue
        if on_logits is not None:
            on_logits(here, part)
        _plain_softmax(here, None if log_sums is None else log_sums[part], least)


def softmax_backward(p: Tensor, grad: Tensor, out: Tensor, fused: bool) -> None:
    """Compute the gradient of the logits into ``out``, from the probabilities and their gradient: [rows, S] each."""
    if fused:
        _fused_softmax_backward(p, grad, out)
        return
    torch.mul(p, grad, out=out)
    out.addcmul_(p, out.sum(-1, keepdim=True), value=-1.0)


def _plain_softmax(logits: Tensor, log_sums: Tensor | None, least: float) -> None:
    """Replace logits by probabilities in place."""
    top = logits.amax(-1, keepdim=True)
    total = logits.sub_(top).exp_().sum(-1, keepdim=True)
    if log_sums is not None:
        torch.add(top, total.log(), out=log_sums.unsqueeze(-1))
    logits.div_(total)
    if least:
        logits.clamp_(min=least)


def _fused_softmax(logits: Tensor, out: Tensor, least: float) -> None:
    from simplepcfg.ops.neural.softmax_kernels import softmax_fwd_kernel

    rows, columns = logits.shape
    softmax_fwd_kernel[(rows,)](
        logits, out, columns, least, logits.stride(0), out.stride(0), **_shape("forward", columns)
    )


def _fused_softmax_backward(p: Tensor, grad: Tensor, out: Tensor) -> None:
    from simplepcfg.ops.neural.softmax_kernels import softmax_bwd_kernel

    rows, columns = p.shape
    softmax_bwd_kernel[(rows,)](
        p, grad, out, columns, p.stride(0), grad.stride(0), out.stride(0), **_shape("backward", columns)
    )


def _shape(direction: str, columns: int) -> dict[str, int]:
    """Return the launch parameters: whether a program holds its row, in which blocks, and on how many warps."""
    if columns > LONGEST_HELD[direction]:
        return {"HELD": False, "FIRST": BLOCK, "REST": 0, "num_warps": WARPS}
    block = power_of_two(columns)
    rest = power_of_two(columns - block // 2)
    warps = min(WARPS, max(1, block // 1024))
    if direction == "forward":
        in_two = TWO_BLOCKS[0] < columns <= TWO_BLOCKS[1]
        warps = max(1, warps // 2) if in_two else warps
    else:
        in_two = rest < block // 2
    first, rest = (block // 2, rest) if in_two else (block, 0)
    return {"HELD": True, "FIRST": first, "REST": rest, "num_warps": warps}
