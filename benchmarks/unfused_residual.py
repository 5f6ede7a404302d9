"""Residual networks one after the other with a hand-written backward pass: what the fused ones are measured against."""

from collections.abc import Sequence

import torch
from torch import Tensor

from simplepcfg.ops.neural.residual_fused import Rows, is_residual_layer, split_by
from simplepcfg.ops.products import add_mm_wide, mm_wide, wide_type


def unfused_forward(
    table: Tensor, rows: Sequence[Rows], weights: Sequence[Sequence[Tensor]]
) -> tuple[list[Tensor], list[Tensor]]:
    """Compute ``fused_forward`` one network after the other."""
    flat = [tensor for each in weights for tensor in each]
    saved = cast([table, *flat], torch.bfloat16)
    outputs, kept = [], []
    narrow = split_by(saved[1:], [len(each) for each in weights])
    for (start, stop), each in zip(rows, narrow, strict=True):
        y, own = _forward(saved[0][start:stop], each)
        outputs.append(y)
        kept += own
    return outputs, [*saved, *kept]


def unfused_backward(
    saved: Sequence[Tensor], rows: Sequence[Rows], counts: Sequence[int], grads: Sequence[Tensor | None]
) -> tuple[Tensor, list[list[Tensor | None]]]:
    """Compute the gradients of the table and of the weights of every network, one network after the other."""
    table, count = saved[0], 1 + sum(counts)
    weights = split_by(saved[1:count], counts)
    kept = split_by(saved[count:], [_kept_count(number) for number in counts])
    by_table = torch.empty_like(table, memory_format=torch.contiguous_format)
    by_weights: list[list[Tensor | None]] = [[None] * number for number in counts]
    # A network over the whole table comes first: it writes the gradient to which the others add.
    whole = (0, table.shape[0])
    order = sorted(range(len(rows)), key=lambda k: rows[k] != whole or grads[k] is None)
    if rows[order[0]] != whole or grads[order[0]] is None:
        by_table.zero_()
    for place, k in enumerate(order):
        grad, part = grads[k], slice(*rows[k])
        if grad is None:
            continue
        grad = grad.contiguous()
        first, by_weights[k] = _backward(table[part], weights[k], kept[k], grad)
        if place == 0 and rows[k] == whole:
            mm_wide(first, weights[k][0], by_table)
        else:
            add_mm_wide(by_table[part], first, weights[k][0])
        if is_residual_layer(weights[k]):  # the residual connection passes the gradient on unchanged
            by_table[part] += grad
    return by_table, by_weights


def _kept_count(weights: int) -> int:
    """Return how many tensors `_forward` keeps for the backward pass: one for a layer, three for each block."""
    return 1 if weights == 2 else 3 * (weights - 2) // 4


def _forward(x: Tensor, weights: Sequence[Tensor]) -> tuple[Tensor, list[Tensor]]:
    """Return the output, and for backward a layer's activation, or the input and both activations of each block."""
    if is_residual_layer(weights):
        activation = torch._addmm_activation(weights[1], x, weights[0].T)  # product, bias and ReLU in one kernel
        return x + activation, [activation]
    y = torch.addmm(weights[1], x, weights[0].T)
    kept = []
    for inner, inner_bias, outer, outer_bias in split_by(weights[2:], [4] * (len(weights) // 4)):
        middle = torch._addmm_activation(inner_bias, y, inner.T)
        last = torch._addmm_activation(outer_bias, middle, outer.T)
        kept += [y, middle, last]
        y = y + last
    return y, kept


def _backward(
    x: Tensor, weights: Sequence[Tensor], kept: Sequence[Tensor], grad: Tensor
) -> tuple[Tensor, list[Tensor | None]]:
    """Compute the gradient of the first linear layer's output, and the gradients of the weights."""
    if is_residual_layer(weights):
        grad, by_bias = _relu_backward(grad, kept[0])
        return grad, [_weight_gradient(grad, x), by_bias]
    by_blocks: list[Tensor | None] = []
    blocks = len(weights) // 4
    own = False  # whether ``grad`` may be modified in place
    for block in reversed(range(blocks)):
        inner, _, outer, _ = weights[2 + 4 * block : 6 + 4 * block]
        y, middle, last = kept[3 * block : 3 * block + 3]
        by_last, by_outer_bias = _relu_backward(grad, last)
        by_outer = _weight_gradient(by_last, middle)
        by_middle, by_inner_bias = _relu_backward(torch.mm(by_last, outer), middle)
        by_inner = _weight_gradient(by_middle, y)
        grad = grad.addmm_(by_middle, inner) if own else torch.addmm(grad, by_middle, inner)
        own = True
        by_blocks = [by_inner, by_inner_bias, by_outer, by_outer_bias, *by_blocks]
    return grad, [_weight_gradient(grad, x), grad.sum(0), *by_blocks]


def _weight_gradient(by_output: Tensor, of_input: Tensor) -> Tensor:
    out = by_output.new_empty(by_output.shape[1], of_input.shape[1], dtype=wide_type(by_output.dtype))
    return mm_wide(by_output.T, of_input, out)


def _relu_backward(grad: Tensor, activation: Tensor) -> tuple[Tensor, Tensor]:
    """Compute the gradient of a ReLU's input, and its column sums."""
    grad = torch.ops.aten.threshold_backward(grad, activation, 0)
    return grad, grad.sum(0)


def cast(tensors: Sequence[Tensor], kind: torch.dtype) -> list[Tensor]:
    """Convert all tensors to one dtype, in one launch."""
    given = [tensor.detach() for tensor in tensors]
    if all(tensor.dtype == kind for tensor in given):
        return given
    made = [torch.empty_like(tensor, dtype=kind, memory_format=torch.contiguous_format) for tensor in given]
    torch._foreach_copy_(made, given)
    return made
