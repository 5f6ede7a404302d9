"""The stress set on a GPU, whole and at full size: errors against float64 at most twice log_einsum_exp's.

Needs torch, triton and pytest alone.
"""

from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import Tensor

from simplepcfg.ops.inside import inside
from stress_grammars import CATALOGUE, Stress, draws
from stress_measures import PARTS, Allowance, answer, complaints, errors, leaves_of, options_of

pytestmark = pytest.mark.gpu

DEVICE = "cuda"
PRECISIONS = ["fp32", "tf32", "bf16"]


def on_gpu(stress: Stress) -> Stress:
    return Stress.of(*(tensor.detach().to(DEVICE) for tensor in stress.case.tensors()), stress.lengths)


def large(
    nonterminals: int, preterminals: int, lengths: tuple[int, ...], scale: float, seed: int, batched: bool = False
) -> Stress:
    """Random rules, drawn on the GPU: at N = 4096 there are a hundred million."""
    generator = torch.Generator(DEVICE).manual_seed(seed)
    batch, lead = len(lengths), (len(lengths),) if batched else ()

    def logits(*size: int) -> Tensor:
        return torch.randn(*size, generator=generator, device=DEVICE, dtype=torch.float32).double() * scale

    emissions = logits(batch, max(lengths), preterminals).log_softmax(-1)
    root = logits(*lead, nonterminals).softmax(-1)
    left, right = (logits(*lead, nonterminals, nonterminals + preterminals).softmax(-1) for _ in range(2))
    equal = len(set(lengths)) == 1
    return Stress.of(emissions, root, left, right, None if equal else lengths)


LARGE: dict[str, Callable[[int], Stress]] = {
    "N 512": partial(large, 512, 1024, (20,) * 4, 4.0),
    "N 512, peaked": partial(large, 512, 1024, (20,) * 4, 24.0),
    "N 512, mixed lengths": partial(large, 512, 1024, (40, 2, 33, 39, 1, 17), 8.0),
    "N 511, own rules": partial(large, 511, 1023, (16, 16, 16), 8.0, batched=True),
    "N 512, own rules, mixed lengths": partial(large, 512, 1024, (24, 2, 17), 8.0, batched=True),
    "N 4096": partial(large, 4096, 8192, (12, 12), 4.0),
    "N 4096, peaked, mixed lengths": partial(large, 4096, 8192, (14, 3, 9), 16.0),
    # Enough spans for kernels that want to fill the GPU.
    "N 4096, many spans": partial(large, 4096, 8192, (24,) * 8, 4.0),
    "N 1100, many spans, peaked, mixed lengths": partial(large, 1100, 999, (24, 23, 9, 24) * 5, 24.0),
}


@pytest.mark.parametrize("name", CATALOGUE)
def test_triton_backend(name: str) -> None:
    cases = [on_gpu(stress) for stress in draws(name)]
    said = {precision: complaints(cases, "triton", precision, Allowance.of(precision)) for precision in PRECISIONS}
    said["fp64"] = complaints(cases[:1], "triton", "fp64", Allowance.of("fp64"))
    assert said == {precision: [] for precision in said}


@pytest.mark.parametrize("name", LARGE)
def test_triton_backend_at_full_size(name: str) -> None:
    cases = [LARGE[name](seed) for seed in range(1 if "4096" in name else 2)]
    said = {precision: complaints(cases, "triton", precision, Allowance.of(precision)) for precision in PRECISIONS}
    assert said == {precision: [] for precision in said}


def test_torch_backend() -> None:
    for name in ("trained 300", "peaked 24", "mixed lengths", "own rules"):
        assert complaints([on_gpu(stress) for stress in draws(name)], "torch", "fp32", Allowance.of("fp32")) == []


@pytest.mark.parametrize("name", ["N 17", "mixed lengths", "own rules", "own rules, mixed lengths"])
def test_rules_given_in_bf16(name: str) -> None:
    """They are read as they are, and their gradients come back in their type: one rounding more, no other."""
    cases = []
    for stress in draws(name):
        emissions, root, left, right = on_gpu(stress).case.tensors()
        cases.append(Stress.of(emissions, root, left.detach().bfloat16(), right.detach().bfloat16(), stress.lengths))
    for stress in cases:
        lengths = stress.sentence_lengths()
        truth = answer(stress, "log_einsum_exp", "fp64", marginals=False)
        wide = errors(answer(stress, "triton", "bf16"), truth, lengths)
        narrow = errors(answer(stress, "triton", "bf16", rules=torch.bfloat16), truth, lengths)
        assert narrow.log_z == wide.log_z
        for part in PARTS:
            assert narrow.counts[part] <= wide.counts[part] + 2.0**-8


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("name", ["mixed lengths, peaked", "own rules, mixed lengths", "N 512"])
def test_repeated_passes_agree_bit_for_bit(name: str, precision: str) -> None:
    stress = LARGE[name](0) if name in LARGE else on_gpu(CATALOGUE[name](0))
    leaves, options = leaves_of(stress, precision), options_of(stress, "triton", precision)
    log_z = inside(*leaves, **options)
    first = torch.autograd.grad(log_z.sum(), leaves, retain_graph=True)
    second = torch.autograd.grad(log_z.sum(), leaves)
    # What the first run left behind is what the second is handed: uninitialised memory must not show.
    del log_z
    poison = [torch.full((1 << 20,), torch.nan, device=DEVICE) for _ in range(64)]
    del poison
    repeated = inside(*leaves, **options)
    third = torch.autograd.grad(repeated.sum(), leaves)
    for one, two, three in zip(first, second, third, strict=True):
        assert torch.equal(one, two)
        assert torch.equal(one, three)


@pytest.mark.parametrize("name", ["peaked 16", "impossible sentences", "mixed lengths"])
def test_create_graph(name: str) -> None:
    stress = on_gpu(CATALOGUE[name](1))
    leaves, options = leaves_of(stress, "fp32"), options_of(stress, "triton", "fp32")
    log_z = inside(*leaves, **options)
    plain = torch.autograd.grad(log_z.sum(), leaves, retain_graph=True)
    tracked = torch.autograd.grad(log_z.sum(), leaves, create_graph=True)
    for leaf, one, two in zip(leaves, plain, tracked, strict=True):
        weight = 1.0 if leaf is leaves[0] else leaf.detach()
        torch.testing.assert_close(one * weight, two.detach() * weight, rtol=1e-4, atol=1e-5)
    counts = sum((grad * leaf).sum() for grad, leaf in zip(tracked[1:], leaves[1:], strict=True))
    second = torch.autograd.grad(counts, leaves)
    assert all(grad.isfinite().all() for grad in second)
