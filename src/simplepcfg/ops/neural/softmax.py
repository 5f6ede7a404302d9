"""Softmax of matrix products, never holding the scores: a few rows at a time they pass through a small buffer."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from simplepcfg.errors import InputError
from simplepcfg.ops.neural.streams import pipeline, slots
from simplepcfg.ops.products import aligned_rows, mm_wide, row_parts, wide_type

# Float32 scores of this size stay in the second-level cache of a large GPU between the product and the softmax. Of
# long rows so few do that small products and softmaxes waste more than memory costs: kernels take this many bytes.
CACHED_BYTES, LONGEST_CACHED = 24 << 20, 8192
SCORE_BYTES = 1 << 30
LEAST_SCORE_ROWS = 256
# On a CPU the elementwise passes over a product are made within a core's cache.
CPU_CACHE_BYTES = 1 << 20
# Longest rows that a program holds in registers, and the blocks in which it reads longer ones.
LONGEST_HELD = {"forward": 32768, "backward": 24576}
BLOCK = 8192
# Warps of a program. Rows of forward between these lengths, which are held in two blocks, fit on half as many just so:
# two programs share a multiprocessor, and one reads or writes while the other takes powers.
WARPS, TWO_BLOCKS = 16, (16384, 24576)
# No rule has a lower probability. Where networks leap, scores may lie hundreds apart; a rule at 0 would then cut off
# sentences, and without a gradient for good. README.md says why this is low enough to change nothing else, and high
# enough for the inside algorithm in float32.
LEAST = 2.0**-86
LEAST_FACTOR = 2.0**-43  # of probabilities whose products with each other are rules


def check_least(least: float) -> None:
    """InputError for a least probability that lets a rule be 0, or is none."""
    if not 0 < least < 1:
        raise InputError(f"least = {least}; give a probability more than 0 and less than 1, such as {LEAST:.1e}")


def rule_softmax(scores: Tensor, *, least: float = LEAST) -> Tensor:
    """By rows, each probability at least ``least``; differentiable as often as wanted."""
    return _RuleSoftmax.apply(scores, least)


class _RuleSoftmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> Tensor:
        scores, least = inputs
        found = scores.softmax(-1).clamp_(min=least)
        ctx.save_for_backward(found)
        return found

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        (p,) = ctx.saved_tensors
        return torch.ops.aten._softmax_backward_data(grads[0], p, -1, p.dtype), None


def score_rows(rows: int, columns: int, fused: bool) -> list[slice]:
    """Which rows' scores are made at a time."""
    size = SCORE_BYTES if fused and columns > LONGEST_CACHED else CACHED_BYTES
    return row_parts(rows, max(LEAST_SCORE_ROWS, size // (4 * columns)), 8)


def softmax_of_product(
    a: Tensor,
    b: Tensor,
    out: Tensor | None,
    log_sums: Tensor | None,
    fused: bool,
    least: float = 0.0,
    seen: Callable[[Tensor, slice], None] | None = None,
) -> None:
    """out = softmax(a bᵀ) by rows and log_sums = log Σ exp(a bᵀ), where they are given; a [n, D], b [S, D].

    What is below ``least`` is raised to it. ``seen`` is shown the scores of some rows before they are overwritten.
    Fused kernels know ``out`` alone.
    """
    assert not fused or out is not None
    if out is not None and not fused:
        torch.mm(a, b.T, out=out)  # as large as the result: it is made there
        at_once = out.shape[0] if out.is_cuda else CPU_CACHE_BYTES // (out.element_size() * out.shape[1])
        for part in row_parts(out.shape[0], at_once):
            if seen is not None:
                seen(out[part], part)
            _plain_softmax(out[part], None if log_sums is None else log_sums[part], least)
        return
    parts = score_rows(a.shape[0], b.shape[0], fused)
    scores = [
        aligned_rows(a, parts[0].stop, b.shape[0], wide_type(a.dtype)) for _ in range(slots(len(parts), a.device))
    ]

    def product(k: int, slot: int) -> None:
        mm_wide(a[parts[k]], b.T, scores[slot][: parts[k].stop - parts[k].start])

    def normalise(k: int, slot: int) -> None:
        here = scores[slot][: parts[k].stop - parts[k].start]
        if out is not None:
            _fused_softmax(here, out[parts[k]], least)
            return
        if seen is not None:
            seen(here, parts[k])
        _plain_softmax(here, None if log_sums is None else log_sums[parts[k]], least)

    pipeline(len(parts), product, normalise, a.device, aside="use")


def softmax_backward(p: Tensor, grad: Tensor, out: Tensor, fused: bool) -> None:
    """out = the gradient by the scores, from rows of probabilities and the gradient by them: all [rows, S]."""
    if fused:
        _fused_softmax_backward(p, grad, out)
        return
    torch.mul(p, grad, out=out)
    out.addcmul_(p, out.sum(-1, keepdim=True), value=-1.0)


def _plain_softmax(scores: Tensor, log_sums: Tensor | None, least: float) -> None:
    """In place."""
    top = scores.amax(-1, keepdim=True)
    total = scores.sub_(top).exp_().sum(-1, keepdim=True)
    if log_sums is not None:
        torch.add(top, total.log(), out=log_sums.unsqueeze(-1))
    scores.div_(total)
    if least:
        scores.clamp_(min=least)


def _fused_softmax(scores: Tensor, out: Tensor, least: float) -> None:
    from simplepcfg.ops.neural.softmax_kernels import softmax_fwd_kernel

    rows, columns = scores.shape
    softmax_fwd_kernel[(rows,)](
        scores, out, columns, least, scores.stride(0), out.stride(0), **_shape("forward", columns)
    )


def _fused_softmax_backward(p: Tensor, grad: Tensor, out: Tensor) -> None:
    from simplepcfg.ops.neural.softmax_kernels import softmax_bwd_kernel

    rows, columns = p.shape
    softmax_bwd_kernel[(rows,)](
        p, grad, out, columns, p.stride(0), grad.stride(0), out.stride(0), **_shape("backward", columns)
    )


def _shape(direction: str, columns: int) -> dict[str, int]:
    """Whether a program holds its row, in which blocks, and on how many warps."""
    if columns > LONGEST_HELD[direction]:
        return {"HELD": False, "FIRST": BLOCK, "REST": 0, "num_warps": WARPS}
    block = _power_of_two(columns)
    rest = _power_of_two(columns - block // 2)
    warps = min(WARPS, max(1, block // 1024))
    if direction == "forward":
        in_two = TWO_BLOCKS[0] < columns <= TWO_BLOCKS[1]
        warps = max(1, warps // 2) if in_two else warps
    else:
        in_two = rest < block // 2
    first, rest = (block // 2, rest) if in_two else (block, 0)
    return {"HELD": True, "FIRST": first, "REST": rest, "num_warps": warps}


def _power_of_two(number: int) -> int:
    """At least the number, and at least 2."""
    return 1 << max(number - 1, 1).bit_length()
