"""The transposed rules that products on a CPU read: computed once, and again after a change."""

import gc

import pytest
import torch

from random_grammars import random_case
from simplepcfg.ops import transposed_rules as module
from simplepcfg.ops.inside import inside, span_marginals
from simplepcfg.ops.transposed_rules import rows_and_gaps, transposed_rules


def test_rules_are_transposed_once() -> None:
    left, right = torch.rand(3, 8), torch.rand(3, 8)
    held = transposed_rules(left, right)
    assert torch.equal(held, torch.cat([left, right]).T)
    assert held is transposed_rules(left, right)
    assert torch.equal(transposed_rules(left, left), torch.cat([left, left]).T)
    assert transposed_rules(left.double(), right.double()).dtype == torch.float64


def test_a_change_in_place_counts() -> None:
    tensors = [tensor.detach() for tensor in random_case(2, 5, 3, 4).tensors()]
    for side in tensors[2:]:
        inside(*tensors)
        side.mul_(0.5)
        torch.testing.assert_close(inside(*tensors), inside(*tensors, backend="naive"))


@pytest.mark.parametrize("size", [4, 200])
@pytest.mark.parametrize("way", ["data", "numpy", "inference mode"])
def test_changes_that_torch_does_not_count(size: int, way: str) -> None:
    with torch.inference_mode(way == "inference mode"):
        root, left, right = (torch.rand(*shape) for shape in ((size,), (size, 2 * size), (size, 2 * size)))
        emissions = torch.rand(2, 5, size).log()
        for side in (left, right):
            before = inside(emissions, root, left, right)
            if way == "data":
                side.data.mul_(0.5)
            elif way == "numpy":
                side.numpy()[:] *= 0.5
            else:
                side.mul_(0.5)
            changed = inside(emissions, root, left, right)
            torch.testing.assert_close(changed, inside(emissions, root, left.clone(), right.clone()))
            assert (changed < before - 1).all()


def test_gradcheck_changes_one_number_at_a_time() -> None:
    tensors = [tensor.detach().requires_grad_() for tensor in random_case(1, 3, 2, 3).tensors()]
    assert torch.autograd.gradcheck(inside, tensors)


def test_nothing_is_kept_without_its_rules() -> None:
    gc.collect()  # What earlier tests left behind is not counted.
    before = len(module.KEPT)
    left, right = torch.rand(3, 8), torch.rand(3, 8)
    transposed_rules(left, right)
    assert len(module.KEPT) == before + 1
    del left
    gc.collect()
    assert len(module.KEPT) == before


def test_rules_of_each_sentence() -> None:
    left, right = torch.rand(2, 3, 8), torch.rand(2, 3, 8)
    assert torch.equal(transposed_rules(left, right), torch.cat([left, right], 1).mT)


@pytest.mark.parametrize("gap", [0, 16])
def test_gaps_between_rows_change_nothing(monkeypatch: pytest.MonkeyPatch, gap: int) -> None:
    monkeypatch.setattr(module, "GAP", gap)
    tensors = [tensor.detach() for tensor in random_case(2, 5, 3, 4).tensors()]
    rules = transposed_rules(*tensors[2:])
    memory = rows_and_gaps(rules[:3])
    assert memory.is_contiguous()
    assert memory.shape == (3, 6 + gap)
    assert torch.equal(memory[:, :6], rules[:3])
    for compute in (inside, span_marginals):
        torch.testing.assert_close(compute(*tensors), compute(*tensors, backend="naive"))
