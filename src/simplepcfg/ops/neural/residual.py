"""Several residual networks over rows of one table of embeddings.

A network has one of two forms, depending on the number of its weights:

- a residual layer, x + ReLU(W x + b), has W and b;
- a residual network, y = W x + b and then for each block y ← y + ReLU(V ReLU(U y + p) + q), has W, b, then U, p, V, q
  for each block.

In bfloat16 on a GPU both passes are hand-written; see ``residual_fused.py``. Otherwise the backward pass computes the
forward pass again, under autograd, because autograd alone would not multiply backwards in the given precision.
"""

from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor

from simplepcfg.errors import InputError
from simplepcfg.ops.autograd_context import Context, differentiable_gradients
from simplepcfg.ops.neural.naive import naive_residual_network
from simplepcfg.ops.neural.residual_fused import Rows, fused_backward, fused_forward, split_by
from simplepcfg.ops.products import check_precision, matrix_mode, runs_fused


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
                outputs, saved = fused_forward(table, rows, split_by(flat, counts))
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
                by_table, by_weights = fused_backward(saved, rows, counts, grads)
            flat = [tensor for each in by_weights for tensor in each]
            by_flat = [None if one is None else one.to(two.dtype) for one, two in zip(flat, given[1:], strict=True)]
            return by_table.to(given[0].dtype), None, None, None, None, *by_flat
        needs = [ctx.needs_input_grad[0], *ctx.needs_input_grad[5:]]
        with matrix_mode(precision, given[0].device):
            first, *rest = differentiable_gradients(partial(_naive, rows, counts), given, needs, grads)
        return first, None, None, None, None, *rest


def _naive(rows: Sequence[Rows], counts: Sequence[int], table: Tensor, *flat: Tensor) -> tuple[Tensor, ...]:
    parts = zip(rows, split_by(flat, counts), strict=True)
    return tuple(naive_residual_network(table[start:stop], weights) for (start, stop), weights in parts)
