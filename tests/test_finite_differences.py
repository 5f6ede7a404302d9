"""The check of derivatives itself: one element that is a little wrong is seen, which gradcheck would let pass."""

import pytest
import torch
from torch import Tensor

from finite_differences import check_derivatives, check_second_derivatives


class Scaled(torch.autograd.Function):
    """A copy; in the gradient one element is off by a thousandth of itself, or in that of the gradient."""

    @staticmethod
    def forward(ctx, x: Tensor, order: int) -> Tensor:
        ctx.order = order
        return x.clone()

    @staticmethod
    def backward(ctx, grad: Tensor) -> tuple[Tensor, None]:
        if ctx.order == 2:
            return Scaled.apply(grad, 1), None
        factors = torch.ones_like(grad)
        factors[1, 2] += 5e-4 * (ctx.order == 1)
        return grad * factors, None


def function(order: int):
    return lambda x, y: (Scaled.apply(x, order).exp() * y).sum(1).log()


@pytest.mark.parametrize("check", [check_derivatives, check_second_derivatives])
def test_one_wrong_element(check) -> None:
    torch.manual_seed(0)
    inputs = [torch.rand(3, 4, dtype=torch.float64, requires_grad=True) for _ in range(2)]
    check(function(0), inputs)
    order = 1 if check is check_derivatives else 2
    assert torch.autograd.gradcheck(function(order), inputs)
    with pytest.raises(AssertionError):
        check(function(order), inputs)
