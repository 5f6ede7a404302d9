"""The packed chart of FlashInside for parents that are sharded over processes. This module imports Triton."""

from dataclasses import replace

import torch
from torch import Tensor

from simplepcfg.ops.arguments import InsideArguments
from simplepcfg.ops.inside.packed_chart import PackedChart
from simplepcfg.ops.products import add_mm_wide, mm_wide, row_parts
from simplepcfg.ops.shards import Shards

# For the gradient of the rules, β of all states is gathered for this many bytes of rows at a time.
GATHERED_BYTES = 256 << 20


class ShardedPackedChart(PackedChart):
    """The packed chart of some of the states, whose rows have the same exponent and reach in every process."""

    def __init__(self, arguments: InsideArguments, shards: Shards) -> None:
        super().__init__(replace(arguments, log_emissions=shards.all_states(arguments.log_emissions)))
        self.shards = shards

    @property
    def result_dtype(self) -> torch.dtype:
        """Float64, in which the processes add up their parts of Z."""
        return torch.float64

    def fill(self) -> Tensor:
        """Run the forward pass; see ``Chart.fill``."""
        log_z = super().fill()
        both = self.shards.logsumexp(torch.stack([self.log_top, log_z]))
        self.log_top = both[0].contiguous()
        return both[1].to(self.arguments.log_emissions.dtype)

    def split_sums(self, width: int) -> None:
        """Compute β of a width with the scales of all processes; see ``PackedChart.split_sums``."""
        super().split_sums(width)
        rows = self.layout.width(width)
        common = self.shards.maximum(torch.stack([self.exponent[rows], self.reach[rows]]))
        self.beta[rows] *= (self.exponent[rows] - common[0]).exp2()[:, None].to(self.beta.dtype)
        self.exponent[rows], self.reach[rows] = common

    def multiply(self, left: Tensor, rules: Tensor, rows: slice, width: int) -> None:
        """Compute η and ζ of a width from β of all states; see ``PackedChart.multiply``."""
        super().multiply(left if width == 1 else self.shards.all_states(left), rules, rows, width)

    def outside_rows(self, width: int, by_child: Tensor, out: Tensor) -> None:
        """Compute d log Z / d β of this process's states; see ``PackedChart.outside_rows``."""
        partial = self.empty(out.shape[0], self.child_states, dtype=out.dtype)
        super().outside_rows(width, by_child, partial)
        out.copy_(self.shards.own_states(partial))

    def emission_gradients(self, by_child: Tensor) -> Tensor:
        """Compute the gradient of the log-emissions of this process's preterminals, [B, n, P / K]."""
        return self.shards.own_states(super().emission_gradients(by_child))

    def rule_gradients(self, by_child: Tensor) -> Tensor:
        """Compute the gradient of the rules of this process's parents; see ``PackedChart.rule_gradients``."""
        if self.rules.dim() == 2:
            return super().rule_gradients(by_child)
        own, self.beta = self.beta, self.shards.all_states(self.beta)
        both = super().rule_gradients(by_child)
        self.beta = own
        return both

    def rule_gradient_rows(self, by_child: Tensor, rows: slice, out: Tensor) -> None:
        """Compute the gradient of some rows of the rules; see ``PackedChart.rule_gradient_rows``."""
        words, states = self.layout.words, self.child_states
        most = max(GATHERED_BYTES // (states * self.beta.element_size()), 1)
        parts = row_parts(self.layout.rows - words, most)
        total = out[:, :states]
        if len(parts) > 1 and out.dtype != self.precision.work:
            total = self.empty(*total.shape, dtype=self.precision.work)
        with self.matrix_context():
            for part in parts:
                spans = slice(words + part.start, words + part.stop)
                children, beta = by_child[spans, rows].T, self.shards.all_states(self.beta[spans])
                if part.start:
                    add_mm_wide(total, children, beta)
                else:
                    mm_wide(children, beta, total)
            mm_wide(by_child[:words, rows].T, self.emit, out[:, states:])
        if total.dtype != out.dtype:
            out[:, :states] = total
