"""Graphed charts with a capturer that repeats what it captured, so that everything but CUDA itself runs on a CPU."""

import gc
import threading
import weakref
from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from graph_checks import assert_equal, check_threads, remembered_without_graphs
from graph_stand_in import CPU, Failing, Harness
from random_grammars import random_case, rules_and_sentences
from simplepcfg.ops.arguments import check_arguments
from simplepcfg.ops.cuda_graphs import calls
from simplepcfg.ops.cuda_graphs.calls import DeviceGraphs
from simplepcfg.ops.inside import graphed_chart, inside, padded_chart, span_marginals
from simplepcfg.ops.inside.graphed_chart import graph_bytes
from simplepcfg.ops.inside.packed_chart import PackedChart

WEIGHTS = torch.tensor([1.0, -0.5], dtype=torch.float64)


@pytest.fixture
def harness(monkeypatch: pytest.MonkeyPatch) -> Harness:
    return Harness(monkeypatch)


def inputs(seed: int, n: int = 2, batched: bool = False) -> tuple[Tensor, ...]:
    return random_case(2, n, 3, 4, batched=batched, scale=2.0, seed=seed).tensors()


def log_z(tensors: tuple[Tensor, ...], **options: object) -> Tensor:
    return inside(*tensors[:4], backend="triton", span_bonus=tensors[4] if len(tensors) > 4 else None, **options)


def answer(tensors: tuple[Tensor, ...], **options: object) -> tuple[Tensor, ...]:
    found = log_z(tensors, **options)
    return found.detach(), *torch.autograd.grad((found * WEIGHTS).sum(), tensors)


def plain(tensors: tuple[Tensor, ...], **options: object) -> tuple[Tensor, ...]:
    return remembered_without_graphs(answer, tensors, **options)


@pytest.mark.parametrize(
    ("batched", "bonus", "small"),
    [(False, False, True), (False, False, False), (True, False, False), (False, True, True)],
)
def test_replays_equal_plain_calls(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, batched: bool, bonus: bool, small: bool
) -> None:
    monkeypatch.setattr(graphed_chart, "SMALL_RULES", 1e9 if small else 0)
    kept = []
    for seed in range(3):
        tensors = inputs(seed, n=3, batched=batched)
        if bonus:
            generator = torch.Generator().manual_seed(seed)
            tensors += (torch.randn(2, 4, 4, dtype=torch.float64, generator=generator).requires_grad_(),)
        kept.append((answer(tensors), plain(tensors)))
        assert harness.capturer.replays == 2 * max(0, seed)
    for found, expected in kept:  # and nothing that was returned is overwritten later
        assert_equal(found, expected)
    assert harness.graphs.count == 1


def marginals(tensors: tuple[Tensor, ...], **options: object) -> tuple[Tensor, ...]:
    return span_marginals(*(tensor.detach() for tensor in tensors), backend="triton", **options)


@pytest.mark.parametrize("lengths", [None, [3, 2], [1, 3]])
def test_span_marginals_share_the_graph_of_inside(harness: Harness, lengths: list[int] | None) -> None:
    options = {} if lengths is None else {"lengths": torch.tensor(lengths)}
    for seed in range(3):
        tensors = inputs(seed, n=3)
        log_p, spans = marginals(tensors, **options)
        assert torch.equal(log_p, log_z(tensors, **options))
        for ours, theirs in zip((log_p, spans), remembered_without_graphs(marginals, tensors, **options), strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)
    assert harness.graphs.has_replayed
    assert harness.graphs.count == 1


def test_dtypes_have_graphs_of_their_own(harness: Harness) -> None:
    for dtype in (torch.float32, torch.float64):
        for seed in range(2):
            tensors = tuple(tensor.detach().to(dtype).requires_grad_() for tensor in inputs(seed))
            found = answer(tensors, precision="bf16")
            assert_equal(found, plain(tensors, precision="bf16"))
            assert {tensor.dtype for tensor in found[1:]} == {dtype}
    assert harness.graphs.count == 2


def test_long_calls_are_launched_plainly(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the kernels run for longer than they take to launch, a graph would only take memory."""
    monkeypatch.setattr(padded_chart, "MOST_FLOPS", 12 * 3 * (3 * 2 + 4 * 4) - 1)  # 2 sentences of 2 words
    for seed in range(3):
        answer(inputs(seed))
    assert harness.graphs.count == 0
    monkeypatch.setattr(padded_chart, "MOST_FLOPS", 12 * 3 * (3 * 2 + 4 * 4))
    for seed in range(2):
        answer(inputs(seed))
    assert harness.graphs.count == 1


def test_calls_whose_backward_is_still_to_come(harness: Harness) -> None:
    """Each has a chart of its own; when all are taken, a call is plain."""
    answer(inputs(0))
    several = [inputs(seed) for seed in range(4)]
    waiting = [log_z(tensors) for tensors in several]
    assert harness.graphs.count == 2
    assert harness.capturer.replays == 2
    for tensors, found in reversed(list(zip(several, waiting, strict=True))):
        grads = torch.autograd.grad((found * WEIGHTS).sum(), tensors)
        assert_equal((found.detach(), *grads), plain(tensors))
    before = harness.capturer.replays
    del waiting, found
    assert_equal(answer(several[0]), plain(several[0]))
    assert harness.capturer.replays == before + 2
    assert harness.graphs.count == 2


def test_two_backward_passes_and_second_derivatives(harness: Harness) -> None:
    answer(inputs(0))
    tensors = inputs(1)
    found = log_z(tensors)
    first = torch.autograd.grad(found.sum(), tensors, retain_graph=True)
    log_z(inputs(2)).sum().backward()
    assert_equal(torch.autograd.grad(found.sum(), tensors, retain_graph=True), first)
    for ours, theirs in zip(torch.autograd.grad(found.sum(), tensors, create_graph=True), first, strict=True):
        torch.testing.assert_close(ours, theirs)


def test_calls_without_gradients_keep_no_chart(harness: Harness) -> None:
    for _ in range(3):
        with torch.no_grad():
            found = [log_z(inputs(seed)) for seed in range(3)]
    with torch.inference_mode():
        found.append(log_z(inputs(3)))
    for seed, ours in enumerate(found):
        assert torch.equal(ours, plain(inputs(seed))[0])
    assert harness.graphs.count == 1
    assert_equal(answer(inputs(4)), plain(inputs(4)))


def test_captured_in_inference_mode(harness: Harness) -> None:
    with torch.inference_mode():
        for seed in range(2):
            log_z(inputs(seed))
    assert harness.graphs.count == 1
    assert_equal(answer(inputs(2)), plain(inputs(2)))


def test_some_gradients_only(harness: Harness) -> None:
    answer(inputs(0))
    for wanted in ([0], [1], [2], [3], [1, 3]):
        given = tuple(tensor.detach().requires_grad_(k in wanted) for k, tensor in enumerate(inputs(1)))
        leaves = tuple(given[k] for k in wanted)
        found = torch.autograd.grad((log_z(given) * WEIGHTS).sum(), leaves)
        expected = plain(inputs(1))
        assert_equal(found, tuple(expected[1 + k] for k in wanted))


def test_one_graph_for_all_lengths(harness: Harness) -> None:
    for seed, lengths in enumerate([[3, 2], [1, 3], [2, 1]]):
        tensors = inputs(seed, n=3)
        found = answer(tensors, lengths=torch.tensor(lengths))
        for ours, theirs in zip(found, plain(tensors, lengths=torch.tensor(lengths)), strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)
    assert harness.graphs.count == 1
    assert harness.capturer.replays == 4
    assert_equal(answer(inputs(0, n=3)), plain(inputs(0, n=3)))  # equal lengths are another shape


def test_mixed_lengths_give_the_same_bits_in_all_calls(harness: Harness) -> None:
    tensors, lengths = inputs(0, n=3), torch.tensor([3, 2])
    first = answer(tensors, lengths=lengths)  # plain, the next one is captured
    for _ in range(2):
        assert_equal(answer(tensors, lengths=lengths), first)
    waiting = [log_z(tensors, lengths=lengths) for _ in range(3)]  # the last one is plain again
    assert harness.graphs.count == 2
    assert all(torch.equal(found.detach(), first[0]) for found in waiting)


def test_padding_that_costs_too_much(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(padded_chart, "MOST_WASTED_FLOPS", 10)
    for _ in range(3):
        answer(inputs(0), lengths=torch.tensor([2, 1]))
    assert harness.graphs.count == 0


def test_least_recently_used_shapes_are_evicted(monkeypatch: pytest.MonkeyPatch) -> None:
    harness = Harness(monkeypatch, shapes=2)

    def captures(n: int, calls: int) -> int:
        with torch.no_grad():
            for _ in range(calls):
                log_z(inputs(0, n))
        return harness.capturer.captures

    assert [captures(n, 2) for n in (2, 3, 2, 4, 2)] == [1, 2, 2, 3, 3]
    assert captures(3, 7) == 3  # evicted once, so it must occur more often to be captured again
    assert captures(3, 1) == 4
    assert harness.graphs.count == 2


def test_charts_in_use_are_not_evicted(monkeypatch: pytest.MonkeyPatch) -> None:
    harness = Harness(monkeypatch, shapes=1)
    answer(inputs(0, 2))
    tensors = inputs(1, 2)
    waiting = log_z(tensors)
    with torch.no_grad():
        for _ in range(3):
            log_z(inputs(0, 3))
    assert harness.capturer.captures == 1
    grads = torch.autograd.grad((waiting * WEIGHTS).sum(), tensors)
    assert_equal(grads, plain(tensors)[1:])
    with torch.no_grad():
        for _ in range(8):  # refused once, so it must occur more often
            log_z(inputs(0, 3))
    assert harness.capturer.captures == 3
    assert harness.graphs.count == 1


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    one = graph_bytes(check_arguments(*rules_and_sentences(*inputs(0, 3))))
    harness = Harness(monkeypatch, memory=1.5 * one)
    waiting = [log_z(inputs(seed, 3)) for seed in range(4)]
    assert harness.graphs.count == 1
    assert harness.graphs.bytes == one
    del waiting
    with torch.no_grad():
        for _ in range(2):
            log_z(inputs(0, 2))
    assert harness.graphs.count == 2 or harness.graphs.bytes < one
    assert harness.graphs.bytes <= 1.5 * one
    harness = Harness(monkeypatch, memory=one / 2)
    with torch.no_grad():
        for _ in range(3):
            log_z(inputs(0, 3))
    assert harness.graphs.count == 0


def test_closing_keeps_charts_in_use(harness: Harness) -> None:
    answer(inputs(0))
    tensors = inputs(1)
    found = log_z(tensors)
    harness.graphs.close()
    assert harness.graphs.count == harness.graphs.bytes == 0
    assert_equal(torch.autograd.grad((found * WEIGHTS).sum(), tensors), plain(tensors)[1:])
    for _ in range(3):
        answer(tensors)
    assert harness.graphs.count == 0


def test_a_graph_that_cannot_be_captured(monkeypatch: pytest.MonkeyPatch) -> None:
    failing = DeviceGraphs(CPU, Failing(), 4, 1e9)
    monkeypatch.setitem(calls._by_device, CPU, failing)
    answer(inputs(0))
    with pytest.warns(RuntimeWarning, match=r"launched kernel by kernel.*not permitted when stream is capturing$"):
        found = answer(inputs(1))
    for _ in range(2):  # says so once
        assert_equal(answer(inputs(1)), found)


def test_a_backward_pass_that_cannot_be_captured(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    answer(inputs(0))
    tensors = inputs(1)
    found = log_z(tensors)
    monkeypatch.setattr(harness.graphs, "_capturer", Failing())
    with pytest.warns(RuntimeWarning, match="launched kernel by kernel"):
        grads = torch.autograd.grad((found * WEIGHTS).sum(), tensors)
    assert_equal(grads, plain(tensors)[1:])


def test_checkpointing_frees_the_chart(harness: Harness) -> None:
    answer(inputs(0))
    several = [inputs(seed) for seed in range(3)]
    waiting = [checkpoint(lambda *given: log_z(given), *tensors, use_reentrant=False) for tensors in several]
    assert harness.graphs.count == 1
    for tensors, found in zip(several, waiting, strict=True):
        grads = torch.autograd.grad((found * WEIGHTS).sum(), tensors)
        assert_equal(grads, plain(tensors)[1:])


def test_threads(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    lock = threading.RLock()  # Triton's interpreter serves one thread at a time

    def locked(method: Callable[..., object]) -> Callable[..., object]:
        def call(*given: object) -> object:
            with lock:
                return method(*given)

        return call

    for name in ("fill", "adjoints", "emission_gradients", "rule_gradients"):
        monkeypatch.setattr(PackedChart, name, locked(getattr(PackedChart, name)))
    expected = [plain(inputs(seed)) for seed in range(3)]
    check_threads([lambda seed=seed: answer(inputs(seed)) for seed in range(3)], expected, times=3)
    assert 1 <= harness.graphs.count <= 2


def test_charts_are_freed_with_the_graphs(harness: Harness) -> None:
    for _ in range(2):
        answer(inputs(0))
    (charts,) = harness.graphs._entries.values()
    chart = weakref.ref(charts[0])
    del charts
    harness.graphs.close()
    harness.capturer.returned.clear()
    gc.collect()
    assert chart() is None


@pytest.mark.parametrize(("value", "shapes"), [(None, 64), ("0", 0), ("3", 3), ("yes", 64)])
def test_environment_variable(monkeypatch: pytest.MonkeyPatch, value: str | None, shapes: int) -> None:
    monkeypatch.delenv("SIMPLEPCFG_CUDA_GRAPHS", raising=False)
    if value is not None:
        monkeypatch.setenv("SIMPLEPCFG_CUDA_GRAPHS", value)
    assert calls._shapes() == shapes


def test_no_graphs_on_a_cpu() -> None:
    assert calls.graphs_of(CPU) is None
    assert calls.graph_memory() == 0
    calls.clear_graphs()
