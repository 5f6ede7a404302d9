"""Shards of a grammar: every process of a group has some of the symbols, and asks the others for what it lacks.

Process r of K has the r-th of K equal parts of the nonterminals and of the preterminals. The gradients of tensors that
all processes have alike are partial sums, of which each process has the terms of its own symbols.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor

from simplepcfg.ops.autograd_context import Context

# Torch 2.13 has new names for both.
_all_gather = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
_reduce_scatter = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor


def join_parts(parts: Sequence[Tensor], counts: Sequence[int]) -> Tensor:
    """Return the whole tensor from the parts that ``Shards.own`` gives each process, for groups of ``counts`` rows."""
    sizes = [count // len(parts) for count in counts]
    by_group = zip(*(part.split(sizes) for part in parts), strict=True)
    return torch.cat([piece for group in by_group for piece in group])


def own_part(whole: Tensor, counts: Sequence[int], rank: int, size: int) -> Tensor:
    """Return the part of process ``rank`` of a tensor that has groups of ``counts`` rows."""
    return torch.cat([group.chunk(size)[rank] for group in whole.split(list(counts))])


@dataclass(frozen=True, slots=True)
class Shards:
    """The processes that share a grammar, each of which holds an equal part of its symbols."""

    group: dist.ProcessGroup
    rank: int
    size: int

    @classmethod
    def of(cls, group: dist.ProcessGroup) -> "Shards":
        """Return the shards of a process group."""
        return cls(group, dist.get_rank(group), dist.get_world_size(group))

    def own(self, whole: Tensor, counts: Sequence[int]) -> Tensor:
        """Return this process's part of a tensor that has groups of ``counts`` rows."""
        return own_part(whole, counts, self.rank, self.size)

    def gather(self, own: Tensor, counts: Sequence[int] | None = None, dim: int = -1) -> Tensor:
        """Return the whole tensor of which each process has a part along ``dim``; differentiable.

        ``counts`` are the sizes of the groups in this process's part: the groups of the result are K times as large.
        """
        parts = [own] if counts is None else own.split(list(counts), dim)
        return torch.cat([_Gather.apply(part, self, dim) for part in parts], dim)

    def all_states(self, own: Tensor) -> Tensor:
        """Return rows [..., N] from the states [..., N / K] of each process."""
        if not own.numel():
            return own.new_empty(*own.shape[:-1], self.size * own.shape[-1])
        gathered = own.new_empty(self.size, *own.shape)
        _all_gather(gathered.view(-1), own.contiguous().view(-1), group=self.group)
        return gathered.movedim(0, -2).flatten(-2)

    def own_states(self, partial: Tensor) -> Tensor:
        """Return the sum over processes of rows [..., N], of which each gets its own states [..., N / K]."""
        own = partial.new_empty(*partial.shape[:-1], partial.shape[-1] // self.size)
        if own.numel():
            by_rank = partial.unflatten(-1, (self.size, -1)).movedim(-2, 0).contiguous()
            _reduce_scatter(own.view(-1), by_rank.view(-1), group=self.group)
        return own

    def maximum(self, values: Tensor) -> Tensor:
        """Return the largest value of all processes, element by element."""
        values = values.clone()
        dist.all_reduce(values, dist.ReduceOp.MAX, group=self.group)
        return values

    def sum_(self, values: Tensor) -> None:
        """Replace the values, in place, by their sum over all processes."""
        dist.all_reduce(values, group=self.group)

    def any(self, flag: bool) -> bool:
        """Return whether the flag of any process is true."""
        return bool(self.maximum(torch.tensor(float(flag))))

    def logsumexp(self, values: Tensor) -> Tensor:
        """Return the log of the summed exponentials of all processes, element by element."""
        return torch.logsumexp(self.all_states(values[..., None]), -1)


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Context, own: Tensor, shards: Shards, dim: int) -> Tensor:
        ctx.shards, ctx.dim = shards, dim
        return shards.all_states(own.detach().movedim(dim, -1)).movedim(-1, dim)

    @staticmethod
    def backward(ctx: Context, *grads: Tensor) -> tuple[Tensor | None, ...]:
        return ctx.shards.own_states(grads[0].movedim(ctx.dim, -1)).movedim(-1, ctx.dim), None, None
