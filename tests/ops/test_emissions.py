"""Emission log-probabilities and their normaliser: every path against plain autograd in float64."""

import pytest
import torch
from torch import Tensor

from simplepcfg.errors import InputError
from simplepcfg.ops.neural import emission_log_probabilities, emissions, log_normaliser, softmax
from simplepcfg.ops.neural.naive import naive_emission_log_probabilities, naive_log_normaliser

SIZES = [(1, 1, 1), (7, 9, 5), (20, 67, 16), (130, 33, 8)]


def case(p: int, v: int, d: int, dtype: torch.dtype = torch.float64, scale: float = 1.0) -> list[Tensor]:
    generator = torch.Generator().manual_seed(p + v)
    return [
        (torch.randn(rows, d, generator=generator, dtype=torch.float64) * scale).to(dtype).requires_grad_()
        for rows in (p, v)
    ]


def words_of(v: int) -> Tensor:
    """A batch in which some words are frequent."""
    generator = torch.Generator().manual_seed(v)
    words = torch.randint(0, v, (3, 13), generator=generator)
    return torch.where(torch.rand(3, 13, generator=generator) < 0.4, torch.tensor(v // 2), words)


def weights(*size: int) -> Tensor:
    return torch.randn(*size, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def fused_normaliser(features: Tensor, embeddings: Tensor) -> Tensor:
    return emissions._LogNormaliser.apply(features, embeddings, "bf16", True, True)


def fused_emissions(features: Tensor, embeddings: Tensor, words: Tensor) -> Tensor:
    found = emissions._EmissionLogProbabilities.apply(features, embeddings, words.reshape(-1), "bf16", True, True)
    return found.view(*words.shape, -1)


def answers(function: object, inputs: list[Tensor], grad: Tensor) -> list[Tensor]:
    """The output and both gradients."""
    found = function(*inputs)  # type: ignore[operator]
    return [tensor.detach() for tensor in (found, *torch.autograd.grad(found, inputs, grad.to(found.dtype)))]


@pytest.fixture(params=["kept", "made again"])
def memory(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """All words' probabilities kept for backward, or made again in several parts."""
    if request.param == "made again":
        monkeypatch.setattr(emissions, "KEPT_BYTES", 0)
        monkeypatch.setattr(emissions, "AGAIN_BYTES", 1)
        monkeypatch.setattr(softmax, "SCORE_BYTES", 1)
        monkeypatch.setattr(softmax, "LEAST_SCORE_ROWS", 16)


@pytest.mark.usefixtures("memory")
@pytest.mark.parametrize("precision", [None, "fp32", "tf32"])
@pytest.mark.parametrize("size", SIZES)
def test_exact_paths(size: tuple[int, int, int], precision: str | None) -> None:
    inputs, words = case(*size), words_of(size[1])
    pairs = [
        (
            answers(lambda f, e: log_normaliser(f, e, precision=precision), inputs, weights(size[0])),
            answers(naive_log_normaliser, inputs, weights(size[0])),
        ),
        (
            answers(
                lambda f, e: emission_log_probabilities(f, e, words, precision=precision),
                inputs,
                weights(3, 13, size[0]),
            ),
            answers(lambda f, e: naive_emission_log_probabilities(f, e, words), inputs, weights(3, 13, size[0])),
        ),
    ]
    for mine, truth in pairs:
        for one, two in zip(mine, truth, strict=True):
            torch.testing.assert_close(one, two)


@pytest.mark.usefixtures("memory")
@pytest.mark.parametrize("held", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("size", SIZES)
def test_kernels(size: tuple[int, int, int], dtype: torch.dtype, held: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """As near as operands and probabilities of 8 bits allow, twice over: the interpreter cuts off, a card rounds."""
    if not held:
        monkeypatch.setattr(softmax, "LONGEST_HELD", {"forward": 0, "backward": 0})
        monkeypatch.setattr(softmax, "BLOCK", 1 if size[1] < 32 else 32)
    features, embeddings = case(*size, dtype)
    embeddings = embeddings.detach().float().requires_grad_()
    words, inputs = words_of(size[1]), [features, embeddings]
    exact = [tensor.detach().bfloat16().double().requires_grad_() for tensor in inputs]
    for mine, naive, shape in (
        (fused_normaliser, naive_log_normaliser, (size[0],)),
        (
            lambda f, e: fused_emissions(f, e, words),
            lambda f, e: naive_emission_log_probabilities(f, e, words),
            (3, 13, size[0]),
        ),
    ):
        grad = weights(*shape).bfloat16().double()
        found, truth = answers(mine, inputs, grad), answers(naive, exact, grad)
        torch.testing.assert_close(found[0].double(), truth[0], rtol=1e-5, atol=1e-5)
        for one, two in zip(found[1:], truth[1:], strict=True):
            assert float((one.double() - two).norm()) <= 2**-6 * float(two.norm()) + 2**-6


def test_occurrences_are_summed_in_order() -> None:
    generator = torch.Generator().manual_seed(0)
    rows = torch.randint(0, 9, (131,), generator=generator)
    rows[torch.rand(131, generator=generator) < 0.5] = 4
    by_occurrence = torch.randn(131, 130, generator=generator)
    total = torch.randn(12, 130, generator=generator)
    truth = total.double().index_add(0, rows, by_occurrence.double())
    first, second = total.clone(), total.clone()
    for mine in (first, second):
        emissions._add_occurrences(mine, by_occurrence, rows, by_kernel=True)
    assert torch.equal(first, second)
    torch.testing.assert_close(first.double(), truth, rtol=1e-5, atol=1e-5)
    assert torch.equal(first[9:], total[9:])


@pytest.mark.parametrize("path", [fused_emissions, emission_log_probabilities])
def test_backward_twice(path: object) -> None:
    inputs, words = case(5, 11, 6, torch.float32), words_of(11)
    found = path(*inputs, words)  # type: ignore[operator]
    grad = weights(3, 13, 5).float()
    first = torch.autograd.grad(found, inputs, grad, retain_graph=True)
    second = torch.autograd.grad(found, inputs, grad)
    assert all(torch.equal(one, two) for one, two in zip(first, second, strict=True))


def test_without_gradients_nothing_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    inputs = case(5, 11, 6)
    monkeypatch.setattr(emissions, "aligned_rows", None)
    with torch.no_grad():
        torch.testing.assert_close(log_normaliser(*inputs), naive_log_normaliser(*inputs))


def test_differentiable_twice() -> None:
    inputs, words = case(3, 5, 4), words_of(5)[:, :3]
    assert torch.autograd.gradgradcheck(log_normaliser, inputs)
    assert torch.autograd.gradgradcheck(lambda f, e: emission_log_probabilities(f, e, words), inputs)


@pytest.mark.parametrize("shapes", [((3, 4), (5, 3)), ((3,), (5, 3)), ((3, 4), (0, 4))])
def test_shapes_that_do_not_fit_are_named(shapes: tuple[tuple[int, ...], ...]) -> None:
    with pytest.raises(InputError, match=r"must be \[P, D\] and \[V, D\]"):
        log_normaliser(*(torch.zeros(shape) for shape in shapes))
