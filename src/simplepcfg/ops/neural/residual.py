"""Several residual networks over rows of one table, with a backward of their own: narrow activations, wide sums.

A network is y = W x + b, then for each block y ← y + ReLU(V ReLU(U y + p) + q). Its weights come as W, b, then U, p, V,
q a block. Networks read the table together, so its gradient is summed where it is made and no slice is ever padded.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from simplepcfg.errors import InputError
from simplepcfg.ops.neural.again import differentiable_gradients
from simplepcfg.ops.neural.naive import naive_residual_network
from simplepcfg.ops.neural.products import (
    add_mm_wide,
    check_precision,
    matrix_mode,
    mm_wide,
    runs_fused,
    wide_type,
)

# Rows whose column sums one program makes, and how many it holds at a time.
ROWS_A_PROGRAM = 64
ROWS_AT_ONCE = 16
COLUMNS_AT_ONCE = 128

Rows = tuple[int, int]


def residual_networks(
    table: Tensor,
    rows: Sequence[Rows],
    weights: Sequence[Sequence[Tensor]],
    *,
    precision: str | None = None,
) -> tuple[Tensor, ...]:
    """The k-th network's output for the rows ``rows[k]`` = (start, stop) of ``table`` [R, D]: [stop − start, D'] each.

    In "bf16" on a card activations are bfloat16 and outputs are too; elsewhere all are as wide as the table.
    """
    check_precision(precision)
    for (start, stop), each in zip(rows, weights, strict=True):
        if not 0 <= start < stop <= table.shape[0]:
            raise InputError(f"rows {start} to {stop} are not rows of a table of {table.shape[0]}")
        if len(each) < 2 or len(each) % 4 != 2:
            raise InputError(f"a network has {len(each)} weights; it must have 2 and then 4 a residual block")
    flat = [tensor for each in weights for tensor in each]
    counts = [len(each) for each in weights]
    return _ResidualNetworks.apply(table, tuple(rows), counts, precision, runs_fused(precision, table), *flat)


class _ResidualNetworks(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> tuple[Tensor, ...]:
        table, rows, counts, precision, fused, *flat = inputs
        kind = torch.bfloat16 if fused else wide_type(table.dtype)
        narrow_table, *narrow = _cast([table, *flat], kind)
        outputs, saved = [], []
        with matrix_mode(precision, narrow[0].device):
            for (start, stop), weights in zip(rows, _groups(narrow, counts), strict=True):
                y, kept = _forward(narrow_table[start:stop], weights)
                outputs.append(y)
                saved += kept
        ctx.save_for_backward(table, *flat, narrow_table, *narrow, *saved)
        ctx.settings = rows, counts, precision, fused
        ctx.set_materialize_grads(False)
        return tuple(outputs)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        rows, counts, precision, fused = ctx.settings
        count = 1 + sum(counts)
        given, narrow = ctx.saved_tensors[:count], ctx.saved_tensors[count : 2 * count]
        if torch.is_grad_enabled():
            needs = [ctx.needs_input_grad[0], *ctx.needs_input_grad[5:]]

            def naive(table: Tensor, *flat: Tensor) -> tuple[Tensor, ...]:
                parts = zip(rows, _groups(flat, counts), strict=True)
                return tuple(naive_residual_network(table[start:stop], weights) for (start, stop), weights in parts)

            by_table, *by_flat = differentiable_gradients(naive, given, needs, grads)
            return by_table, None, None, None, None, *by_flat
        kept = _groups(ctx.saved_tensors[2 * count :], [3 * (number - 2) // 4 for number in counts])
        by_table = torch.empty_like(given[0], dtype=wide_type(narrow[0].dtype), memory_format=torch.contiguous_format)
        found: list[list[Tensor | None]] = [[None] * number for number in counts]
        # A network over the whole table goes first: it writes what the others add to.
        order = sorted(range(len(rows)), key=lambda k: rows[k] != (0, by_table.shape[0]) or grads[k] is None)
        weights = _groups(narrow[1:], counts)
        if rows[order[0]] != (0, by_table.shape[0]) or grads[order[0]] is None:
            by_table.zero_()
        with matrix_mode(precision, narrow[0].device):
            for place, k in enumerate(order):
                if grads[k] is None:
                    continue
                part = slice(*rows[k])
                first, found[k] = _backward(narrow[0][part], weights[k], kept[k], grads[k].contiguous(), fused)
                if place == 0 and rows[k] == (0, by_table.shape[0]):
                    mm_wide(first, weights[k][0], by_table)
                else:
                    add_mm_wide(by_table[part], first, weights[k][0])
        flat = [tensor for each in found for tensor in each]
        by_flat = [None if one is None else one.to(two.dtype) for one, two in zip(flat, given[1:], strict=True)]
        return by_table.to(given[0].dtype), None, None, None, None, *by_flat


def _forward(x: Tensor, weights: Sequence[Tensor]) -> tuple[Tensor, list[Tensor]]:
    """The output, and what backward needs of each block: its input and both activations."""
    y = torch.addmm(weights[1], x, weights[0].T)
    kept = []
    for inner, inner_bias, outer, outer_bias in _groups(weights[2:], [4] * (len(weights) // 4)):
        middle = torch._addmm_activation(inner_bias, y, inner.T)  # a product, a bias and a ReLU in one pass
        last = torch._addmm_activation(outer_bias, middle, outer.T)
        kept += [y, middle, last]
        y = y + last
    return y, kept


def _backward(
    x: Tensor, weights: Sequence[Tensor], kept: Sequence[Tensor], grad: Tensor, fused: bool
) -> tuple[Tensor, list[Tensor | None]]:
    """The gradient by the first layer's output, and those by the weights."""
    found: list[Tensor | None] = []
    blocks = len(weights) // 4
    own = False  # whether ``grad`` is ours to write to
    for block in reversed(range(blocks)):
        inner, _, outer, _ = weights[2 + 4 * block : 6 + 4 * block]
        y, middle, last = kept[3 * block : 3 * block + 3]
        by_last, by_outer_bias = _relu_backward(grad, last, fused)
        by_outer = _weight_gradient(by_last, middle)
        by_middle, by_inner_bias = _relu_backward(torch.mm(by_last, outer), middle, fused)
        by_inner = _weight_gradient(by_middle, y)
        grad = grad.addmm_(by_middle, inner) if own else torch.addmm(grad, by_middle, inner)
        own = True
        found = [by_inner, by_inner_bias, by_outer, by_outer_bias, *found]
    _, by_bias = _relu_backward(grad, None, fused)
    return grad, [_weight_gradient(grad, x), by_bias, *found]


def _weight_gradient(by_output: Tensor, of_input: Tensor) -> Tensor:
    out = by_output.new_empty(by_output.shape[1], of_input.shape[1], dtype=wide_type(by_output.dtype))
    return mm_wide(by_output.T, of_input, out)


def _relu_backward(grad: Tensor, activation: Tensor | None, fused: bool) -> tuple[Tensor, Tensor]:
    """The gradient by what a ReLU was given (all of it where there is no ReLU), and its column sums."""
    if not fused:
        if activation is not None:
            grad = torch.ops.aten.threshold_backward(grad, activation, 0)
        return grad, grad.sum(0)
    from simplepcfg.ops.neural.residual_kernels import relu_bwd_kernel

    rows, width = grad.shape
    out = grad if activation is None else torch.empty_like(grad)
    blocks = -(-rows // ROWS_A_PROGRAM)
    columns = min(COLUMNS_AT_ONCE, 1 << max(width - 1, 1).bit_length())
    sums = grad.new_empty(blocks, width, dtype=torch.float32)
    relu_bwd_kernel[(blocks, -(-width // columns))](
        grad, grad if activation is None else activation, out, sums, rows, width, grad.stride(0),
        HAS_RELU=activation is not None, ROWS=ROWS_A_PROGRAM, BLOCK_R=ROWS_AT_ONCE, BLOCK_D=columns, num_warps=4,
    )  # fmt: skip
    return out, sums.sum(0)


def _groups(flat: Sequence[Tensor], counts: Sequence[int]) -> list[Sequence[Tensor]]:
    """Consecutive parts of these lengths."""
    found, start = [], 0
    for count in counts:
        found.append(flat[start : start + count])
        start += count
    return found


def _cast(tensors: Sequence[Tensor], kind: torch.dtype) -> list[Tensor]:
    """All in one type; in one launch where any must be converted."""
    given = [tensor.detach() for tensor in tensors]
    if all(tensor.dtype == kind for tensor in given):
        return given
    made = [torch.empty_like(tensor, dtype=kind, memory_format=torch.contiguous_format) for tensor in given]
    torch._foreach_copy_(made, given)
    return made
