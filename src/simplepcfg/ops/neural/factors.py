"""The factors of low-rank rules: softmaxes of matrix products, and products of such softmaxes."""

from functools import partial

import torch
from torch import Tensor

from simplepcfg.errors import InputError
from simplepcfg.ops.autograd_context import Context, differentiable_gradients
from simplepcfg.ops.neural.rules import softmax_gradients
from simplepcfg.ops.neural.softmax import LEAST, check_least, rule_softmax, softmax_of_product
from simplepcfg.ops.products import check_precision, matrix_mode, mm_wide, runs_fused, wide_type


def row_softmax(rows: Tensor, columns: Tensor, *, precision: str | None = None, least: float = LEAST) -> Tensor:
    """Compute the softmax over B of rows[A] · columns[B], ``[N, S]``, from ``[N, D]`` and ``[S, D]``.

    ``precision`` and ``least`` are those of ``rule_probabilities``; in "bf16" on a GPU the result is bfloat16. Raises
    InputError if a shape, the precision or ``least`` is wrong.

    >>> row_softmax(torch.zeros(1, 2), torch.zeros(4, 2))
    tensor([[0.2500, 0.2500, 0.2500, 0.2500]])
    """
    check_precision(precision)
    check_least(least)
    shapes = [tuple(tensor.shape) for tensor in (rows, columns)]
    if any(len(shape) != 2 or 0 in shape for shape in shapes) or shapes[0][1] != shapes[1][1]:
        raise InputError(
            f"rows and columns have shapes {list(shapes[0])} and {list(shapes[1])}; they must be [N, D] and [S, D], "
            "none of them 0"
        )
    return _RowSoftmax.apply(rows, columns, precision, least, runs_fused(precision, rows))


def product(a: Tensor, b: Tensor, *, precision: str | None = None) -> Tensor:
    """Compute the matrix product of ``[N, K]`` and ``[K, M]`` in their dtype, summed in float32 or wider."""
    check_precision(precision)
    return _Product.apply(a, b, precision)


class _RowSoftmax(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Context, rows: Tensor, columns: Tensor, precision: str | None, least: float, fused: bool
    ) -> Tensor:
        given = (rows, columns)
        kind = torch.bfloat16 if fused else wide_type(rows.dtype)
        rows, columns = (tensor.detach().to(kind).contiguous() for tensor in given)
        out = rows.new_empty(rows.shape[0], columns.shape[0])
        with matrix_mode(precision, out.device):
            softmax_of_product(rows, columns, out, None, fused, least)
        ctx.save_for_backward(*given, rows, columns, out)
        ctx.precision, ctx.least, ctx.fused = precision, least, fused
        return out

    @staticmethod
    def backward(ctx: Context, *grads: Tensor) -> tuple[Tensor | None, ...]:
        *given, rows, columns, out = ctx.saved_tensors
        if torch.is_grad_enabled():
            naive = partial(naive_row_softmax, least=ctx.least)
            return *differentiable_gradients(naive, given, ctx.needs_input_grad[:2], grads), None, None, None
        kinds = [given[0].dtype, given[1].dtype, given[1].dtype]
        with matrix_mode(ctx.precision, out.device):
            by_rows, by_columns, _ = softmax_gradients(
                [rows, columns, columns], out, (grads[0], None), kinds, ctx.fused
            )
        return by_rows, by_columns, None, None, None


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Context, a: Tensor, b: Tensor, precision: str | None) -> Tensor:
        ctx.save_for_backward(a, b)
        ctx.precision = precision
        with matrix_mode(precision, a.device):
            return a.detach() @ b.detach()

    @staticmethod
    def backward(ctx: Context, *grads: Tensor) -> tuple[Tensor | None, ...]:
        a, b = ctx.saved_tensors
        grad = grads[0]
        if torch.is_grad_enabled():
            return grad @ b.mT, a.mT @ grad, None
        grad = grad.to(a.dtype)
        with matrix_mode(ctx.precision, a.device):
            return mm_wide(grad, b.mT, torch.empty_like(a)), mm_wide(a.mT, grad, torch.empty_like(b)), None


def naive_row_softmax(rows: Tensor, columns: Tensor, *, least: float = LEAST) -> Tensor:
    """Compute ``row_softmax`` in plain PyTorch."""
    wide = wide_type(rows.dtype)
    return rule_softmax(rows.to(wide) @ columns.to(wide).T, least=least)
