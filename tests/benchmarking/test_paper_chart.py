"""The paper's FlashInside, which benchmarks compare with, against the naive algorithm; and what it does not take."""

import math

import pytest
import torch

from random_grammars import Case, random_case, with_dead_states, with_zeros
from simplepcfg.errors import InputError
from simplepcfg.ops.inside import BACKENDS, inside

pytest.importorskip("triton")


@pytest.fixture(autouse=True)
def _papers_backend(monkeypatch: pytest.MonkeyPatch) -> None:
    from paper_chart import paper_inside

    monkeypatch.setitem(BACKENDS, "paper", paper_inside)


def gradients(case: Case, backend: str) -> tuple[torch.Tensor, list[torch.Tensor]]:
    """log Z, and gradients by log-emissions and log-rules of the sentences that have one, each with its own weight."""
    log_z = inside(*case.tensors(), backend=backend)
    possible = log_z > -math.inf
    weights = torch.linspace(-1.0, 2.0, len(log_z), dtype=log_z.dtype)
    grads = torch.autograd.grad((log_z * weights)[possible].sum(), case.tensors())
    rules = zip(grads[1:], case.tensors()[1:], strict=True)
    counts = [grads[0], *(torch.where(rule == 0, 0.0, grad * rule.detach()) for grad, rule in rules)]
    return log_z.detach().double(), [grad.double() for grad in counts]


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-10), (torch.float32, 2e-5)])
@pytest.mark.parametrize(
    ("batch", "n", "nonterminals", "preterminals"), [(1, 2, 1, 1), (2, 5, 5, 9), (1, 5, 63, 3), (1, 3, 515, 6)]
)
def test_against_naive(
    dtype: torch.dtype, tolerance: float, batch: int, n: int, nonterminals: int, preterminals: int
) -> None:
    case = random_case(batch, n, nonterminals, preterminals, scale=2.0)
    expected, true = gradients(case, "naive")
    log_z, found = gradients(case.to(dtype), "paper")
    torch.testing.assert_close(log_z, expected, rtol=tolerance, atol=tolerance)
    for ours, exact in zip(found, true, strict=True):
        assert float((ours - exact).norm()) <= 10 * tolerance * float(exact.norm())


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("kind", ["zeros", "dead", "peaked"])
def test_zero_probabilities(kind: str, seed: int) -> None:
    case = random_case(2, 4, 5, 6, scale=20.0 if kind == "peaked" else 3.0, seed=seed)
    if kind != "peaked":
        case = with_zeros(case, seed) if kind == "zeros" else with_dead_states(case)
    expected, true = gradients(case, "naive")
    log_z, found = gradients(case, "paper")
    torch.testing.assert_close(log_z, expected, rtol=1e-10, atol=1e-10)
    for ours, exact in zip(found, true, strict=True):
        torch.testing.assert_close(ours, exact, rtol=1e-8, atol=1e-10)


def test_impossible_sentence_has_zero_gradient() -> None:
    case = random_case(2, 4, 3, 4)
    emissions = case.log_emissions.detach().clone()
    emissions[0, 2] = -math.inf
    case = Case(emissions.requires_grad_(), *case.tensors()[1:])
    log_z = inside(*case.tensors(), backend="paper")
    assert log_z[0] == -math.inf
    assert log_z[1].isfinite()
    grads = torch.autograd.grad(log_z[0], case.tensors(), retain_graph=True)
    assert all((grad == 0).all() for grad in grads)
    assert all(grad.isfinite().all() for grad in torch.autograd.grad(log_z[1], case.tensors()))


def test_backward_twice_is_the_same() -> None:
    case = random_case(2, 4, 4, 3, dtype=torch.float32)
    log_z = inside(*case.tensors(), backend="paper")
    first = torch.autograd.grad(log_z.sum(), case.tensors(), retain_graph=True)
    second = torch.autograd.grad(log_z.sum(), case.tensors())
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("batch", "n", "nonterminals", "preterminals"), [(1, 2, 1, 1), (3, 21, 65, 33), (2, 9, 700, 9)]
)
def test_on_a_gpu(batch: int, n: int, nonterminals: int, preterminals: int) -> None:
    case = random_case(batch, n, nonterminals, preterminals, scale=2.0)
    tensors = [tensor.detach().float().cuda().requires_grad_() for tensor in case.tensors()]
    log_z = inside(*tensors, backend="paper")
    expected = inside(*case.tensors(), backend="naive")
    torch.testing.assert_close(log_z.detach().cpu().double(), expected.detach(), rtol=1e-5, atol=1e-4)
    found = torch.autograd.grad(log_z.sum(), tensors)
    for ours, exact in zip(found, torch.autograd.grad(expected.sum(), case.tensors()), strict=True):
        assert float((ours.cpu().double() - exact).norm()) <= 2e-4 * float(exact.norm())


def test_one_word_has_no_tree() -> None:
    case = random_case(2, 1, 3, 4)
    assert inside(*case.tensors(), backend="paper").tolist() == [-math.inf] * 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"lengths": torch.tensor([4, 3])}, "different lengths"),
        ({"span_bonus": torch.zeros(2, 5, 5)}, "a span bonus"),
        ({"precision": "bf16"}, "precision bf16"),
        ({"root": torch.full((2, 3), 0.1)}, "rules with a batch dimension"),
    ],
)
def test_what_it_does_not_take(change: dict[str, object], message: str) -> None:
    names = ("log_emissions", "root", "left", "right")
    arguments: dict[str, object] = dict(zip(names, random_case(2, 4, 3, 4).tensors(), strict=True))
    with pytest.raises(InputError, match=message) as caught:
        inside(**{**arguments, **change}, backend="paper")  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)
