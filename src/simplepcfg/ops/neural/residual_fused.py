"""Residual networks in bfloat16 on a GPU, where networks of the same form and shape share buffers and batched products.

The backward pass keeps the gradients of all layers' outputs, so that the gradients of all weights of a group are one
batched product, and those of its biases one sum.
"""

from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

import torch
from torch import Tensor

from simplepcfg.ops.backends import multiprocessors
from simplepcfg.ops.products import add_mm_wide, mm_wide, power_of_two

# The rows and columns whose column sums one program computes, and its warps.
ROWS_A_PROGRAM = 128
COLUMNS_A_PROGRAM = 64
WARPS = 8
SUM_BLOCK = 4096  # elements of a gradient that one program sums
# The gradient of a weight matrix sums over many rows. Rows are split while its tiles are too few for a large GPU.
TILE = 128
LEAST_SPLIT_ROWS = 512

Rows = tuple[int, int]


class Group(NamedTuple):
    """Networks over the same rows whose weights have the same shapes."""

    members: tuple[int, ...]  # the indices of these networks
    rows: Rows
    blocks: int
    layer: bool = False  # whether these are residual layers, x + ReLU(W x + b), which have no blocks


def is_residual_layer(weights: Sequence[Tensor]) -> bool:
    """Return whether a network with these weights is one residual layer."""
    return len(weights) == 2


def split_by(tensors: Sequence[Tensor], counts: Sequence[int]) -> list[Sequence[Tensor]]:
    """Split a list into consecutive parts of these lengths."""
    ends = list(accumulate(counts))
    return [tensors[end - count : end] for end, count in zip(ends, counts, strict=True)]


def group_networks(rows: Sequence[Rows], weights: Sequence[Sequence[Tensor]]) -> list[Group]:
    """Group the networks by their rows and the shapes of their weights."""
    alike: dict[object, list[int]] = {}
    for k, each in enumerate(weights):
        alike.setdefault((rows[k], tuple(tensor.shape for tensor in each)), []).append(k)
    first = [(tuple(members), weights[members[0]]) for members in alike.values()]
    return [Group(members, rows[members[0]], len(each) // 4, is_residual_layer(each)) for members, each in first]


def fused_forward(
    table: Tensor, rows: Sequence[Rows], weights: Sequence[Sequence[Tensor]]
) -> tuple[list[Tensor], list[Tensor]]:
    """Return the output of every network, and for backward the table, all weights and three buffers for each group."""
    groups = group_networks(rows, weights)
    narrow, narrow_table, firsts = _to_bfloat16(table, weights, groups)
    outputs: list[Tensor] = [narrow_table] * len(weights)
    buffers = []
    for group, first in zip(groups, firsts, strict=True):
        count, size = len(group.members), group.rows[1] - group.rows[0]
        inputs = first.new_empty(count, 2 * group.blocks, size, first.shape[1])  # inputs of the blocks' layers
        lasts = first.new_empty(
            count, group.blocks + group.layer, size, first.shape[1]
        )  # what each block adds to its input
        buffers += [first, inputs, lasts]
        for k in group.members:
            outputs[k] = first.new_empty(size, first.shape[1])
    for which, group in enumerate(groups):
        _, inputs, lasts = buffers[3 * which : 3 * which + 3]
        for member, k in enumerate(group.members):
            _forward(narrow_table[slice(*group.rows)], narrow[k], inputs[member], lasts[member], outputs[k])
    return outputs, [narrow_table, *(tensor for each in narrow for tensor in each), *buffers]


def _forward(x: Tensor, weights: Sequence[Tensor], inputs: Tensor, lasts: Tensor, output: Tensor) -> None:
    """Compute one network; ``inputs`` alternates between the blocks' inputs y and their inner activations."""
    if is_residual_layer(weights):
        torch._addmm_activation(weights[1], x, weights[0].T, out=lasts[0])  # product, bias and ReLU in one kernel
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
    """Compute float32 gradients of the table and of the weights; None for a network whose output has no gradient."""
    table, start = saved[0], 1 + sum(counts)
    weights = split_by(saved[1:start], counts)
    works = []
    for place, group in enumerate(group_networks(rows, weights)):
        asked = [member for member, k in enumerate(group.members) if grads[k] is not None]
        first, inputs, lasts = saved[start + 3 * place : start + 3 * place + 3]
        if asked:
            if len(asked) < len(group.members):
                first, inputs, lasts = first[asked], inputs[asked], lasts[asked]
                group = group._replace(members=tuple(group.members[member] for member in asked))
            works.append(_GroupBackward.of(group, first, inputs, lasts, [grads[k] for k in group.members]))
    for work in works:
        for member, k in enumerate(work.group.members):
            _backward(work, member, weights[k])
    by_table = torch.empty_like(table, dtype=torch.float32)
    summed = [_WeightGradients.of(work, table) for work in works]
    for sums in summed:
        sums.make()
    _table_gradient(by_table, works)
    by_weights: list[list[Tensor | None]] = [[None] * number for number in counts]
    for work, sums in zip(works, summed, strict=True):
        for k, each in zip(work.group.members, sums.by_weights(), strict=True):
            by_weights[k] = list(each)
    return by_table, by_weights


class _GroupBackward(NamedTuple):
    """The tensors that the backward pass of one group reads, and the buffers to which it writes."""

    group: Group
    first: Tensor  # [G, D, features of the table]: the first layers' weights
    inputs: Tensor  # [G, 2 blocks, rows, D]: of the blocks' layers
    lasts: Tensor  # [G, blocks, rows, D], or [G, 1, rows, D] of residual layers: the outer ReLUs' results
    grads: list[Tensor]  # [rows, D] each: gradients of the outputs
    by_first: Tensor  # [rows, G, D]: gradients of the first layers' outputs, so laid out that one product sums over G
    by_rest: Tensor  # [G, 2 blocks, rows, D]: gradients of the inputs of the blocks' ReLUs
    sums: Tensor  # [G, 1 + 2 blocks, row blocks, D], float32: column sums of both

    @staticmethod
    def of(
        group: Group, first: Tensor, inputs: Tensor, lasts: Tensor, grads: Sequence[Tensor | None]
    ) -> "_GroupBackward":
        """Allocate the buffers."""
        count, layers, rows, width = inputs.shape
        sums = inputs.new_empty(count, 1 + layers, -(-rows // ROWS_A_PROGRAM), width, dtype=torch.float32)
        given = [grad.contiguous() for grad in grads if grad is not None]
        return _GroupBackward(
            group, first, inputs, lasts, given, inputs.new_empty(rows, count, width), torch.empty_like(inputs), sums
        )


def _backward(work: _GroupBackward, member: int, weights: Sequence[Tensor]) -> None:
    """Compute the gradients of one network's layers' outputs, and their column sums."""
    inputs, lasts, by_rest, sums = (each[member] for each in (work.inputs, work.lasts, work.by_rest, work.sums))
    total = work.by_first[:, member]  # gradient of each block's input in turn, finally of the first layer's output
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
    """Compute ``grad`` where the activation is positive, its column sums by blocks of rows, and a copy of ``grad``."""
    from simplepcfg.ops.neural.residual_kernels import relu_bwd_kernel

    rows, width = grad.shape
    columns = min(COLUMNS_A_PROGRAM, power_of_two(width))
    relu_bwd_kernel[(sums.shape[0], -(-width // columns))](
        grad, grad if activation is None else activation, out, grad if copy is None else copy, sums, rows, width,
        grad.stride(0), out.stride(0), 0 if copy is None else copy.stride(0), HAS_RELU=activation is not None,
        HAS_COPY=copy is not None, ROWS=ROWS_A_PROGRAM, BLOCK_D=columns, num_warps=WARPS,
    )  # fmt: skip


def _sum_gradients(grads: Sequence[Tensor], out: Tensor, add: bool) -> None:
    """Compute Σ grads into ``out``, or add it to ``out``, two at a time, in float32."""
    from simplepcfg.ops.neural.residual_kernels import sum_gradients_kernel

    size = out.numel()
    for place in range(0, len(grads), 2):
        pair = grads[place : place + 2]
        sum_gradients_kernel[(-(-size // SUM_BLOCK),)](
            pair[0], pair[-1], out, size, COUNT=len(pair), ADD=add or place > 0, BLOCK=SUM_BLOCK, num_warps=4
        )


def _table_gradient(by_table: Tensor, works: Sequence[_GroupBackward]) -> None:
    """Compute the gradient of the table, from residual connections and from the first matrices of each group."""
    whole = (0, by_table.shape[0])
    ordered = sorted(works, key=lambda work: (work.group.rows != whole, not work.group.layer))
    written = bool(ordered) and ordered[0].group.rows == whole  # by the first group; all others add to it
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


class _WeightGradients(NamedTuple):
    """The gradients of a group's weights: independent sums over rows."""

    first: "_SummedProducts"
    rest: "_SummedProducts | None"  # of all matrices of the blocks
    sums: Tensor  # as in _GroupBackward
    biases: Tensor  # out [G, 1 + 2 blocks, D]
    shape: tuple[int, int, int]  # networks, D, features of the table

    @staticmethod
    def of(work: _GroupBackward, table: Tensor) -> "_WeightGradients":
        """Allocate the buffers."""
        x = table[slice(*work.group.rows)]
        first = _SummedProducts.of(work.by_first.flatten(1)[None], x[None])
        given = (work.by_rest.flatten(0, 1), work.inputs.flatten(0, 1))
        rest = _SummedProducts.of(*given) if work.group.blocks else None
        biases = work.sums.new_empty(*work.sums.shape[:2], work.sums.shape[3])
        return _WeightGradients(first, rest, work.sums, biases, (*work.first.shape,))

    def make(self) -> None:
        """Compute the gradients of matrices and biases."""
        self.first.make()
        if self.rest is not None:
            self.rest.make()
        torch.sum(self.sums, 2, out=self.biases)

    def by_weights(self) -> list[list[Tensor]]:
        """Return the gradients for each network, in the order of its weights."""
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
    """The batched products byᵀ · of_rows in float32: [B, rows, M] and [B, rows, K] to [B, M, K]."""

    by: Tensor
    of_rows: Tensor
    parts: Tensor  # [B, splits, M, K]
    out: Tensor  # [B, M, K]; shares memory with ``parts`` if rows are not split

    @staticmethod
    def of(by: Tensor, of_rows: Tensor) -> "_SummedProducts":
        """Allocate the buffers."""
        (batch, rows, height), width = by.shape, of_rows.shape[2]
        tiles, splits = batch * -(-height // TILE) * -(-width // TILE), 1
        most = multiprocessors(by.device)
        while 2 * splits * tiles <= most and rows % (2 * splits) == 0 and rows >= 2 * splits * LEAST_SPLIT_ROWS:
            splits *= 2
        parts = by.new_empty(batch, splits, height, width, dtype=torch.float32)
        return _SummedProducts(by, of_rows, parts, parts[:, 0] if splits == 1 else torch.empty_like(parts[:, 0]))

    def make(self) -> None:
        """Compute the products, then sum their parts."""
        splits, parts = self.parts.shape[1], self.parts.flatten(0, 1)
        if len(parts) == 1:
            mm_wide(self.by[0].T, self.of_rows[0], parts[0])
        else:
            by, of_rows = (each.reshape(len(parts), -1, each.shape[2]) for each in (self.by, self.of_rows))
            mm_wide(by.mT, of_rows, parts)
        if splits > 1:
            torch.sum(self.parts, 1, out=self.out)


def _to_bfloat16(
    table: Tensor, weights: Sequence[Sequence[Tensor]], groups: Sequence[Group]
) -> tuple[list[list[Tensor]], Tensor, list[Tensor]]:
    """Convert weights and table to bfloat16 in one launch; also return the stacked first matrices of each group."""
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
