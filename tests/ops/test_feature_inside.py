"""The inside algorithm of softmax rules: one operation against the two it is made of, and against plain autograd."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from finite_differences import check_second_derivatives
from simplepcfg.errors import InputError
from simplepcfg.ops.inside import inside
from simplepcfg.ops.neural import feature_inside as features_module
from simplepcfg.ops.neural import rule_probabilities, rules, softmax
from simplepcfg.ops.neural.feature_inside import inside_of_features
from simplepcfg.ops.neural.naive import naive_rule_probabilities
from simplepcfg.ops.neural.softmax import LEAST
from simplepcfg.ops.products import row_parts


def case(
    batch: int, n: int, states: int, tags: int, width: int, dtype: torch.dtype = torch.float64, device: str = "cpu"
) -> list[Tensor]:
    """Log-emissions, root, and features of parents, left and right children."""
    generator = torch.Generator().manual_seed(states + tags)
    draw = lambda *shape: torch.randn(*shape, generator=generator, dtype=torch.float64)  # noqa: E731
    found = [
        draw(batch, n, tags).log_softmax(-1),
        draw(states).softmax(-1),
        *(draw(rows, width) for rows in (states, states + tags, states + tags)),
    ]
    return [tensor.to(device, dtype).requires_grad_() for tensor in found]


def plainly(log_emissions: Tensor, root: Tensor, *given: Tensor, **options: object) -> Tensor:
    """Autograd through the definitions."""
    return inside(log_emissions, root, *naive_rule_probabilities(*given), backend="naive", **options)


def in_one(*inputs: Tensor, lengths: Tensor | None = None, span_bonus: Tensor | None = None) -> Tensor:
    """The GPU's path wherever it runs: on a CPU kernels are interpreted and products widened."""
    return features_module._FeatureInside.apply(*inputs, span_bonus, lengths, "bf16", LEAST)


def in_two(*inputs: Tensor, lengths: Tensor | None = None, span_bonus: Tensor | None = None) -> Tensor:
    """The same arithmetic with the rules' gradient in between."""
    log_emissions, root, *given = inputs
    found = rules._RuleProbabilities.apply(*given, "bf16", LEAST, True)
    given_options = {"lengths": lengths, "span_bonus": span_bonus, "precision": "bf16", "backend": "triton"}
    return inside(log_emissions, root, *found, **given_options)


def distance(found: Tensor, expected: Tensor) -> float:
    return float((found.double() - expected.double()).norm() / expected.double().norm())


@pytest.mark.parametrize("lengths", [None, [5, 3]])
@pytest.mark.parametrize("bonus", [False, True])
def test_float64_against_the_definitions(lengths: list[int] | None, bonus: bool) -> None:
    inputs = case(2, 5, 4, 6, 3)
    options: dict[str, Tensor | None] = {"lengths": None if lengths is None else torch.tensor(lengths)}
    if bonus:
        options["span_bonus"] = torch.randn(2, 6, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    found, expected = (function(*inputs, **options) for function in (inside_of_features, plainly))
    torch.testing.assert_close(found, expected)
    weights = torch.tensor([1.0, -0.5], dtype=torch.float64)
    grads = [torch.autograd.grad((each * weights).sum(), inputs) for each in (found, expected)]
    for ours, theirs in zip(*grads, strict=True):
        torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize(
    ("states", "lengths", "bonus"), [(12, None, False), (12, None, True), (12, [4, 3], True), (20, [4, 3], False)]
)
def test_interpreted_kernels_against_two_operations(
    states: int, lengths: list[int] | None, bonus: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one part, or, of 20 parents, in two; a bonus gets its gradient, too."""
    inputs = case(2, 4, states, 10, 16, torch.float32)
    monkeypatch.setattr(rules, "row_parts", lambda rows, most, multiple: row_parts(rows, 16))
    options: dict[str, Tensor | None] = {"lengths": None if lengths is None else torch.tensor(lengths)}
    if bonus:
        draws = torch.randn(2, 5, 5, generator=torch.Generator().manual_seed(1))
        options["span_bonus"] = draws.requires_grad_()
    wanted = [*inputs, options["span_bonus"]] if bonus else inputs
    weights = torch.tensor([1.0, -0.5])
    grads, scores = [], []
    for function in (in_one, in_two, plainly):
        log_z = function(*inputs, **options)
        grads.append(torch.autograd.grad((log_z * weights).sum(), wanted))
        scores.append(log_z.detach())
    assert torch.equal(scores[0], scores[1])
    torch.testing.assert_close(scores[0], scores[2], rtol=5e-3, atol=0)
    for one, two, exact in zip(*grads, strict=True):
        assert one.dtype == two.dtype
        assert distance(one, two) < 0.01
        assert distance(one, exact) < 0.05


@pytest.mark.parametrize("function", [in_one, in_two])
def test_a_bonus_with_gaps_in_memory_gets_its_gradient(function: Callable[..., Tensor]) -> None:
    inputs = case(2, 3, 6, 4, 8, torch.float32)
    bonus = torch.randn(4, 4, 2, generator=torch.Generator().manual_seed(1)).permute(2, 0, 1).requires_grad_()
    assert not bonus.is_contiguous()
    (found,) = torch.autograd.grad(function(*inputs, span_bonus=bonus).sum(), [bonus])
    (expected,) = torch.autograd.grad(plainly(*inputs, span_bonus=bonus).sum(), [bonus])
    assert distance(found, expected) < 0.01


def test_only_what_is_asked_for() -> None:
    log_emissions, root, parents, left, right = case(1, 3, 6, 4, 8, torch.float32)
    some = in_one(log_emissions.detach(), root, parents.detach(), left.detach(), right.detach())
    (found,) = torch.autograd.grad(some.sum(), [root])
    (expected,) = torch.autograd.grad(in_two(log_emissions, root, parents, left, right).sum(), [root])
    assert distance(found, expected) < 1e-6
    other = in_one(log_emissions.detach(), root.detach(), parents, left.detach(), right.detach())
    (found,) = torch.autograd.grad(other.sum(), [parents])
    (expected,) = torch.autograd.grad(in_two(log_emissions, root, parents, left, right).sum(), [parents])
    assert distance(found, expected) < 0.01


def test_twice_differentiable() -> None:
    inputs = case(1, 3, 2, 3, 2)
    check_second_derivatives(inside_of_features, inputs)
    narrow = [tensor.detach().float().requires_grad_() for tensor in inputs]
    first = torch.autograd.grad(in_one(*narrow).sum(), narrow, create_graph=True)
    second = torch.autograd.grad(sum((each**2).sum() for each in first), narrow)
    exact_first = torch.autograd.grad(plainly(*inputs).sum(), inputs, create_graph=True)
    exact_second = torch.autograd.grad(sum((each**2).sum() for each in exact_first), inputs)
    for found, expected in zip(second, exact_second, strict=True):
        assert distance(found, expected) < 1e-3


def test_one_word_and_wrong_shapes() -> None:
    log_emissions, root, parents, left, right = case(2, 1, 3, 4, 5)
    found = inside_of_features(log_emissions, root, parents, left, right, precision="bf16")
    assert found.tolist() == [-torch.inf] * 2
    with pytest.raises(InputError, match=r"must be \[N, D\], \[S, D\] and \[S, D\]"):
        inside_of_features(log_emissions, root, parents, left, right[:-1])


@pytest.mark.gpu
@pytest.mark.parametrize("lengths", [None, [12] * 4 + [7] * 4])
def test_gpu_against_two_operations(lengths: list[int] | None) -> None:
    """The rules' gradient is rounded alike, held or not; products of other shapes sum in another order."""
    inputs = case(8, 12, 300, 700, 64, torch.float32, "cuda")
    options = {"lengths": None if lengths is None else torch.tensor(lengths), "precision": "bf16"}
    log_emissions, root, *given = inputs
    one = inside_of_features(*inputs, **options)
    two = inside(log_emissions, root, *rule_probabilities(*given, precision="bf16"), **options)
    assert torch.equal(one, two)
    for found, expected in zip(
        torch.autograd.grad(one.sum(), inputs), torch.autograd.grad(two.sum(), inputs), strict=True
    ):
        assert distance(found, expected) < 3e-3
    repeated = torch.autograd.grad(inside_of_features(*inputs, **options).sum(), inputs)
    first = torch.autograd.grad(inside_of_features(*inputs, **options).sum(), inputs)
    assert all(map(torch.equal, first, repeated))


@pytest.mark.gpu
def test_rules_once_and_little_of_their_gradient(monkeypatch: pytest.MonkeyPatch) -> None:
    """With buffers of a known size, which are larger by default."""
    monkeypatch.setattr(rules, "GRADIENT_BYTES", 32 << 20)
    monkeypatch.setattr(rules, "LEAST_GRADIENT_ROWS", 128)
    monkeypatch.setattr(softmax, "LOGIT_BYTES", 64 << 20)
    states, tags, width = 8192, 16384, 256
    inputs = case(2, 6, states, tags, width, torch.float32, "cuda")
    rule_bytes = 2 * states * (states + tags) * 2
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    torch.autograd.grad(inside_of_features(*inputs, precision="bf16").sum(), inputs)
    # Operands, gradients, and these in the type that is asked for.
    features = 12 * width * (states + 2 * (states + tags))
    small = features + 2 * (64 << 20) + (128 << 20)  # buffers of scores, libraries' workspaces and the chart
    assert small < rule_bytes
    assert torch.cuda.max_memory_allocated() - before <= rule_bytes + small
