"""Several residual networks over rows of one table of embeddings.

A network has one of two forms, depending on the number of its weights:

- a residual layer, x + ReLU(W x + b), has W and b;
- a residual network, y = W x + b and then for each block y ← y + ReLU(V ReLU(U y + p) + q), has W, b, then U, p, V, q
  for each block.

In bfloat16 on a GPU both passes are hand-written, with weight gradients in float32. Otherwise the backward pass
computes the forward pass again, under autograd, because autograd alone would not multiply backwards in the given
precision.
"""

from collections.abc import Sequence
from functools import partial
from itertools import accumulate

import torch
from torch import Tensor

from simplepcfg.errors import InputError
from simplepcfg.ops.autograd_context import Context, differentiable_gradients
from simplepcfg.ops.neural.naive import naive_residual_network
from simplepcfg.ops.products import add_mm_wide, check_precision, matrix_mode, mm_wide, runs_fused

Rows = tuple[int, int]


def residual_networks(
    table: Tensor,
    rows: Sequence[Rows],
    weights: Sequence[Sequence[Tensor]],
    *,
    precision: str | None = None,
) -> tuple[Tensor, ...]:
    """Compute the output of each network for its rows of one table: ``[stop − start, D']`` each.

    ``table`` is ``[R, D]``, ``rows`` has (start, stop) for each network, and ``weights`` those of each, in the order
    that the module's docstring gives. ``precision`` "bf16" on a GPU computes and returns bfloat16; "tf32" multiplies in
    TF32; the default is the precision of the table. Raises InputError if rows are outside of the table, or a network
    has a wrong number of weights.
    """
    check_precision(precision)
    for (start, stop), each in zip(rows, weights, strict=True):
        if not 0 <= start < stop <= table.shape[0]:
            raise InputError(f"rows {start} to {stop} are not rows of a table of {table.shape[0]}")
        if len(each) < 2 or len(each) % 4 != 2:
            raise InputError(f"a network has {len(each)} weights; it must have 2, and 4 more for each residual block")
    flat = [tensor for each in weights for tensor in each]
    counts = [len(each) for each in weights]
    return _ResidualNetworks.apply(table, tuple(rows), counts, precision, runs_fused(precision, table), *flat)


class _ResidualNetworks(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Context,
        table: Tensor,
        rows: Sequence[Rows],
        counts: Sequence[int],
        precision: str | None,
        fused: bool,
        *flat: Tensor,
    ) -> tuple[Tensor, ...]:
        with matrix_mode(precision, table.device):
            if fused:
                outputs, saved = _narrow_forward(table, rows, counts, flat)
            else:
                outputs, saved = list(_naive(rows, counts, table.detach(), *(each.detach() for each in flat))), []
        ctx.save_for_backward(table, *flat, *saved)
        ctx.settings = rows, counts, precision, fused
        ctx.set_materialize_grads(False)
        return tuple(outputs)

    @staticmethod
    def backward(ctx: Context, *grads: Tensor) -> tuple[Tensor | None, ...]:
        rows, counts, precision, fused = ctx.settings
        count = 1 + sum(counts)
        given, saved = ctx.saved_tensors[:count], ctx.saved_tensors[count:]
        if fused and not torch.is_grad_enabled():
            with matrix_mode(precision, saved[0].device):
                by_table, flat = _narrow_backward(saved, rows, counts, grads)
            by_flat = [None if one is None else one.to(two.dtype) for one, two in zip(flat, given[1:], strict=True)]
            return by_table.to(given[0].dtype), None, None, None, None, *by_flat
        needs = [ctx.needs_input_grad[0], *ctx.needs_input_grad[5:]]
        with matrix_mode(precision, given[0].device):
            first, *rest = differentiable_gradients(partial(_naive, rows, counts), given, needs, grads)
        return first, None, None, None, None, *rest


def _naive(rows: Sequence[Rows], counts: Sequence[int], table: Tensor, *flat: Tensor) -> tuple[Tensor, ...]:
    parts = zip(rows, split_by(flat, counts), strict=True)
    return tuple(naive_residual_network(table[start:stop], weights) for (start, stop), weights in parts)


def split_by(tensors: Sequence[Tensor], counts: Sequence[int]) -> list[Sequence[Tensor]]:
    """Split a list into consecutive parts of these lengths."""
    ends = list(accumulate(counts))
    return [tensors[end - count : end] for end, count in zip(ends, counts, strict=True)]


def _narrow_forward(
    table: Tensor, rows: Sequence[Rows], counts: Sequence[int], flat: Sequence[Tensor]
) -> tuple[list[Tensor], list[Tensor]]:
    """Return the outputs in bfloat16, and for backward the table, all weights and the activations of each network."""
    given = [tensor.detach() for tensor in (table, *flat)]
    narrow = [torch.empty(tensor.shape, dtype=torch.bfloat16, device=table.device) for tensor in given]
    torch._foreach_copy_(narrow, given)  # one launch for all
    outputs, kept = [], []
    for (start, stop), (matrix, bias, *blocks) in zip(rows, split_by(narrow[1:], counts), strict=True):
        x = narrow[0][start:stop]
        if not blocks:
            kept.append(torch._addmm_activation(bias, x, matrix.T))  # product, bias and ReLU in one kernel
            outputs.append(x + kept[-1])
            continue
        y = torch.addmm(bias, x, matrix.T)
        for inner, inner_bias, outer, outer_bias in _by_fours(blocks):
            middle = torch._addmm_activation(inner_bias, y, inner.T)
            last = torch._addmm_activation(outer_bias, middle, outer.T)
            kept += [y, middle, last]
            y = y + last
        outputs.append(y)
    return outputs, [*narrow, *kept]


def _narrow_backward(
    saved: Sequence[Tensor], rows: Sequence[Rows], counts: Sequence[int], grads: Sequence[Tensor | None]
) -> tuple[Tensor, list[Tensor | None]]:
    """Return float32 gradients of the table and of the weights; None for a network whose output has no gradient."""
    table, start = saved[0], 1 + sum(counts)
    # One activation of a layer, and three of each block.
    activations = split_by(saved[start:], [1 if count == 2 else 3 * (count - 2) // 4 for count in counts])
    by_table = torch.zeros_like(table, dtype=torch.float32)
    by_weights: list[Tensor | None] = []
    for part, weights, kept, grad in zip(rows, split_by(saved[1:start], counts), activations, grads, strict=True):
        if grad is None:
            by_weights += [None] * len(weights)
            continue
        x, into = table[slice(*part)], by_table[slice(*part)]
        grad, by_blocks = _blocks_backward(weights[2:], kept, grad.contiguous())
        if len(weights) == 2:
            into += grad  # the residual connection passes the gradient on unchanged
            grad = _relu_backward(grad, kept[0])
        add_mm_wide(into, grad, weights[0])
        by_weights += [*_layer_gradients(grad, x), *by_blocks]
    return by_table, by_weights


def _blocks_backward(weights: Sequence[Tensor], kept: Sequence[Tensor], grad: Tensor) -> tuple[Tensor, list[Tensor]]:
    """Return the gradient of the first block's input, and those of the weights of all blocks."""
    by_blocks: list[Tensor] = []
    for block, (inner, _, outer, _) in reversed(list(enumerate(_by_fours(weights)))):
        y, middle, last = kept[3 * block : 3 * block + 3]
        by_last = _relu_backward(grad, last)
        by_middle = _relu_backward(torch.mm(by_last, outer), middle)
        by_blocks = [*_layer_gradients(by_middle, y), *_layer_gradients(by_last, middle), *by_blocks]
        grad = torch.addmm(grad, by_middle, inner)
    return grad, by_blocks


def _by_fours(weights: Sequence[Tensor]) -> list[Sequence[Tensor]]:
    return split_by(weights, [4] * (len(weights) // 4))


def _relu_backward(grad: Tensor, activation: Tensor) -> Tensor:
    gradient: Tensor = torch.ops.aten.threshold_backward(grad, activation, 0)
    return gradient


def _layer_gradients(by_output: Tensor, inputs: Tensor) -> list[Tensor]:
    """Return the float32 gradients of a linear layer's matrix and bias."""
    matrix = torch.empty(by_output.shape[1], inputs.shape[1], dtype=torch.float32, device=inputs.device)
    return [mm_wide(by_output.T, inputs, matrix), by_output.sum(0, dtype=torch.float32)]
