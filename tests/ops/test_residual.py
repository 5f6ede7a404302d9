"""Residual networks over one table: every path against plain autograd, and the kernel of the ReLU's backward."""

import pytest
import torch
from torch import Tensor

from finite_differences import check_second_derivatives
from simplepcfg.errors import InputError
from simplepcfg.ops.neural import residual, residual_fused, residual_networks
from simplepcfg.ops.neural.naive import naive_residual_network

# Rows of the table, networks' rows, their blocks (0: a residual layer), their width.
CASES = [
    (7, [(0, 7)], [0], 3),
    (70, [(0, 30), (0, 70), (0, 70), (30, 70)], [0, 0, 0, 2], 16),  # as in an SN-PCFG
    (19, [(0, 5), (0, 19), (0, 19), (5, 19)], [2, 1, 0, 2], 16),
    (140, [(0, 70), (70, 140)], [1, 2], 33),
    (70, [(0, 64), (6, 70), (0, 64), (0, 70), (0, 70), (0, 64), (0, 70)], [1, 1, 1, 2, 2, 1, 2], 16),  # groups
]
Case = tuple[int, list[tuple[int, int]], list[int], int]


def inputs_of(case: Case, dtype: torch.dtype = torch.float64) -> tuple[Tensor, list[list[Tensor]]]:
    size, _, blocks, width = case
    generator = torch.Generator().manual_seed(size)

    def draw(*shape: int) -> Tensor:
        scale = shape[-1] ** -0.5 if len(shape) == 2 else 0.1
        value = torch.randn(*shape, generator=generator, dtype=torch.float64) * scale
        return value.to(dtype).requires_grad_()

    weights = [[draw(width, width) if k % 2 == 0 else draw(width) for k in range(2 + 4 * count)] for count in blocks]
    table = torch.randn(size, width, generator=generator, dtype=torch.float64).to(dtype).requires_grad_()
    return table, weights


def grads_of(case: Case) -> list[Tensor]:
    generator = torch.Generator().manual_seed(1)
    return [torch.randn(stop - start, case[3], generator=generator).double() for start, stop in case[1]]


def fused(table: Tensor, rows: list[tuple[int, int]], weights: list[list[Tensor]]) -> tuple[Tensor, ...]:
    flat = [tensor for each in weights for tensor in each]
    return residual._ResidualNetworks.apply(table, tuple(rows), [len(each) for each in weights], "bf16", True, *flat)


def naive(table: Tensor, rows: list[tuple[int, int]], weights: list[list[Tensor]]) -> tuple[Tensor, ...]:
    parts = zip(rows, weights, strict=True)
    return tuple(naive_residual_network(table[start:stop], each) for (start, stop), each in parts)


def answers(function: object, case: Case, table: Tensor, weights: list[list[Tensor]]) -> list[Tensor]:
    leaves = [table, *(tensor for each in weights for tensor in each)]
    found = function(table, case[1], weights)  # type: ignore[operator]
    grads = [grad.bfloat16().to(output.dtype) for grad, output in zip(grads_of(case), found, strict=True)]
    return [tensor.detach() for tensor in (*found, *torch.autograd.grad(found, leaves, grads))]


@pytest.mark.parametrize("precision", [None, "fp32", "tf32"])
@pytest.mark.parametrize("case", CASES)
def test_exact_paths(case: Case, precision: str | None) -> None:
    def mine(table: Tensor, rows: list[tuple[int, int]], weights: list[list[Tensor]]) -> tuple[Tensor, ...]:
        return residual_networks(table, rows, weights, precision=precision)

    given = inputs_of(case)
    for one, two in zip(answers(mine, case, *given), answers(naive, case, *given), strict=True):
        torch.testing.assert_close(one, two)


@pytest.mark.parametrize("case", CASES)
def test_kernels(case: Case) -> None:
    """Against float64: at most twice the error of the same networks in torch's bfloat16."""
    table, weights = inputs_of(case, torch.float32)
    exact = (
        table.detach().double().requires_grad_(),
        [[tensor.detach().double().requires_grad_() for tensor in each] for each in weights],
    )
    truth, mine = answers(naive, case, *exact), answers(fused, case, table, weights)
    plain = answers(plain_bf16, case, table, weights)
    for one, two, true in zip(mine, plain, truth, strict=True):
        error, allowed = (float((found.double() - true).norm()) for found in (one, two))
        assert error <= 2 * allowed + 1e-6


def plain_bf16(table: Tensor, rows: list[tuple[int, int]], weights: list[list[Tensor]]) -> tuple[Tensor, ...]:
    found = []
    for (start, stop), each in zip(rows, weights, strict=True):
        x, *narrow = (tensor.bfloat16() for tensor in (table[start:stop], *each))
        y = torch.nn.functional.linear(x, narrow[0], narrow[1])
        if len(narrow) == 2:
            y = x + y.relu()
        for k in range(2, len(narrow), 4):
            middle = torch.nn.functional.linear(y, narrow[k], narrow[k + 1]).relu()
            y = y + torch.nn.functional.linear(middle, narrow[k + 2], narrow[k + 3]).relu()
        found.append(y)
    return tuple(found)


@pytest.mark.parametrize("path", [fused, residual_networks])
def test_backward_twice_and_with_outputs_unused(path: object) -> None:
    case = CASES[2]
    table, weights = inputs_of(case, torch.float32)
    leaves = [table, *(tensor for each in weights for tensor in each)]
    found = path(table, case[1], weights)  # type: ignore[operator]
    grads = [grad.to(found[0].dtype) for grad in grads_of(case)]
    kept = [grad.clone() for grad in grads]
    first = torch.autograd.grad(found, leaves, grads, retain_graph=True)
    second = torch.autograd.grad(found, leaves, grads, retain_graph=True)
    assert all(torch.equal(one, two) for one, two in zip((*first, *grads), (*second, *kept), strict=True))
    by_table = torch.zeros_like(first[0])
    for k in range(len(found)):
        alone = torch.autograd.grad(found[k], leaves, grads[k], retain_graph=True, allow_unused=True)
        by_table += alone[0]
    torch.testing.assert_close(by_table, first[0], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("path", [fused, residual_networks])
def test_a_network_whose_output_is_unused_gets_no_gradient(path: object) -> None:
    case = CASES[4]
    table, weights = inputs_of(case, torch.float32)
    leaves = [table, *(tensor for each in weights for tensor in each)]
    found = path(table, case[1], weights)  # type: ignore[operator]
    used = [0, 1, 3, 5]  # a part of each group of several
    grads = [grad.to(found[0].dtype) for grad in grads_of(case)]
    some = torch.autograd.grad(
        [found[k] for k in used], leaves, [grads[k] for k in used], retain_graph=True, allow_unused=True
    )
    rest = [grad if k in used else torch.zeros_like(grad) for k, grad in enumerate(grads)]
    every = torch.autograd.grad(found, leaves, rest)
    torch.testing.assert_close(some[0], every[0])
    by_some, by_every = (residual.split_by(each[1:], [len(one) for one in weights]) for each in (some, every))
    for k, (ones, twos) in enumerate(zip(by_some, by_every, strict=True)):
        for one, two in zip(ones, twos, strict=True):
            if k in used:
                torch.testing.assert_close(one, two)
            else:
                assert one is None


def test_groups_share_rows_and_shapes() -> None:
    _, rows, _, _ = CASES[4]
    groups = residual_fused.group_networks(rows, inputs_of(CASES[4])[1])
    assert [group.members for group in groups] == [(0, 2, 5), (1,), (3, 4, 6)]


def test_layers_share_rows_but_no_group_with_blocks() -> None:
    groups = residual_fused.group_networks(CASES[1][1], inputs_of(CASES[1])[1])
    assert [(group.members, group.blocks, group.layer) for group in groups] == [
        ((0,), 0, True),
        ((1, 2), 0, True),
        ((3,), 2, False),
    ]


def test_rows_split_where_weights_are_few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(residual_fused, "LEAST_SPLIT_ROWS", 4)
    generator = torch.Generator().manual_seed(0)
    for batch, rows in ((1, 64), (3, 48), (1, 7), (70, 16)):
        by, of = (torch.randn(batch, rows, width, generator=generator).bfloat16() for width in (5, 130))
        found = residual_fused._SummedProducts.of(by, of)
        found.make()
        assert found.out.dtype == torch.float32
        torch.testing.assert_close(found.out, by.float().mT @ of.float())


def test_differentiable_twice() -> None:
    case: Case = (4, [(0, 2), (0, 4)], [1, 0], 3)
    table, weights = inputs_of(case)
    counts = [len(each) for each in weights]

    def function(table: Tensor, *flat: Tensor) -> tuple[Tensor, ...]:
        return residual_networks(table, case[1], residual.split_by(flat, counts))

    check_second_derivatives(function, [table, *(tensor for each in weights for tensor in each)])


def test_what_does_not_fit_is_named() -> None:
    table, weights = inputs_of(CASES[0])
    with pytest.raises(InputError, match="rows 3 to 8 are not rows of a table of 7"):
        residual_networks(table, [(3, 8)], weights)
    with pytest.raises(InputError, match="a network has 3 weights"):
        residual_networks(table, [(3, 7)], [[*weights[0], table]])
