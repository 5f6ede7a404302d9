"""The forward algorithm on a GPU, in each precision, against the naive form in float64."""

from functools import partial

import pytest
import torch

from naive_forward import naive_forward
from simplepcfg.ops.forward import best_states, check_arguments, forward, forward_prefixes

pytestmark = pytest.mark.gpu
TOLERANCES = {"fp32": 1e-5, "tf32": 1e-3, "bf16": 1e-2}


@pytest.mark.parametrize("precision", TOLERANCES)
@pytest.mark.parametrize("kind", ["dense", "factored", "batched"])
def test_values_and_counts(kind: str, precision: str) -> None:
    """Expected counts, which are gradients by logs: their error as a share of their norm."""
    generator = torch.Generator().manual_seed(0)
    batch, n, states, rank = 5, 21, 130, 34
    lead = (batch,) if kind == "batched" else ()

    def rows(*shape: int) -> torch.Tensor:
        return (2 * torch.randn(*lead, *shape, generator=generator, dtype=torch.float64)).softmax(-1)

    factors = [rows(states, rank), rows(rank, states)] if kind == "factored" else [rows(states, states)]
    log_emissions = 2 * torch.randn(batch, n, states, generator=generator, dtype=torch.float64) - 2
    lengths = torch.tensor([21, 20, 9, 2, 1])
    start = rows(states)
    results = []
    fast = partial(forward, precision=precision)
    for form, device, dtype in ((naive_forward, "cpu", torch.float64), (fast, "cuda", torch.float32)):
        leaves = [t.to(device, dtype, copy=True).requires_grad_() for t in (log_emissions, start, *factors)]
        transitions = leaves[2] if len(factors) == 1 else (leaves[2], leaves[3])
        found = form(leaves[0], leaves[1], transitions, lengths=lengths)
        grads = torch.autograd.grad(found.sum(), leaves)
        counts = [grads[0], *(leaf.detach() * grad for leaf, grad in zip(leaves[1:], grads[1:], strict=True))]
        results.append((found.detach().cpu().double(), [count.cpu().double() for count in counts]))
    (exact, exact_counts), (found, counts) = results
    torch.testing.assert_close(found, exact, rtol=TOLERANCES[precision], atol=1e-4)
    for one, two in zip(counts, exact_counts, strict=True):
        assert float((one - two).norm()) <= 2 * TOLERANCES[precision] * float(two.norm())


@pytest.mark.parametrize("kind", ["dense", "factored"])
def test_best_sequences_and_prefixes_as_on_a_cpu(kind: str) -> None:
    generator = torch.Generator().manual_seed(0)

    def rows(*shape: int) -> torch.Tensor:
        return (2 * torch.randn(*shape, generator=generator, dtype=torch.float64)).softmax(-1)

    factors = [rows(30, 7), rows(7, 30)] if kind == "factored" else [rows(30, 30)]
    lengths = torch.tensor([9, 4, 1])
    log_emissions = torch.randn(3, 9, 30, generator=generator, dtype=torch.float64) - 3
    here = [log_emissions, rows(30), *factors]
    results = []
    for device in ("cpu", "cuda"):
        emissions, start, *parts = (tensor.to(device) for tensor in here)
        chain = (emissions, start, parts[0] if len(parts) == 1 else (parts[0], parts[1]))
        checked = check_arguments(*chain, lengths)
        found = (*best_states(checked), forward_prefixes(*chain, lengths=lengths).log_prefix)
        results.append([tensor.cpu() for tensor in found])
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other)
