"""The autograd function of the dense inside algorithm, with a float64 chart for sentences that underflow in float32."""

import torch
from torch import Tensor

from simplepcfg.ops.autocast import without_autocast
from simplepcfg.ops.autograd_context import Context, differentiable_gradients
from simplepcfg.ops.deferred_checks import condition_holds, current_checks
from simplepcfg.ops.dense.arguments import DenseArguments
from simplepcfg.ops.dense.backward import Backward, Wanted
from simplepcfg.ops.dense.chart import DenseChart
from simplepcfg.ops.dense.recursion import LogProducts, inside_by
from simplepcfg.ops.tensor_fields import in_float64

# Gradients of log_emissions, root and rules; None where one is not wanted.
Gradients = tuple[Tensor | None, Tensor | None, Tensor | None]


class FilledChart:
    """The filled chart of a batch, and a second one in float64 for sentences that underflowed in float32."""

    def __init__(self, arguments: DenseArguments) -> None:
        self.arguments = arguments
        self.checks = current_checks()
        self.chart = DenseChart(arguments)
        log_z = self.chart.fill()
        self.rows: Tensor | None = None
        if arguments.log_emissions.dtype != torch.float64 and condition_holds(
            self.chart.out_of_range.any(), self.checks
        ):
            self.rows = self.chart.out_of_range.nonzero().squeeze(1)
            self.chart.log_top.masked_fill_(self.chart.out_of_range, -torch.inf)  # excludes them from its backward pass
            self.second = DenseChart(in_float64(arguments.of_sentences(self.rows)))
            log_z[self.rows] = self.second.fill()
        self.log_z = log_z.to(arguments.log_emissions.dtype)

    def backward(self, grad: Tensor, wanted: Wanted) -> Gradients:
        """Compute the gradients of log_emissions, root and rules, and fill the tables that are wanted."""
        words, root, rules = Backward(self.chart, grad, wanted, checks=self.checks).run()
        if self.rows is None:
            return words, root, rules
        tables = (wanted.marginals, wanted.symbols)
        seconds = [None if table is None else table[self.rows].double() for table in tables]
        asked = Wanted(wanted.words, wanted.root, wanted.rules, *seconds)
        more = Backward(self.second, grad[self.rows].double(), asked).run()
        for total, part, batched in zip(
            (words, root, rules, *tables),
            (*more, *seconds),
            (True, self.arguments.root.dim() == 2, self.arguments.batched_rules, True, True),
            strict=True,
        ):
            if total is not None and part is not None:
                limit = torch.finfo(total.dtype).max
                part = part.clamp(-limit, limit).to(total.dtype)
                if batched:
                    total[self.rows] = part
                else:
                    total += part
        return words, root, rules


def scaled_dense_inside(arguments: DenseArguments) -> Tensor:
    """Compute log Z of each sentence; see ``dense_inside``."""
    if arguments.log_emissions.shape[1] == 1:
        return inside_by(arguments, LogProducts())
    return _DenseInside.apply(
        arguments.log_emissions, arguments.root, arguments.rules, arguments.span_bonus, arguments.lengths
    )


class _DenseInside(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Context,
        log_emissions: Tensor,
        root: Tensor,
        rules: Tensor,
        span_bonus: Tensor | None,
        lengths: Tensor | None,
    ) -> Tensor:
        chart = FilledChart(DenseArguments(log_emissions, root, rules, lengths, span_bonus))
        if any(ctx.needs_input_grad):
            ctx.save_for_backward(log_emissions, root, rules, span_bonus, lengths)
            ctx.chart = chart
        # A copy is returned, because the chart's own tensor would create a reference cycle between graph and chart.
        return chart.log_z.clone()

    @staticmethod
    @without_autocast
    def backward(ctx: Context, *grads: Tensor) -> tuple[Tensor | None, ...]:
        needs = ctx.needs_input_grad[:4]
        if torch.is_grad_enabled():  # create_graph: the gradient itself must be differentiable
            *inputs, lengths = ctx.saved_tensors

            def in_log_space(log_emissions: Tensor, root: Tensor, rules: Tensor, bonus: Tensor | None) -> Tensor:
                return inside_by(DenseArguments(log_emissions, root, rules, lengths, bonus), LogProducts())

            return *differentiable_gradients(in_log_space, inputs, needs, grads), None
        bonus = torch.zeros_like(ctx.saved_tensors[3]) if needs[3] else None
        words, root, rules, _ = needs
        return *ctx.chart.backward(grads[0], Wanted(words, root, rules, marginals=bonus)), bonus, None
