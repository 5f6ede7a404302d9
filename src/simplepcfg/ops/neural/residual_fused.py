"""Residual networks in bfloat16 on a GPU: networks of one form and shape share their buffers and gradient products.

A chain of small products cannot fill a GPU, so several networks run at a time. What backward finds of each layer is
kept until the end: the gradients by all weights of a group are then one batched product, those by its biases one sum.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from simplepcfg.ops.neural.streams import lanes, spread
from simplepcfg.ops.products import add_mm_wide, bmm_wide, mm_wide

# Rows whose column sums one program makes, all of which it holds, by so many columns on so many warps.
ROWS_A_PROGRAM = 128
COLUMNS_A_PROGRAM = 64
WARPS = 8
SUM_BLOCK = 4096  # numbers of a gradient that one program adds up
# A gradient by weights sums over many rows for few results; rows are split while its tiles leave a large GPU idle.
TILE = 128
MULTIPROCESSORS = 132
LEAST_SPLIT_ROWS = 512
# Networks that run side by side, forward and backward, of one to five, and sums for the gradients by weights, of one to
# three: the fastest on an H200 with the five networks of an SN-PCFG.
LANES_FORWARD, LANES_BACK, LANES_OF_SUMS = 3, 5, 2

Rows = tuple[int, int]


class Group(NamedTuple):
    """Networks over the same rows whose weights have the same shapes."""

    members: tuple[int, ...]  # their places among all networks
    rows: Rows
    blocks: int
    layer: bool = False  # residual layers, x + ReLU(W x + b); these have no blocks


def is_layer(weights: Sequence[Tensor]) -> bool:
    """Whether a network with these weights is one residual layer."""
    return len(weights) == 2


def grouped(rows: Sequence[Rows], weights: Sequence[Sequence[Tensor]]) -> list[Group]:
    """All networks, each in one group."""
    found: dict[object, list[int]] = {}
    for k, each in enumerate(weights):
        found.setdefault((rows[k], tuple(tensor.shape for tensor in each)), []).append(k)
    first = [(tuple(members), weights[members[0]]) for members in found.values()]
    return [Group(members, rows[members[0]], len(each) // 4, is_layer(each)) for members, each in first]


def fused_forward(
    table: Tensor, rows: Sequence[Rows], weights: Sequence[Sequence[Tensor]]
) -> tuple[list[Tensor], list[Tensor]]:
    """Every network's output, and what ``fused_backward`` needs: the table, all weights, three buffers a group."""
    groups = grouped(rows, weights)
    narrow, narrow_table, firsts = _narrow(table, weights, groups)
    outputs: list[Tensor] = [narrow_table] * len(weights)
    buffers = []
    for group, first in zip(groups, firsts, strict=True):
        count, size = len(group.members), group.rows[1] - group.rows[0]
        inputs = first.new_empty(count, 2 * group.blocks, size, first.shape[1])  # of the blocks' layers
        lasts = first.new_empty(
            count, group.blocks + group.layer, size, first.shape[1]
        )  # what is added to a block's input
        buffers += [first, inputs, lasts]
        for k in group.members:
            outputs[k] = first.new_empty(size, first.shape[1])
    with lanes(table.device, LANES_FORWARD) as beside:
        for lane, which, member in _shares(groups, LANES_FORWARD):
            group, (_, inputs, lasts) = groups[which], buffers[3 * which : 3 * which + 3]
            k = group.members[member]
            with beside[lane]:
                _forward(narrow_table[slice(*group.rows)], narrow[k], inputs[member], lasts[member], outputs[k])
    return outputs, [narrow_table, *(tensor for each in narrow for tensor in each), *buffers]


def _forward(x: Tensor, weights: Sequence[Tensor], inputs: Tensor, lasts: Tensor, output: Tensor) -> None:
    """One network; its blocks' inputs y and their inner activations lie in ``inputs`` in turn."""
    if is_layer(weights):
        torch._addmm_activation(weights[1], x, weights[0].T, out=lasts[0])  # a product, a bias and a ReLU in one pass
        torch.add(x, lasts[0], out=output)
        return
    places = [*inputs.unbind(0), output]
    torch.addmm(weights[1], x, weights[0].T, out=places[0])
    for block, last in enumerate(lasts.unbind(0)):
        inner, inner_bias, outer, outer_bias = weights[2 + 4 * block : 6 + 4 * block]
        y, middle, after = places[2 * block : 2 * block + 3]
        torch._addmm_activation(inner_bias, y, inner.T, out=middle)
        torch._addmm_activation(outer_bias, middle, outer.T, out=last)
        torch.add(y, last, out=after)


def fused_backward(
    saved: Sequence[Tensor], rows: Sequence[Rows], counts: Sequence[int], grads: Sequence[Tensor | None]
) -> tuple[Tensor, list[list[Tensor | None]]]:
    """Float32 gradients by the table and by the weights; None by those of a network whose output got none."""
    table, weights, start = saved[0], [], 1
    for number in counts:
        weights.append(saved[start : start + number])
        start += number
    works = []
    for place, group in enumerate(grouped(rows, weights)):
        asked = [member for member, k in enumerate(group.members) if grads[k] is not None]
        first, inputs, lasts = saved[start + 3 * place : start + 3 * place + 3]
        if asked:
            if len(asked) < len(group.members):
                first, inputs, lasts = first[asked], inputs[asked], lasts[asked]
                group = group._replace(members=tuple(group.members[member] for member in asked))
            works.append(_Work.of(group, first, inputs, lasts, [grads[k] for k in group.members]))
    with lanes(table.device, LANES_BACK) as beside:
        for lane, which, member in _shares([work.group for work in works], LANES_BACK):
            with beside[lane]:
                _backward(works[which], member, weights[works[which].group.members[member]])
    by_table = torch.empty_like(table, dtype=torch.float32)
    summed = [_WeightSums.of(work, table) for work in works]
    jobs: list[tuple[int, Callable[[], object]]] = [job for each in summed for job in each.jobs()]
    table_cost = sum(work.by_first.numel() * table.shape[1] for work in works)
    jobs.append((table_cost, lambda: _table_gradient(by_table, works)))
    with lanes(table.device, LANES_OF_SUMS) as beside:
        for lane, job in spread(jobs, LANES_OF_SUMS):
            with beside[lane]:
                job()
    found: list[list[Tensor | None]] = [[None] * number for number in counts]
    for work, sums in zip(works, summed, strict=True):
        for k, each in zip(work.group.members, sums.by_weights(), strict=True):
            found[k] = list(each)
    return by_table, found


class _Work(NamedTuple):
    """A group's backward: what it reads, and buffers for what it finds."""

    group: Group
    first: Tensor  # [G, D, features of the table]: the first layers' weights
    inputs: Tensor  # [G, 2 blocks, rows, D]: of the blocks' layers
    lasts: Tensor  # [G, blocks, rows, D], or [G, 1, rows, D] of residual layers: the outer ReLUs' results
    grads: list[Tensor]  # [rows, D] each: by the outputs
    by_first: Tensor  # [rows, G, D]: by the first layers' outputs, side by side so that one product sums over them
    by_rest: Tensor  # [G, 2 blocks, rows, D]: by what the blocks' ReLUs were given
    sums: Tensor  # [G, 1 + 2 blocks, row blocks, D], float32: column sums of both

    @staticmethod
    def of(group: Group, first: Tensor, inputs: Tensor, lasts: Tensor, grads: Sequence[Tensor | None]) -> "_Work":
        """With buffers made here, before streams part."""
        count, layers, rows, width = inputs.shape
        sums = inputs.new_empty(count, 1 + layers, -(-rows // ROWS_A_PROGRAM), width, dtype=torch.float32)
        given = [grad.contiguous() for grad in grads if grad is not None]
        return _Work(
            group, first, inputs, lasts, given, inputs.new_empty(rows, count, width), torch.empty_like(inputs), sums
        )


def _backward(work: _Work, member: int, weights: Sequence[Tensor]) -> None:
    """One network's gradients by what its layers give, and their column sums."""
    inputs, lasts, by_rest, sums = (each[member] for each in (work.inputs, work.lasts, work.by_rest, work.sums))
    total = work.by_first[:, member]  # by the blocks' inputs, downwards; the first layer's output in the end
    grad = work.grads[member]
    if work.group.layer:
        _mask_and_sum(grad, lasts[0], total, None, sums[0])
        return
    for block in reversed(range(work.group.blocks)):
        inner, _, outer, _ = weights[2 + 4 * block : 6 + 4 * block]
        by_middle, by_last = by_rest[2 * block], by_rest[2 * block + 1]
        top = block == work.group.blocks - 1
        _mask_and_sum(grad if top else total, lasts[block], by_last, total if top else None, sums[2 + 2 * block])
        torch.mm(by_last, outer, out=by_middle)
        _mask_and_sum(by_middle, inputs[2 * block + 1], by_middle, None, sums[1 + 2 * block])
        total.addmm_(by_middle, inner)
    _mask_and_sum(total, None, total, None, sums[0])


def _mask_and_sum(grad: Tensor, activation: Tensor | None, out: Tensor, copy: Tensor | None, sums: Tensor) -> None:
    """out = grad where the ReLU's result is positive, with its column sums by blocks of rows, and a copy of grad."""
    from simplepcfg.ops.neural.residual_kernels import relu_bwd_kernel

    rows, width = grad.shape
    columns = min(COLUMNS_A_PROGRAM, 1 << max(width - 1, 1).bit_length())
    relu_bwd_kernel[(sums.shape[0], -(-width // columns))](
        grad, grad if activation is None else activation, out, grad if copy is None else copy, sums, rows, width,
        grad.stride(0), out.stride(0), 0 if copy is None else copy.stride(0), HAS_RELU=activation is not None,
        HAS_COPY=copy is not None, ROWS=ROWS_A_PROGRAM, BLOCK_D=columns, num_warps=WARPS,
    )  # fmt: skip


def _sum_gradients(grads: Sequence[Tensor], out: Tensor, add: bool) -> None:
    """out = Σ grads, or out += Σ grads, two at a time, in float32."""
    from simplepcfg.ops.neural.residual_kernels import sum_gradients_kernel

    size = out.numel()
    for place in range(0, len(grads), 2):
        pair = grads[place : place + 2]
        sum_gradients_kernel[(-(-size // SUM_BLOCK),)](
            pair[0], pair[-1], out, size, COUNT=len(pair), ADD=add or place > 0, BLOCK=SUM_BLOCK, num_warps=4
        )


def _table_gradient(by_table: Tensor, works: Sequence[_Work]) -> None:
    """The gradient by the table: what residual layers hand on, and every group's product with its first matrices."""
    whole = (0, by_table.shape[0])
    ordered = sorted(works, key=lambda work: (work.group.rows != whole, not work.group.layer))
    written = bool(ordered) and ordered[0].group.rows == whole  # by that group; everything else is added
    if not written:
        by_table.zero_()
    layers = [work for work in ordered if work.group.layer]
    for work in layers:
        _sum_gradients(work.grads, by_table[slice(*work.group.rows)], add=not (written and work is ordered[0]))
    for work in ordered:
        by_first, first = work.by_first.flatten(1), work.first.flatten(0, 1)  # [rows, G D], [G D, features]
        if written and work is ordered[0] and not work.group.layer:
            mm_wide(by_first, first, by_table)
        else:
            add_mm_wide(by_table[slice(*work.group.rows)], by_first, first)


class _WeightSums(NamedTuple):
    """The gradients by a group's weights: sums over rows that do not wait for each other."""

    first: "_SummedProducts"
    rest: "_SummedProducts | None"  # of all matrices of the blocks
    sums: Tensor  # as in _Work
    biases: Tensor  # out [G, 1 + 2 blocks, D]
    shape: tuple[int, int, int]  # networks, D, features of the table

    @staticmethod
    def of(work: _Work, table: Tensor) -> "_WeightSums":
        """With buffers made here, before streams part."""
        x = table[slice(*work.group.rows)]
        first = _SummedProducts.of(work.by_first.flatten(1)[None], x[None])
        given = (work.by_rest.flatten(0, 1), work.inputs.flatten(0, 1))
        rest = _SummedProducts.of(*given) if work.group.blocks else None
        biases = work.sums.new_empty(*work.sums.shape[:2], work.sums.shape[3])
        return _WeightSums(first, rest, work.sums, biases, (*work.first.shape,))

    def jobs(self) -> list[tuple[int, Callable[[], object]]]:
        """Each with its cost in multiplications, of which the sums of biases have none."""
        found: list[tuple[int, Callable[[], object]]] = [
            (each.cost, each.make) for each in (self.first, self.rest) if each is not None
        ]
        return [*found, (0, lambda: torch.sum(self.sums, 2, out=self.biases))]

    def by_weights(self) -> list[list[Tensor]]:
        """Of each network, in the order of its weights."""
        count, width, features = self.shape
        matrices = [[*each] for each in self.first.out.view(count, 1, width, features).unbind(0)]
        if self.rest is not None:
            for into, each in zip(matrices, self.rest.out.view(count, -1, width, width).unbind(0), strict=True):
                into += each.unbind(0)
        return [
            [tensor for pair in zip(into, each.unbind(0), strict=True) for tensor in pair]
            for into, each in zip(matrices, self.biases.unbind(0), strict=True)
        ]


class _SummedProducts(NamedTuple):
    """out = byᵀ of, batch by batch, in float32: [B, rows, M] and [B, rows, K] to [B, M, K]."""

    by: Tensor
    of_rows: Tensor
    parts: Tensor  # [B, splits, M, K]
    out: Tensor  # the same memory where rows are not split

    @staticmethod
    def of(by: Tensor, of_rows: Tensor) -> "_SummedProducts":
        """With buffers."""
        (batch, rows, height), width = by.shape, of_rows.shape[2]
        tiles, splits = batch * -(-height // TILE) * -(-width // TILE), 1
        while (
            2 * splits * tiles <= MULTIPROCESSORS and rows % (2 * splits) == 0 and rows >= 2 * splits * LEAST_SPLIT_ROWS
        ):
            splits *= 2
        parts = by.new_empty(batch, splits, height, width, dtype=torch.float32)
        return _SummedProducts(by, of_rows, parts, parts[:, 0] if splits == 1 else torch.empty_like(parts[:, 0]))

    @property
    def cost(self) -> int:
        """Multiplications."""
        return self.by.numel() * self.of_rows.shape[2]

    def make(self) -> None:
        """The products, then the sum of their parts."""
        splits, parts = self.parts.shape[1], self.parts.flatten(0, 1)
        if len(parts) == 1:
            mm_wide(self.by[0].T, self.of_rows[0], parts[0])
        else:
            by, of_rows = (each.reshape(len(parts), -1, each.shape[2]) for each in (self.by, self.of_rows))
            bmm_wide(by.mT, of_rows, parts)
        if splits > 1:
            torch.sum(self.parts, 1, out=self.out)


def _shares(groups: Sequence[Group], count: int) -> list[tuple[int, int, int]]:
    """(lane, group, member) of every network."""
    costs = [
        ((group.rows[1] - group.rows[0]) * (1 + 2 * group.blocks), (which, member))
        for which, group in enumerate(groups)
        for member in range(len(group.members))
    ]
    return [(lane, *place) for lane, place in spread(costs, count)]


def _narrow(
    table: Tensor, weights: Sequence[Sequence[Tensor]], groups: Sequence[Group]
) -> tuple[list[list[Tensor]], Tensor, list[Tensor]]:
    """Weights and table in bfloat16, by one launch; and each group's first matrices, which lie in one stack."""
    given = [[tensor.detach() for tensor in each] for each in weights]
    made = [[torch.empty(tensor.shape, dtype=torch.bfloat16, device=table.device) for tensor in each] for each in given]
    firsts = []
    for group in groups:
        first = made[group.members[0]][0]
        stack = first.new_empty(len(group.members), *first.shape)
        for k, place in zip(group.members, stack.unbind(0), strict=True):
            made[k][0] = place
        firsts.append(stack)
    narrow_table = torch.empty(table.shape, dtype=torch.bfloat16, device=table.device)
    flat = [[tensor for each in both for tensor in each] for both in (made, given)]
    torch._foreach_copy_([narrow_table, *flat[0]], [table.detach(), *flat[1]])
    return made, narrow_table, firsts
