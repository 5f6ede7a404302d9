"""A gradient that is itself differentiated must first be the gradient, also where one tensor is given twice."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from finite_differences import check_second_derivatives
from simplepcfg.ops.forward import forward
from simplepcfg.ops.inside import inside
from simplepcfg.ops.neural import row_softmax, rule_probabilities


def drawn(*size: int) -> Tensor:
    generator = torch.Generator().manual_seed(sum(size))
    return torch.randn(*size, generator=generator, dtype=torch.float64).requires_grad_()


EMISSIONS, ROOT = drawn(2, 5, 4), drawn(3)
CASES: dict[str, tuple[Tensor, Callable[[Tensor], Tensor]]] = {
    "inside": (drawn(3, 7), lambda x: inside(EMISSIONS, ROOT.softmax(-1), *(x.softmax(-1),) * 2)),
    "forward": (drawn(4, 4), lambda x: forward(EMISSIONS, EMISSIONS[0, 0].softmax(-1), (x.softmax(-1),) * 2)),
    "rules": (drawn(6, 3), lambda x: torch.cat(rule_probabilities(x, x, x))[:, 0]),
    "row_softmax": (drawn(5, 3), lambda x: row_softmax(x, x)[:, 0]),
}


@pytest.mark.parametrize("name", CASES)
def test_one_tensor_in_two_places(name: str) -> None:
    x, function = CASES[name]
    (plain,) = torch.autograd.grad(function(x).sum(), x)
    (differentiable,) = torch.autograd.grad(function(x).sum(), x, create_graph=True)
    torch.testing.assert_close(differentiable, plain)
    check_second_derivatives(function, [x])
