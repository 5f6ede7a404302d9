"""The stress set on the CPU: errors against float64 at most twice those of log_einsum_exp at the same precision.

Triton's kernels run interpreted here, thousands of times slower than on a GPU: on one short sentence of each kind of
case. test_stress_gpu.py runs the whole set, and large grammars.
"""

import math

import pytest
import torch

from simplepcfg.ops.inside import inside
from stress_grammars import CATALOGUE, Stress, draws
from stress_measures import Allowance, answer, complaints, errors, leaves_of, options_of

interpreted = pytest.mark.skipif(torch.cuda.is_available(), reason="not interpreted beside a GPU: test_stress_gpu.py")

# Four or five words: what an interpreter can do in a second.
SHORT = {
    "trained 300, sharpened": 5,
    "peaked 30": 5,
    "dead state far ahead": 4,
    "unreachable symbols, peaked": 4,
    "zero rules, peaked": 4,
    "impossible sentences": 4,
    "root far apart": 4,
    "children far apart": 5,
    "hollow row": 4,
    "shadowed state": 3,
    "own rules": 4,
    "N 1": 5,
    "N 65": 4,
}


def short(name: str) -> list[Stress]:
    """Two draws, and more where so few numbers are rounded that two would be a matter of luck."""
    count = 6 if name in ("hollow row", "shadowed state", "N 1") else 2
    return [CATALOGUE[name](draw).shortened(SHORT[name]) for draw in range(count)]


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if name == "length 200" else []) for name in CATALOGUE]
)
def test_torch_backend(name: str) -> None:
    cases = draws(name)
    assert complaints(cases, "torch", "fp32", Allowance.of("fp32")) == []
    assert complaints(cases[:1], "torch", "fp64", Allowance.of("fp64")) == []


@interpreted
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("name", SHORT)
def test_triton_backend(name: str, precision: str) -> None:
    assert complaints(short(name), "triton", precision, Allowance.truncating(precision), marginals=False) == []


@interpreted
def test_triton_backend_where_children_peak_far_apart() -> None:
    """Their parent was summed in logs: a factor of backward leaves the range of float32 where the product does not."""
    cases = [CATALOGUE["mixed lengths, peaked"](1).shortened(14)]
    assert complaints(cases, "triton", "fp32", Allowance.of("fp32"), marginals=False) == []


@interpreted
@pytest.mark.parametrize("name", ["hollow row", "shadowed state"])
def test_triton_backend_with_several_blocks_of_states(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """As it is with thousands of states; where two widths are summed at once, from the first on."""
    from simplepcfg.ops.inside import packed_chart

    for constant, value in {
        "STATES_AT_ONCE": 1,
        "PAIRED_STATES": 1,
        "PAIRED_STATES_BACK": 1,
        "LEAST_TILES": 1,
        "PAIRED_FROM": 2,
    }.items():
        monkeypatch.setattr(packed_chart, constant, value)
    assert complaints(short(name)[:3], "triton", "fp32", Allowance.of("fp32"), marginals=False) == []


@interpreted
@pytest.mark.parametrize("name", ["peaked 24", "mixed lengths", "shadowed state"])
def test_triton_backend_in_float64(name: str) -> None:
    cases = [CATALOGUE[name](0).shortened(4)]
    assert complaints(cases, "triton", "fp64", Allowance.of("fp64")) == []


@interpreted
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("batched", [False, True])
def test_triton_backend_on_mixed_lengths(batched: bool, precision: str) -> None:
    stress = CATALOGUE["own rules" if batched else "mixed lengths"](0)
    emissions, root, left, right = stress.case.tensors()
    rules = (left[:3], right[:3]) if batched else (left, right)
    cases = [Stress.of(emissions[:3, :4], root[:3] if batched else root, *rules, (2, 4, 1))]
    assert complaints(cases, "triton", precision, Allowance.truncating(precision)) == []


@pytest.mark.parametrize("name", [name for name in CATALOGUE if name != "length 200"])
def test_the_truth_itself(name: str) -> None:
    """log_einsum_exp in float64, whose range could be left, against log_sum_exp, whose range could not."""
    stress = CATALOGUE[name](0)
    truth, other = (answer(stress, backend, "fp64", marginals=False) for backend in ("log_einsum_exp", "log_sum_exp"))
    assert all(value < 1e-12 for _, value in errors(truth, other, stress.sentence_lengths()).items())


@pytest.mark.parametrize(
    ("backend", "precision"),
    [
        ("torch", "fp32"),
        pytest.param("triton", "fp32", marks=interpreted),
        pytest.param("triton", "bf16", marks=interpreted),
    ],
)
def test_repeated_passes_agree_bit_for_bit_with_poisoned_memory(backend: str, precision: str) -> None:
    stress = CATALOGUE["mixed lengths, peaked"](0)
    stress = Stress.of(stress.case.log_emissions[:3, :4], *stress.case.tensors()[1:], (4, 2, 3))
    leaves, options = leaves_of(stress, precision), options_of(stress, backend, precision)
    log_z = inside(*leaves, **options)
    first = torch.autograd.grad(log_z.sum(), leaves, retain_graph=True)
    second = torch.autograd.grad(log_z.sum(), leaves)
    torch.use_deterministic_algorithms(True, warn_only=True)  # fills fresh memory with NaN
    try:
        repeated = inside(*leaves, **options)
        third = torch.autograd.grad(repeated.sum(), leaves)
    finally:
        torch.use_deterministic_algorithms(False)
    assert torch.equal(log_z, repeated)
    for one, two, three in zip(first, second, third, strict=True):
        assert torch.equal(one, two)
        assert torch.equal(one, three)


@pytest.mark.parametrize("backend", ["torch", pytest.param("triton", marks=interpreted)])
@pytest.mark.parametrize("name", ["peaked 16", "impossible sentences"])
def test_create_graph(backend: str, name: str) -> None:
    stress = CATALOGUE[name](1).shortened(4)
    leaves, options = leaves_of(stress, "fp32"), options_of(stress, backend, "fp32")
    log_z = inside(*leaves, **options)
    plain = torch.autograd.grad(log_z.sum(), leaves, retain_graph=True)
    tracked = torch.autograd.grad(log_z.sum(), leaves, create_graph=True)
    for leaf, one, two in zip(leaves, plain, tracked, strict=True):
        weight = 1.0 if leaf is leaves[0] else leaf.detach()
        torch.testing.assert_close(one * weight, two.detach() * weight, rtol=1e-4, atol=1e-6)
    counts = sum((grad * leaf).sum() for grad, leaf in zip(tracked[1:], leaves[1:], strict=True))
    second = torch.autograd.grad(counts, leaves)
    assert all(grad.isfinite().all() for grad in second)
    # Expected counts of rules sum to 2n - 1 under any grammar, so no emission can change them.
    assert float(second[0].abs().amax()) < 1e-4


def test_yardstick_in_bf16_keeps_its_logs() -> None:
    """Only operands and results of products are rounded: one rounding a product, whatever the size of the logs."""
    found = []
    for shift in (0.0, -1000.0):
        stress = CATALOGUE["peaked 8"](0)
        moved = Stress.of(stress.case.log_emissions.detach() + shift, *stress.case.tensors()[1:])
        truth = answer(moved, "log_einsum_exp", "fp64", marginals=False)
        found.append(errors(answer(moved, "log_einsum_exp", "bf16", marginals=False), truth, moved.sentence_lengths()))
    assert all(value < math.ldexp(1, -6) for each in found for _, value in each.items())
    assert found[1].log_z == pytest.approx(found[0].log_z, rel=0.1)
