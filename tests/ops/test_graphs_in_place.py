"""Graphed charts that read large rules where they are, with a capturer that stands in for CUDA."""

import gc

import pytest
import torch
from torch import Tensor

from graph_checks import assert_equal, remembered_without_graphs
from graph_stand_in import Harness
from random_grammars import random_case, rules_and_sentences
from simplepcfg.ops.arguments import check_arguments
from simplepcfg.ops.cuda_graphs.calls import without_graphs
from simplepcfg.ops.inside import graphed_chart, inside, span_marginals
from simplepcfg.ops.inside.graphed_chart import graph_bytes, place_of_rules

WEIGHTS = torch.tensor([1.0, -0.5], dtype=torch.float64)


@pytest.fixture
def harness(monkeypatch: pytest.MonkeyPatch) -> Harness:
    monkeypatch.setattr(graphed_chart, "LARGE_RULES", 0)
    return Harness(monkeypatch)


def rules(seed: int, batched: bool = False) -> Tensor:
    """Left and right in one tensor."""
    case = random_case(2, 3, 3, 4, batched=batched, scale=2.0, seed=seed)
    return torch.cat([case.left.detach(), case.right.detach()], -2)


def words(seed: int) -> tuple[Tensor, Tensor]:
    case = random_case(2, 3, 3, 4, scale=2.0, seed=seed)
    return case.log_emissions, case.root


def halves(both: Tensor) -> list[Tensor]:
    return [half.detach().requires_grad_() for half in both.chunk(2, -2)]


def answer(seed: int, both: Tensor, **options: object) -> tuple[Tensor, ...]:
    tensors = (*words(seed), *halves(both))
    log_z = inside(*tensors, backend="triton", **options)
    return log_z.detach(), *torch.autograd.grad((log_z * WEIGHTS).sum(), tensors)


def plain(seed: int, both: Tensor, **options: object) -> tuple[Tensor, ...]:
    return remembered_without_graphs(answer, seed, both, **options)


@pytest.mark.parametrize(("batched", "small"), [(False, True), (False, False), (True, False)])
def test_rules_that_stay_where_they_are(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, batched: bool, small: bool
) -> None:
    monkeypatch.setattr(graphed_chart, "SMALL_RULES", 1e9 if small else 0)
    both = rules(0, batched)
    for seed in range(4):
        assert_equal(answer(seed, both), plain(seed, both))
        both.copy_(rules(seed + 1, batched))  # the caller changes them between calls
    assert harness.graphs.count == 1
    given = check_arguments(*rules_and_sentences(*words(0), *both.chunk(2, -2)))
    assert harness.graphs.bytes == graph_bytes(given, in_place=True) == graph_bytes(given) - both.nbytes
    assert harness.capturer.replays == 6


def test_rules_that_move(harness: Harness) -> None:
    """One chart that copies serves all of them, beside the chart of rules that stayed."""
    several = [rules(seed) for seed in range(4)]
    for both in (several[0], several[0], *several, *several):
        assert_equal(answer(1, both), plain(1, both))
    assert harness.graphs.count == 2
    before = harness.capturer.captures
    for both in several:
        assert_equal(answer(2, both), plain(2, both))
    assert harness.capturer.captures == before


def test_rules_that_are_never_there_again(harness: Harness) -> None:
    several = [rules(seed) for seed in range(4)]
    for both in several:
        assert_equal(answer(1, both), plain(1, both))
    assert harness.graphs.count == 1
    assert harness.graphs.has_replayed


def test_overlapping_calls(harness: Harness) -> None:
    both = rules(0)
    for _ in range(2):
        answer(0, both)
    tensors = [(*words(seed), *halves(both)) for seed in range(4)]
    waiting = [inside(*each, backend="triton") for each in tensors]
    assert harness.graphs.count == 2
    for seed, (each, log_z) in reversed(list(enumerate(zip(tensors, waiting, strict=True)))):
        grads = torch.autograd.grad((log_z * WEIGHTS).sum(), each)
        assert_equal((log_z.detach(), *grads), plain(seed, both))


def test_rules_of_the_caller_are_not_kept(harness: Harness) -> None:
    gc.collect()
    gc.freeze()  # what earlier tests have left, among it tensors without storage, is not looked at below
    both = rules(0)
    for seed in range(3):
        answer(seed, both)
    with torch.no_grad():
        inside(*words(0), *both.chunk(2, -2), backend="triton")
    harness.capturer.returned.clear()
    (entries,) = harness.graphs._entries.values()
    assert entries[0].rules.device.type == "meta"
    mine = both.untyped_storage().data_ptr()
    others = [each for each in gc.get_objects() if isinstance(each, Tensor) and each.device.type == "cpu"]
    assert [each is both for each in others if each.untyped_storage().data_ptr() == mine] == [True]


def test_mixed_lengths_and_marginals(harness: Harness) -> None:
    both = rules(0)
    for seed, lengths in enumerate(([3, 2], [1, 3], [2, 2], [3, 1])):
        given = torch.tensor(lengths)
        for ours, theirs in zip(answer(seed, both, lengths=given), plain(seed, both, lengths=given), strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)
        tensors = (*words(seed), *both.chunk(2, -2))
        found = span_marginals(*tensors, backend="triton")
        with without_graphs():
            assert_equal(found, span_marginals(*tensors, backend="triton"))
    assert harness.graphs.count == 2
    assert harness.graphs.has_replayed


def test_where_rules_can_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    both = rules(0)
    left, right = both.chunk(2, -2)
    given = [*words(0), left, right]
    assert place_of_rules(check_arguments(*rules_and_sentences(*given))) is None  # they are small
    monkeypatch.setattr(graphed_chart, "LARGE_RULES", 0)
    assert place_of_rules(check_arguments(*rules_and_sentences(*given))) == (left.data_ptr(), right.data_ptr())
    given[2:4] = right, left
    assert place_of_rules(check_arguments(*rules_and_sentences(*given))) is None
    given[2:4] = left.clone(), right.clone()
    assert place_of_rules(check_arguments(*rules_and_sentences(*given))) is None
    given = [*(tensor.detach().float() for tensor in words(0)), *both.float().chunk(2, -2)]
    assert place_of_rules(check_arguments(*rules_and_sentences(*given, precision="bf16"))) is None  # they are converted
