"""Row softmaxes of products and products of them: values, gradients, and gradients of gradients."""

import pytest
import torch

from simplepcfg.errors import InputError
from simplepcfg.ops.neural import product, row_softmax, rule_probabilities
from simplepcfg.ops.neural.factors import naive_row_softmax


def tensors(*shapes: tuple[int, ...], dtype: torch.dtype = torch.float64) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(*shape, generator=generator, dtype=dtype).requires_grad_() for shape in shapes]


@pytest.mark.parametrize(("rows", "columns", "width"), [(1, 1, 1), (5, 9, 3), (63, 65, 17)])
@pytest.mark.parametrize("precision", [None, "tf32", "bf16"])
def test_row_softmax(rows: int, columns: int, width: int, precision: str | None) -> None:
    a, b = tensors((rows, width), (columns, width))
    found, expected = row_softmax(a, b, precision=precision), naive_row_softmax(a, b)
    torch.testing.assert_close(found, expected)
    weights = tensors((rows, columns))[0].detach()
    for one, two in zip(
        torch.autograd.grad((found * weights).sum(), (a, b)),
        torch.autograd.grad((expected * weights).sum(), (a, b)),
        strict=True,
    ):
        torch.testing.assert_close(one, two)


def test_row_softmax_is_one_side_of_the_rules() -> None:
    parents, children = tensors((6, 4), (11, 4), dtype=torch.float32)
    assert torch.equal(row_softmax(parents, children), rule_probabilities(parents, children, children)[0])


def test_gradients_can_be_differentiated() -> None:
    a, b = tensors((3, 2), (4, 2))
    assert torch.autograd.gradgradcheck(row_softmax, (a, b))
    assert torch.autograd.gradcheck(product, tensors((3, 2), (2, 4)))
    assert torch.autograd.gradgradcheck(product, tensors((3, 2), (2, 4)))


def test_shapes_are_named() -> None:
    with pytest.raises(InputError, match=r"rows and columns have shapes \[2, 3\] and \[4, 2\]"):
        row_softmax(torch.zeros(2, 3), torch.zeros(4, 2))
    with pytest.raises(InputError, match="precision 'fp8' is unknown"):
        product(torch.zeros(2, 3), torch.zeros(3, 2), precision="fp8")
