"""The inside algorithm for rules that are softmaxes of products of features, without storing the rules' gradient."""

import torch
from torch import Tensor

from simplepcfg.ops.arguments import InsideArguments, Sentences, SimpleRules, check_arguments
from simplepcfg.ops.autograd_context import Context, differentiable_gradients
from simplepcfg.ops.inside import inside
from simplepcfg.ops.inside.log_space import log_einsum_exp_inside
from simplepcfg.ops.neural.naive import naive_rule_probabilities
from simplepcfg.ops.neural.rules import (
    check_features,
    gradients_by_features,
    rule_probabilities,
    stacked_rule_probabilities,
)
from simplepcfg.ops.neural.softmax import LEAST, softmax_backward
from simplepcfg.ops.products import runs_fused


def inside_of_features(
    log_emissions: Tensor,
    root: Tensor,
    parents: Tensor,
    left_children: Tensor,
    right_children: Tensor,
    *,
    lengths: Tensor | None = None,
    span_bonus: Tensor | None = None,
    precision: str | None = None,
    least: float = LEAST,
) -> Tensor:
    """Compute ``inside`` for the rules ``rule_probabilities(parents, left_children, right_children)``: [B].

    In bfloat16 on a GPU, the backward pass computes the gradient of the rules for some parents at a time, and
    multiplies it with the features before it continues with the next ones. Otherwise the two operations run one after
    the other.
    """
    features = (parents, left_children, right_children)
    if log_emissions.shape[1] > 1 and runs_fused(precision, parents):
        check_features(*features, precision, least)
        return _FeatureInside.apply(log_emissions, root, *features, span_bonus, lengths, precision, least)
    left, right = rule_probabilities(*features, precision=precision, least=least)
    return inside(log_emissions, root, left, right, lengths=lengths, span_bonus=span_bonus, precision=precision)


class _FeatureInside(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Context,
        log_emissions: Tensor,
        root: Tensor,
        parents: Tensor,
        left_children: Tensor,
        right_children: Tensor,
        span_bonus: Tensor | None,
        lengths: Tensor | None,
        precision: str | None,
        least: float,
    ) -> Tensor:
        from simplepcfg.ops.inside.packed_chart import PackedChart

        features = (parents, left_children, right_children)
        operands, both = stacked_rule_probabilities(features, precision, least, True)
        left, right = both.chunk(2)
        sentences = Sentences(log_emissions, lengths, span_bonus)
        arguments = check_arguments(SimpleRules(root, left, right, precision), sentences)
        chart = PackedChart(arguments, holds_gradient=False)
        log_z = chart.fill()
        if any(ctx.needs_input_grad):
            ctx.save_for_backward(log_emissions, root, *features, span_bonus, lengths)
            ctx.chart, ctx.operands, ctx.both, ctx.least = chart, operands, both, least
        return log_z

    @staticmethod
    def backward(ctx: Context, *grads: Tensor) -> tuple[Tensor | None, ...]:
        given, lengths = ctx.saved_tensors[:6], ctx.saved_tensors[6]
        needs = ctx.needs_input_grad[:6]
        if torch.is_grad_enabled():

            def naive(words: Tensor, root: Tensor, up: Tensor, left: Tensor, right: Tensor, bonus: Tensor) -> Tensor:
                rules = naive_rule_probabilities(up, left, right, least=ctx.least)
                left, right = (each.to(words.dtype) for each in rules)
                return log_einsum_exp_inside(InsideArguments(words, root, left, right, lengths, bonus, None))

            return *differentiable_gradients(naive, given, needs, grads), None, None, None
        chart, both, features = ctx.chart, ctx.both, given[2:5]
        marginals = torch.zeros_like(given[5], memory_format=torch.contiguous_format) if needs[5] else None
        by_root, by_child = chart.adjoints(grads[0], marginals)
        by_words = chart.emission_gradients(by_child) if needs[0] else None
        by_features: list[Tensor | None] = [None] * 3
        if any(needs[2:5]):

            def fill(rows: slice, out: Tensor) -> None:
                chart.rule_gradient_rows(by_child, rows, out)

            def finish(rows: slice, out: Tensor) -> None:
                softmax_backward(both[rows], out, out, True)

            by_features = gradients_by_features(
                ctx.operands, fill, finish, (0, 1), [tensor.dtype for tensor in features]
            )
        return by_words, by_root if needs[1] else None, *by_features, marginals, None, None, None
