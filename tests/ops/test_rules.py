"""Rule probabilities: every path against plain autograd in float64, the kernels under the interpreter included."""

import pytest
import torch
from torch import Tensor

from simplepcfg.errors import InputError
from simplepcfg.ops.neural import row_softmax, rule_probabilities, rules, softmax
from simplepcfg.ops.neural.naive import naive_rule_probabilities
from simplepcfg.ops.neural.softmax import LEAST
from simplepcfg.ops.products import row_parts

SIZES = [(1, 1, 1), (3, 7, 5), (17, 63, 16), (5, 130, 33)]


def case(n: int, s: int, d: int, scale: float = 1.0, dtype: torch.dtype = torch.float64) -> list[Tensor]:
    generator = torch.Generator().manual_seed(n + s)
    return [
        (torch.randn(rows, d, generator=generator, dtype=torch.float64) * scale).to(dtype).requires_grad_()
        for rows in (n, s, s)
    ]


def weights(n: int, s: int, seed: int = 0) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(n, s, generator=generator, dtype=torch.float64) for _ in range(2)]


def fused(*inputs: Tensor) -> tuple[Tensor, Tensor]:
    """The GPU's path on this machine: kernels interpreted, products widened."""
    return rules._RuleProbabilities.apply(*inputs, "bf16", LEAST, True)


def cut(x: Tensor) -> Tensor:
    """To bfloat16 as the interpreter does it: it cuts off where a GPU rounds."""
    return (x.float().view(torch.int32) & -65536).view(torch.float32)


def plain_answers(inputs: list[Tensor], grads: list[Tensor]) -> list[Tensor]:
    """Both outputs and the three gradients in plain torch: narrow operands, probabilities and logits' gradients."""
    parents, *children = (tensor.detach().bfloat16().float() for tensor in inputs)
    rules_found, by_children, by_parents = [], [], torch.zeros_like(parents)
    for each, grad in zip(children, grads, strict=True):
        p, dp = cut((parents @ each.T).softmax(-1)), grad.bfloat16().float()
        by_logits = cut(p * (dp - (p * dp).sum(-1, keepdim=True)))
        by_parents += by_logits @ each
        by_children.append(by_logits.T @ parents)
        rules_found.append(p)
    return [*rules_found, by_parents, *by_children]


def fused_answers(inputs: list[Tensor], grads: list[Tensor]) -> list[Tensor]:
    found = fused(*inputs)
    return [*found, *torch.autograd.grad(found, inputs, [grad.bfloat16() for grad in grads])]


def true_answers(inputs: list[Tensor], grads: list[Tensor]) -> list[Tensor]:
    exact = [tensor.detach().double().requires_grad_() for tensor in inputs]
    found = naive_rule_probabilities(*exact)
    grads_found = torch.autograd.grad(found, exact, grads)
    return [tensor.detach() for tensor in (*found, *grads_found)]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("precision", [None, "fp32", "tf32"])
def test_exact_paths(size: tuple[int, int, int], precision: str | None) -> None:
    inputs, grads = case(*size), weights(*size[:2])
    found = rule_probabilities(*inputs, precision=precision)
    truth = naive_rule_probabilities(*inputs)
    for one, two in zip(found, truth, strict=True):
        torch.testing.assert_close(one, two)
    mine, autograd = (torch.autograd.grad(outputs, inputs, grads) for outputs in (found, truth))
    for one, two in zip(mine, autograd, strict=True):
        torch.testing.assert_close(one, two)


@pytest.mark.parametrize("scale", [1.0, 4.0])
@pytest.mark.parametrize(
    ("rows", "size"),
    [
        *(("held", size) for size in (*SIZES, (20, 12, 8))),
        *(("in two blocks", size) for size in ((3, 1, 4), (5, 40, 8), (2, 61, 3))),
        *(("read twice", size) for size in (*SIZES, (20, 12, 8))),
    ],
)
def test_kernels(rows: str, size: tuple[int, int, int], scale: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Errors at most twice those of plain torch at the same precision, however the kernels take rows."""
    if rows == "in two blocks":
        monkeypatch.setattr(softmax, "TWO_BLOCKS", (0, 1 << 20))
    if rows == "read twice":
        monkeypatch.setattr(softmax, "LONGEST_HELD", {"forward": 0, "backward": 0})
        monkeypatch.setattr(softmax, "BLOCK", 1 if size[1] < 8 else 8 if size[1] < 32 else 32)
    inputs, grads = case(*size, scale, torch.float32), weights(*size[:2])
    mine, plain, truth = (answers(inputs, grads) for answers in (fused_answers, plain_answers, true_answers))
    for one, two, true in zip(mine, plain, truth, strict=True):
        error, allowed = (float((found.detach().double() - true).abs().max()) for found in (one, two))
        assert error <= 2 * allowed + 1e-6


def test_logits_of_long_rows_are_computed_in_large_parts() -> None:
    """Of shorter ones, and outside kernels, as many as a cache holds; never fewer than some."""

    def rows(columns: int, fused: bool) -> list[int]:
        return [part.stop - part.start for part in softmax.logit_row_parts(20_000, columns, fused)]

    assert max(rows(8192, True)) * 8192 * 4 <= softmax.CACHED_BYTES
    assert rows(8192, True) == rows(8192, False)
    assert max(rows(24576, True)) * 24576 * 4 <= softmax.LOGIT_BYTES
    assert len(rows(24576, True)) == 2 < len(rows(24576, False))
    assert max(rows(1 << 30, True)) >= softmax.LEAST_LOGIT_ROWS > max(rows(1 << 30, True)) - 8
    assert sum(rows(24576, True)) == 20_000


def test_parts_of_rows_give_what_the_whole_does(monkeypatch: pytest.MonkeyPatch) -> None:
    inputs, grads = case(20, 21, 8, 1.0, torch.float32), [grad.bfloat16() for grad in weights(20, 21)]
    whole = torch.autograd.grad(fused(*inputs), inputs, grads)
    monkeypatch.setattr(rules, "row_parts", lambda rows, most, multiple: row_parts(rows, 8))
    monkeypatch.setattr(softmax, "CACHED_BYTES", 1)
    monkeypatch.setattr(softmax, "LEAST_LOGIT_ROWS", 8)
    found = fused(*inputs)
    for one, two in zip(torch.autograd.grad(found, inputs, grads), whole, strict=True):
        torch.testing.assert_close(one, two, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("path", [fused, rule_probabilities])
def test_halves_of_one_buffer(path: object) -> None:
    left, right = path(*case(5, 9, 4, dtype=torch.float32))  # type: ignore[operator]
    assert left.is_contiguous()
    assert right.is_contiguous()
    assert left.untyped_storage().data_ptr() == right.untyped_storage().data_ptr()
    assert right.data_ptr() - left.data_ptr() == left.numel() * left.element_size()


@pytest.mark.parametrize("path", [fused, rule_probabilities, naive_rule_probabilities])
def test_no_rule_falls_to_zero(path: object) -> None:
    """However much logits differ: p · dp, the expected count of the rule, is still its gradient."""
    parents, left, right = (tensor.detach() for tensor in case(2, 6, 3, dtype=torch.float32))
    parents[:], parents[:, 0], left[:, 0] = 0.0, 1.0, torch.tensor([0.0, 0.0, -1000.0, 0.0, 0.0, -2000.0])
    inputs = [tensor.requires_grad_() for tensor in (parents, left, right)]
    found = path(*inputs)  # type: ignore[operator]
    assert (found[0][:, [2, 5]] == LEAST).all()
    torch.testing.assert_close(found[0].float().sum(-1), torch.ones(2), rtol=1e-2, atol=0.0)
    grads = [torch.zeros_like(half) for half in found]
    grads[0][0, 2] = 1 / LEAST  # all sentences of a text use this rule once
    _, by_left, _ = torch.autograd.grad(found, inputs, grads)
    expected = torch.tensor([-0.25, -0.25, 1.0, -0.25, -0.25, 0.0])
    torch.testing.assert_close(by_left[:, 0].float(), expected, rtol=1e-2, atol=1e-6)


@pytest.mark.parametrize("least", [0.0, -1.0, 1.0, float("nan")])
def test_a_least_probability_is_one(least: float) -> None:
    parents, left, right = case(2, 6, 3)
    for ask in (
        lambda: rule_probabilities(parents, left, right, least=least),
        lambda: row_softmax(left, right, least=least),
    ):
        with pytest.raises(InputError, match=f"least = {least}; give a probability more than 0"):
            ask()


@pytest.mark.filterwarnings("ignore:invalid value encountered:RuntimeWarning")  # the interpreter's, about NaN
@pytest.mark.parametrize("path", [fused, rule_probabilities])
def test_nan_stays_nan(path: object) -> None:
    parents, left, right = (tensor.detach() for tensor in case(2, 6, 3, dtype=torch.float32))
    parents[1] = torch.nan
    found = path(parents, left, right)[0]  # type: ignore[operator]
    assert found[1].isnan().all()
    assert found[0].isfinite().all()


@pytest.mark.parametrize("path", [fused, rule_probabilities])
def test_backward_twice_and_in_parts(path: object) -> None:
    """What flows in is not written to, a second backward gives the same bits, and one side may be unused."""
    inputs = case(4, 11, 6, dtype=torch.float32)
    found = path(*inputs)  # type: ignore[operator]
    grads = [grad.to(found[0].dtype) for grad in weights(4, 11)]
    kept = [grad.clone() for grad in grads]
    first = torch.autograd.grad(found, inputs, grads, retain_graph=True)
    second = torch.autograd.grad(found, inputs, grads, retain_graph=True)
    assert all(torch.equal(one, two) for one, two in zip(grads, kept, strict=True))
    assert all(torch.equal(one, two) for one, two in zip(first, second, strict=True))
    by_parents = torch.zeros_like(first[0])
    for side in range(2):
        alone = torch.autograd.grad(found[side], inputs, grads[side], retain_graph=True, allow_unused=True)
        assert torch.equal(alone[1 + side], first[1 + side])
        assert alone[2 - side] is None or not alone[2 - side].any()
        by_parents += alone[0]
    torch.testing.assert_close(by_parents, first[0], rtol=1e-4, atol=1e-4)


def test_differentiable_twice() -> None:
    inputs = case(3, 5, 4)
    assert torch.autograd.gradgradcheck(rule_probabilities, inputs)


@pytest.mark.parametrize("shapes", [((3, 4), (5, 4), (6, 4)), ((3, 4), (5, 3), (5, 3)), ((0, 4), (5, 4), (5, 4))])
def test_shapes_that_do_not_fit_are_named(shapes: tuple[tuple[int, int], ...]) -> None:
    with pytest.raises(InputError, match=r"must be \[N, D\], \[S, D\] and \[S, D\]"):
        rule_probabilities(*(torch.zeros(shape) for shape in shapes))


def test_unknown_precision_is_named() -> None:
    with pytest.raises(InputError, match="precision 'fp8' is unknown"):
        rule_probabilities(*(torch.zeros(2, 2) for _ in range(3)), precision="fp8")
