"""Rule probabilities that depend on the sentence: a softmax of matrix products for each sentence of a batch."""

import torch
from torch import Tensor

from simplepcfg.errors import InputError
from simplepcfg.ops.autograd_context import Context, differentiable_gradients
from simplepcfg.ops.neural.naive import naive_sentence_rule_probabilities
from simplepcfg.ops.neural.softmax import LEAST, softmax_backward, softmax_of_product
from simplepcfg.ops.products import add_mm_wide, check_precision, matrix_mode, runs_fused, wide_type


def sentence_rule_probabilities(
    parents: Tensor, left_children: Tensor, right_children: Tensor, *, precision: str | None = None
) -> tuple[Tensor, Tensor]:
    """Compute ``rule_probabilities`` for each of B sentences: ``[B, N, S]`` each.

    At least one of parents ``[N, D]`` and children ``[S, D]`` has a leading batch dimension. A side without any is
    computed once and copied. Left and right of one sentence are adjacent in one buffer, which the inside algorithm uses
    without a copy. Raises InputError if a shape or the precision is wrong.
    """
    check_precision(precision)
    features = (parents, left_children, right_children)
    shapes = [tuple(tensor.shape) for tensor in features]
    batches = {shape[0] for shape in shapes if len(shape) == 3}
    widths = {shape[-1] for shape in shapes}
    known = all(len(shape) in (2, 3) and 0 not in shape for shape in shapes)
    if not known or len(batches) != 1 or len(widths) != 1 or shapes[1][-2] != shapes[2][-2]:
        raise InputError(
            f"parents, left_children and right_children have shapes {', '.join(str(list(s)) for s in shapes)}; they "
            "must be [N, D], [S, D] and [S, D], at least one of them with a leading B, none of them 0"
        )
    return _SentenceRules.apply(*features, batches.pop(), precision, runs_fused(precision, parents))


class _SentenceRules(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Context,
        parents: Tensor,
        left_children: Tensor,
        right_children: Tensor,
        batch: int,
        precision: str | None,
        fused: bool,
    ) -> tuple[Tensor, Tensor]:
        given = (parents, left_children, right_children)
        kind = torch.bfloat16 if fused else wide_type(parents.dtype)
        operands = [tensor.detach().to(kind).contiguous() for tensor in given]
        parents, *children = operands
        nonterminals = parents.shape[-2]
        both = parents.new_empty(batch, 2 * nonterminals, children[0].shape[-2])
        with matrix_mode(precision, both.device):
            for side, each in enumerate(children):
                rules = both[:, side * nonterminals : (side + 1) * nonterminals]
                own = parents.dim() == 3 or each.dim() == 3
                for sentence in range(batch if own else 1):
                    a, b = _of(parents, sentence), _of(each, sentence)
                    softmax_of_product(a, b, rules[sentence], None, fused, LEAST)
                if not own:
                    rules[1:] = rules[0]
        ctx.save_for_backward(*given, *operands, both)
        ctx.precision, ctx.fused = precision, fused
        ctx.set_materialize_grads(False)
        return both[:, :nonterminals], both[:, nonterminals:]

    @staticmethod
    def backward(ctx: Context, *grads: Tensor) -> tuple[Tensor | None, ...]:
        given, (*operands, both) = ctx.saved_tensors[:3], ctx.saved_tensors[3:]
        nothing = (None, None, None)
        if torch.is_grad_enabled():
            needs = ctx.needs_input_grad[:3]
            return *differentiable_gradients(naive_sentence_rule_probabilities, given, needs, grads), *nothing
        with matrix_mode(ctx.precision, both.device):
            gradients = _gradients(operands, both, grads, ctx.fused)
        return *(one.to(two.dtype) for one, two in zip(gradients, given, strict=True)), *nothing


def _gradients(operands: list[Tensor], both: Tensor, grads: tuple[Tensor | None, ...], fused: bool) -> list[Tensor]:
    """Compute the gradients of parents, left and right children, summed over sentences where these share features."""
    parents, *children = operands
    nonterminals, wide = parents.shape[-2], wide_type(both.dtype)
    gradients = [torch.zeros_like(tensor, dtype=wide) for tensor in operands]
    by_logits = both.new_empty(nonterminals, both.shape[2])
    for side, (each, grad) in enumerate(zip(children, grads, strict=True)):
        if grad is None:
            continue
        rules = both[:, side * nonterminals : (side + 1) * nonterminals]
        own = parents.dim() == 3 or each.dim() == 3
        grad = grad if own else grad.sum(0, keepdim=True, dtype=wide).to(both.dtype)
        grad = grad if grad.stride(-1) == 1 else grad.contiguous()
        for sentence in range(grad.shape[0]):
            softmax_backward(rules[sentence], grad[sentence], by_logits, fused)
            add_mm_wide(_of(gradients[0], sentence), by_logits, _of(each, sentence))
            add_mm_wide(_of(gradients[1 + side], sentence), by_logits.T, _of(parents, sentence))
    return gradients


def _of(tensor: Tensor, sentence: int) -> Tensor:
    return tensor[sentence] if tensor.dim() == 3 else tensor
