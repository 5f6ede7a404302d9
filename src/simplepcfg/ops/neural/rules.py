"""Rule probabilities from features of symbols: softmaxes of matrix products, with a hand-written backward pass."""

from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor

from simplepcfg.errors import InputError
from simplepcfg.ops.autograd_context import Context, differentiable_gradients
from simplepcfg.ops.neural.naive import naive_rule_probabilities
from simplepcfg.ops.neural.softmax import LEAST, check_least, softmax_backward, softmax_of_product
from simplepcfg.ops.products import (
    add_mm_wide,
    check_precision,
    matrix_mode,
    mm_wide,
    row_parts,
    runs_fused,
    wide_type,
)

# The backward pass computes the gradient of the logits for this many bytes of rows at a time, but for at least so many
# rows, because each part is added to the whole gradient of the children.
GRADIENT_BYTES = 512 << 20
LEAST_GRADIENT_ROWS = 2048


def rule_probabilities(
    parents: Tensor,
    left_children: Tensor,
    right_children: Tensor,
    *,
    precision: str | None = None,
    least: float = LEAST,
) -> tuple[Tensor, Tensor]:
    """Compute the probabilities of each left and right child given the parent: ``[N, S]`` each, whose rows sum to 1.

    Logits are products of features ``[N, D]`` of the parents and ``[S, D]`` of the children. Left and right are
    adjacent in one buffer, which the inside algorithm uses without a copy. ``precision`` "bf16" on a GPU stores
    operands and probabilities in bfloat16, with float32 sums, and bounds the size of all other buffers; "tf32"
    multiplies in TF32 on a GPU; the default is the precision of the inputs. Probabilities below ``least`` are raised to
    it; it must be positive, because gradients can be 1 / p. Raises InputError if a shape, the precision or ``least`` is
    wrong.

    >>> left, right = rule_probabilities(torch.zeros(1, 2), torch.zeros(4, 2), torch.ones(2, 2).cumsum(0).repeat(2, 1))
    >>> left
    tensor([[0.2500, 0.2500, 0.2500, 0.2500]])
    """
    check_features(parents, left_children, right_children, precision, least)
    fused = runs_fused(precision, parents)
    return _RuleProbabilities.apply(parents, left_children, right_children, precision, least, fused)


def check_features(
    parents: Tensor, left_children: Tensor, right_children: Tensor, precision: str | None, least: float
) -> None:
    """Raise InputError if shapes, the precision or ``least`` are wrong."""
    check_precision(precision)
    check_least(least)
    shapes = [tuple(tensor.shape) for tensor in (parents, left_children, right_children)]
    if any(len(shape) != 2 or 0 in shape for shape in shapes) or shapes[1] != shapes[2] or shapes[0][1] != shapes[1][1]:
        raise InputError(
            f"parents, left_children and right_children have shapes {', '.join(str(list(s)) for s in shapes)}; they "
            "must be [N, D], [S, D] and [S, D], none of them 0"
        )


def stacked_rule_probabilities(
    features: Sequence[Tensor], precision: str | None, least: float, fused: bool
) -> tuple[list[Tensor], Tensor]:
    """Return the operands (parents, left and right children) in the dtype of the products, and the rules [2N, S]."""
    kind = torch.bfloat16 if fused else wide_type(features[0].dtype)
    parents, left, right = operands = [tensor.detach().to(kind).contiguous() for tensor in features]
    nonterminals = parents.shape[0]
    both = parents.new_empty(2 * nonterminals, left.shape[0])
    with matrix_mode(precision, both.device):
        softmax_of_product(parents, left, both[:nonterminals], None, fused, least)
        softmax_of_product(parents, right, both[nonterminals:], None, fused, least)
    return operands, both


class _RuleProbabilities(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Context, parents: Tensor, left: Tensor, right: Tensor, precision: str | None, least: float, fused: bool
    ) -> tuple[Tensor, Tensor]:
        given = (parents, left, right)
        operands, both = stacked_rule_probabilities(given, precision, least, fused)
        nonterminals = len(both) // 2
        ctx.save_for_backward(*given, *operands, both)
        ctx.precision, ctx.least, ctx.fused = precision, least, fused
        ctx.set_materialize_grads(False)
        return both[:nonterminals], both[nonterminals:]

    @staticmethod
    def backward(ctx: Context, *grads: Tensor) -> tuple[Tensor | None, ...]:
        given, (*operands, both) = ctx.saved_tensors[:3], ctx.saved_tensors[3:]
        if torch.is_grad_enabled():
            naive = partial(naive_rule_probabilities, least=ctx.least)
            return *differentiable_gradients(naive, given, ctx.needs_input_grad[:3], grads), None, None, None
        with matrix_mode(ctx.precision, both.device):
            gradients = softmax_gradients(operands, both, grads, [tensor.dtype for tensor in given], ctx.fused)
        return *gradients, None, None, None


def softmax_gradients(
    operands: Sequence[Tensor],
    both: Tensor,
    grads: Sequence[Tensor | None],
    kinds: Sequence[torch.dtype],
    fused: bool,
) -> list[Tensor | None]:
    """Compute the gradients of parents, left and right children; ``grads`` are not modified, others may use them."""
    given = {side: grad for side, grad in enumerate(grads) if grad is not None}
    given = {side: grad if grad.stride(-1) == 1 else grad.contiguous() for side, grad in given.items()}
    nonterminals = operands[0].shape[0]

    def finish(rows: slice, out: Tensor) -> None:
        side, start = divmod(rows.start, nonterminals)
        softmax_backward(both[rows], given[side][start : start + len(out)], out, fused)

    return gradients_by_features(operands, None, finish, list(given), kinds)


def gradients_by_features(
    operands: Sequence[Tensor],
    fill: Callable[[slice, Tensor], None] | None,
    finish: Callable[[slice, Tensor], None],
    sides: Sequence[int],
    kinds: Sequence[torch.dtype],
) -> list[Tensor | None]:
    """Compute the gradients of parents [N, D], left and right children [S, D], from callbacks for those of the logits.

    ``fill(rows, out)`` writes the gradient of some rows of the rules [left; right] to ``out``, unless ``finish`` does
    not need it, and ``finish(rows, out)`` replaces it by the gradient of the logits. ``sides`` says which of left (0)
    and right (1) have a gradient, and ``kinds`` are the dtypes of the results. If all rows fit, they are filled at
    once.
    """
    parents, *children = operands
    nonterminals, width = parents.shape
    symbols = children[0].shape[0]
    most = max(LEAST_GRADIENT_ROWS, GRADIENT_BYTES // (symbols * parents.element_size()))
    parts = row_parts(nonterminals, most, 128)
    wide = wide_type(parents.dtype)
    by_parents = parents.new_empty(nonterminals, width, dtype=wide)
    by_children: list[Tensor | None] = [None, None]
    for side in sides:
        # A single part needs no accumulation, so it is written in the dtype of the result.
        kind = kinds[1 + side] if len(parts) == 1 and kinds[1 + side] == parents.dtype else wide
        by_children[side] = parents.new_empty(symbols, width, dtype=kind)
    turns = [(side, part) for side in sides for part in parts]
    together = fill is not None and len(parts) == 1
    by_logits = parents.new_empty(len(turns) if together else 1, parts[0].stop, symbols)
    if fill is not None and together:
        fill(slice(sides[0] * nonterminals, (sides[-1] + 1) * nonterminals), by_logits.flatten(0, 1))

    for k, (side, part) in enumerate(turns):
        rows = slice(side * nonterminals + part.start, side * nonterminals + part.stop)
        here, total = by_logits[k if together else 0, : part.stop - part.start], by_children[side]
        assert total is not None
        if fill is not None and not together:
            fill(rows, here)
        finish(rows, here)
        (_write if side == turns[0][0] else add_mm_wide)(by_parents[part], here, children[side])
        (add_mm_wide if part.start else _write)(total, here.T, parents[part])
    results = [by_parents if sides else None, *by_children]
    return [None if tensor is None else tensor.to(kind) for tensor, kind in zip(results, kinds, strict=True)]


def _write(out: Tensor, a: Tensor, b: Tensor) -> Tensor:
    return mm_wide(a, b, out)
