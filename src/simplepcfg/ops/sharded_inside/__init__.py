"""The inside algorithm of a grammar whose parents are sharded over processes.

The split sums of a parent need its own η and ζ alone. β of all parents is gathered once for each width, for the product
with this process's rows of the rules; the backward pass sums and scatters the derivatives of β instead, and gathers β
again for the gradient of the rules, so that no process keeps more than its share of the chart.
"""

from typing import Any

import torch
from torch import Tensor

from simplepcfg.errors import InputError
from simplepcfg.ops.arguments import InsideArguments, Needs
from simplepcfg.ops.autograd_context import Context
from simplepcfg.ops.backends import resolve_backend
from simplepcfg.ops.inside.autograd import DifferentiableChart, FilledChart
from simplepcfg.ops.modes import launching
from simplepcfg.ops.shards import Shards

BACKENDS = ("torch", "triton")


def sharded_inside(arguments: InsideArguments, shards: Shards, backend: str = "auto") -> Tensor:
    """Compute log Z of each sentence, [B], in every process; differentiable once.

    ``arguments`` hold the emissions of this process's preterminals, [B, n, P / K], and root and rules of its parents,
    [N / K] and [N / K, N + P], both with an optional batch dimension.
    """
    tensors = (arguments.log_emissions, arguments.root, arguments.left, arguments.right, arguments.span_bonus)
    if tensors[0].shape[1] == 1:  # no derivation of one word, and a gradient of 0
        return (tensors[0] * 0.0).nan_to_num().sum((1, 2)) - torch.inf
    return _ShardedInside.apply(*tensors, arguments, shards, resolve_backend(backend, tensors[0], BACKENDS))


@torch.no_grad()
def sharded_span_marginals(arguments: InsideArguments, shards: Shards, backend: str = "auto") -> Tensor:
    """Compute the marginal probability of each span, [B, n + 1, n + 1], in every process."""
    batch, n, _, _ = arguments.sizes
    marginals = arguments.log_emissions.new_zeros(batch, n + 1, n + 1)
    if n > 1:
        log_z, chart = _filled(arguments, shards, resolve_backend(backend, marginals, BACKENDS))
        chart.backward(torch.ones_like(log_z), Needs(False, False, False), marginals)
        shards.sum_(marginals)
    return marginals


def _filled(arguments: InsideArguments, shards: Shards, backend: str) -> tuple[Tensor, FilledChart]:
    with launching(arguments.log_emissions.device):
        if backend == "torch":
            scaled = ShardedChart(arguments, shards)
            return scaled.fill(), scaled
        from simplepcfg.ops.sharded_inside.packed import ShardedPackedChart

        packed = ShardedPackedChart(arguments, shards)
        return packed.fill(), packed


class ShardedChart(DifferentiableChart):
    """A scaled chart of some of the states, whose spans have the same exponent in every process."""

    def split_sums(self, width: int) -> Tensor:
        """Compute β of this process's states; see ``ScaledChart.split_sums``."""
        exponents = super().split_sums(width)
        super().recompute_in_log_space(width, exponents)
        assert self.shards is not None
        common = self.shards.maximum(exponents)
        shift = exponents - common
        self.beta[width] *= shift.exp2()[..., None]
        self.factors[width] *= shift.exp2()[..., None]
        if width in self.log_space_spans:
            where, in_logs = self.log_space_spans[width]
            self.log_space_spans[width] = (where, in_logs + shift[where][:, None])
        return common

    def recompute_in_log_space(self, width: int, exponents: Tensor) -> bool:
        """Return False: ``split_sums`` has recomputed what had to be, before exponents were compared."""
        return False


class _ShardedInside(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Context, *inputs: Any) -> Tensor:
        *tensors, arguments, shards, backend = inputs
        log_z, ctx.chart = _filled(arguments, shards, backend)
        ctx.shards, ctx.span_bonus = shards, tensors[4]
        return log_z

    @staticmethod
    def backward(ctx: Context, *grads: Tensor) -> tuple[Tensor | None, ...]:
        if torch.is_grad_enabled():
            raise InputError("the inside algorithm of a sharded grammar has no second derivatives; use one process")
        needs = ctx.needs_input_grad[:5]
        bonus = torch.zeros_like(ctx.span_bonus, memory_format=torch.contiguous_format) if needs[4] else None
        with launching(grads[0].device):
            needed = Needs(needs[0], needs[1], needs[2] or needs[3])
            words, root, rules = ctx.chart.backward(grads[0], needed, bonus)
        if bonus is not None:
            ctx.shards.sum_(bonus)
        left, right = (None, None) if rules is None else rules.chunk(2, -2)
        return words, root, left, right, bonus, None, None, None
