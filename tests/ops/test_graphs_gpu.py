"""On a GPU: replayed calls of `inside` give the bits of plain ones, on all streams and threads, and within a capture.

Needs torch, triton and pytest alone.
"""

from collections.abc import Iterator
from functools import partial

import pytest
import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from graph_checks import assert_equal, check_streams, check_threads
from simplepcfg.ops.cuda_graphs import calls
from simplepcfg.ops.cuda_graphs.calls import DeviceGraphs, graphs_of
from simplepcfg.ops.inside import clear_graphs, graph_memory, inside, span_marginals, without_graphs

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")]
GPU = torch.device("cuda", 0)
BATCH, STATES, TAGS = 5, 130, 260


@pytest.fixture(autouse=True)
def no_graphs_before() -> Iterator[None]:
    clear_graphs()
    yield
    clear_graphs()


def inputs(
    seed: int,
    n: int = 11,
    states: int = STATES,
    tags: int = TAGS,
    batched: bool = False,
    dtype: torch.dtype = torch.float32,
    rules: torch.dtype | None = None,
    device: torch.device = GPU,
) -> tuple[Tensor, ...]:
    generator = torch.Generator(device).manual_seed(seed)
    lead = (BATCH,) if batched else ()

    def drawn(*size: int) -> Tensor:
        return torch.randn(*size, generator=generator, device=device, dtype=dtype) * 2

    left, right = (drawn(*lead, states, states + tags).softmax(-1).to(rules or dtype) for _ in range(2))
    found = (drawn(BATCH, n, tags).log_softmax(-1), drawn(*lead, states).softmax(-1), left, right)
    return tuple(tensor.detach().requires_grad_() for tensor in found)


def loss(log_z: Tensor) -> Tensor:
    return (log_z * torch.linspace(-1.0, 2.0, len(log_z), device=log_z.device, dtype=log_z.dtype)).sum()


def answer(tensors: tuple[Tensor, ...], **options: object) -> tuple[Tensor, ...]:
    log_z = inside(*tensors[:4], span_bonus=tensors[4] if len(tensors) > 4 else None, **options)
    return log_z.detach(), *torch.autograd.grad(loss(log_z), tensors)


def plain(tensors: tuple[Tensor, ...], **options: object) -> tuple[Tensor, ...]:
    with without_graphs():
        return answer(tensors, **options)


def current() -> DeviceGraphs:
    found = graphs_of(GPU)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("precision", "options"),
    [
        ("bf16", {"rules": torch.bfloat16}),
        ("bf16", {}),
        ("bf16", {"states": 1100, "tags": 70, "n": 14, "rules": torch.bfloat16}),
        ("tf32", {}),
        ("fp32", {"batched": True}),
        ("bf16", {"batched": True, "rules": torch.bfloat16}),
        ("fp32", {"dtype": torch.float64}),
    ],
)
def test_replays_equal_plain_calls(precision: str, options: dict[str, object]) -> None:
    kept = []
    for seed in range(5):
        tensors = inputs(seed, **options)
        kept.append((answer(tensors, precision=precision), plain(tensors, precision=precision)))
    for found, expected in kept:
        assert_equal(found, expected)
    assert current().count == 1
    assert current().has_replayed


def test_pair_kernels() -> None:
    """Enough states and spans that two widths are summed at once."""
    options = {"n": 40, "states": 2048, "tags": 64, "rules": torch.bfloat16}
    for seed in range(3):
        tensors = inputs(seed, **options)
        assert_equal(answer(tensors, precision="bf16"), plain(tensors, precision="bf16"))
    assert current().has_replayed


def test_span_bonus() -> None:
    for seed in range(4):
        generator = torch.Generator(GPU).manual_seed(seed)
        bonus = torch.randn(BATCH, 12, 12, generator=generator, device=GPU).requires_grad_()
        tensors = (*inputs(seed), bonus)
        assert_equal(answer(tensors), plain(tensors))
    assert current().has_replayed


def marginals(tensors: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    return span_marginals(*(tensor.detach() for tensor in tensors))


def test_span_marginals() -> None:
    for seed in range(4):
        with without_graphs():
            expected = marginals(inputs(seed))
        assert_equal(marginals(inputs(seed)), expected)
    assert current().has_replayed


@pytest.mark.parametrize("batched", [False, True])
@pytest.mark.parametrize("on_gpu", [False, True])
def test_one_graph_for_all_lengths(batched: bool, on_gpu: bool) -> None:
    for seed, lengths in enumerate([[11, 2, 5, 1, 9], [3, 3, 11, 10, 2], [2, 4, 4, 8, 1], [11, 11, 11, 11, 10]]):
        tensors = inputs(seed, batched=batched, dtype=torch.float64)
        given = torch.tensor(lengths, device=GPU if on_gpu else "cpu")
        found, expected = answer(tensors, lengths=given), plain(tensors, lengths=given)
        for ours, theirs in zip(found, expected, strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-11)
    assert current().count == 1
    assert current().has_replayed


def test_mixed_lengths_give_the_same_bits_in_all_calls() -> None:
    tensors, lengths = inputs(0, rules=torch.bfloat16), torch.tensor([3, 11, 2, 7, 1])
    first = answer(tensors, lengths=lengths, precision="bf16")
    for _ in range(3):
        assert_equal(answer(tensors, lengths=lengths, precision="bf16"), first)
    assert current().has_replayed


def test_calls_whose_backward_is_still_to_come() -> None:
    """Charts of overlapping calls are separate, and a call is plain when all are taken."""
    for _ in range(3):
        answer(inputs(0))
    several = [inputs(seed) for seed in range(5)]
    waiting = [inside(*tensors) for tensors in several]
    assert current().count == calls.ENTRIES_PER_SHAPE
    for tensors, log_z in reversed(list(zip(several, waiting, strict=True))):
        assert_equal((log_z.detach(), *torch.autograd.grad(loss(log_z), tensors)), plain(tensors))


def test_results_of_earlier_steps_stay() -> None:
    """What autograd stores in .grad is not a buffer that the next replay overwrites."""
    model = inputs(0)
    expected = [torch.zeros_like(tensor) for tensor in model]
    for _ in range(4):
        loss(inside(*model)).backward()
        for total, gradient in zip(expected, plain(model)[1:], strict=True):
            total += gradient
    assert_equal(tuple(tensor.grad for tensor in model), tuple(expected))


def test_second_derivatives_and_a_second_backward_pass() -> None:
    for _ in range(3):
        answer(inputs(0))
    tensors = inputs(1)
    log_z = inside(*tensors)
    first = torch.autograd.grad(loss(log_z), tensors, retain_graph=True)
    answer(inputs(2))
    assert_equal(torch.autograd.grad(loss(log_z), tensors, retain_graph=True), first)
    again = torch.autograd.grad(loss(log_z), tensors, create_graph=True)
    for ours, theirs in zip(again, first, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-4)
    again[2].square().sum().backward()
    assert all(torch.isfinite(tensor.grad).all() for tensor in tensors)


def test_streams() -> None:
    several = [inputs(seed) for seed in range(6)]
    check_streams([partial(answer, tensors) for tensors in several], [plain(tensors) for tensors in several])
    assert current().has_replayed


def test_threads() -> None:
    several = [inputs(seed) for seed in range(4)]
    expected = [plain(tensors) for tensors in several]
    torch.cuda.synchronize()
    check_threads([partial(answer, tensors) for tensors in several], expected, times=10)


def test_within_a_capture_of_the_caller() -> None:
    tensors = inputs(0)
    expected = plain(tensors)
    stream = torch.cuda.Stream(GPU)
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            answer(tensors)
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        static = answer(tensors)
    for _ in range(2):
        for tensor in static:
            tensor.fill_(torch.nan)
        graph.replay()
        assert_equal(static, expected)
        assert_equal(answer(tensors), expected)  # and the graphs of this package still work
    assert current().has_replayed


def test_without_gradients_and_in_inference_mode() -> None:
    expected = [plain(inputs(seed))[0] for seed in range(4)]
    for context in (torch.no_grad, torch.inference_mode):
        clear_graphs()
        with context():
            found = [inside(*inputs(seed)) for seed in range(4)]
        assert_equal(tuple(found), tuple(expected))
        assert current().count == 1
        assert_equal(answer(inputs(5)), plain(inputs(5)))


def test_autocast_and_checkpointing() -> None:
    def run(*given: Tensor) -> Tensor:
        return inside(*given, precision="bf16")

    for seed in range(4):
        tensors = inputs(seed)
        expected = plain(tensors, precision="bf16")
        with torch.autocast("cuda", dtype=torch.bfloat16):
            assert_equal(answer(tensors, precision="bf16"), expected)
            log_z = checkpoint(run, *tensors, use_reentrant=False)
            assert_equal((log_z.detach(), *torch.autograd.grad(loss(log_z), tensors)), expected)
    assert 1 <= current().count <= calls.ENTRIES_PER_SHAPE


@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
def test_compiled_model(mode: str) -> None:
    """A model around `inside` compiles to one graph, and trains as it does uncompiled."""

    def model(emissions: Tensor, root: Tensor, rules: Tensor, lengths: Tensor) -> Tensor:
        left, right = rules.softmax(-1).chunk(2)
        return inside(emissions.log_softmax(-1), root.softmax(-1), left, right, lengths=lengths, precision="bf16")

    compiled = torch.compile(model, fullgraph=True, mode=mode)
    for seed in range(4):
        emissions, root, left, right = inputs(seed)
        tensors = (emissions, root, torch.cat([left, right]).detach().requires_grad_())
        lengths = torch.tensor([11, 2 + seed, 5, 7, 9])
        log_z, expected = compiled(*tensors, lengths), model(*tensors, lengths)
        torch.testing.assert_close(log_z, expected, rtol=1e-3, atol=1e-2)
        found = torch.autograd.grad(loss(log_z), tensors)
        for ours, theirs in zip(found, torch.autograd.grad(loss(expected), tensors), strict=True):
            assert float((ours - theirs).norm() / theirs.norm()) < 0.03


def test_opcheck() -> None:
    from simplepcfg.ops.inside import operators

    tensors = inputs(0, n=5, states=17, tags=33, dtype=torch.float64)
    lengths = torch.tensor([5, 2, 4, 1, 3])
    torch.library.opcheck(operators.inside_forward, (*tensors, None, lengths, None, "auto", True))


def test_memory_and_clearing() -> None:
    """The memory that is counted is about what is allocated, and clearing returns it."""
    tensors = inputs(0, n=20, states=4096, tags=8192)
    workspaces = 600e6  # of libraries, for each thread and stream, and the allocator's rounding
    plain(tensors)
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    before = torch.cuda.memory_reserved()
    for _ in range(3):
        answer(tensors)
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    held = torch.cuda.memory_reserved() - before
    counted = graph_memory()
    assert counted > 400e6
    assert held < 1.5 * counted + workspaces
    clear_graphs()
    assert graph_memory() == 0
    torch.cuda.empty_cache()
    assert torch.cuda.memory_reserved() - before < workspaces


@pytest.mark.parametrize("moves", [False, True])
def test_large_rules(moves: bool) -> None:
    """Rules that are the halves of one tensor are read where they are, and copied if they are elsewhere each time."""
    emissions, root, left, right = inputs(0, states=1500, tags=1600, rules=torch.bfloat16)
    several = [torch.cat([left, right]).detach().roll(k, 0) for k in range(4)]
    for k in range(5):
        both = several[k % 4 if moves else 0]
        tensors = (emissions, root, *(half.detach().requires_grad_() for half in both.chunk(2)))
        assert_equal(answer(tensors, precision="bf16"), plain(tensors, precision="bf16"))
        if not moves:
            both.copy_(several[k % 3 + 1])
    assert current().count == 1
    assert current().has_replayed


def test_allocated_memory() -> None:
    """A replayed call has little more memory allocated than a launched one, graphs and their buffers included.

    What the allocator reserves beyond that depends on which of its segments earlier calls have left half full.
    """
    emissions, root, left, right = inputs(0, n=40, states=4096, tags=8192, rules=torch.bfloat16)
    both = torch.cat([left, right]).detach()
    tensors = (emissions, root, *(half.detach().requires_grad_() for half in both.chunk(2)))
    del left, right
    allocated = {}
    for name, call in (("launched", plain), ("replayed", answer)):
        call(tensors, precision="bf16")  # compiles kernels
        clear_graphs()
        torch.cuda.synchronize()
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        for _ in range(4):
            call(tensors, precision="bf16")
        torch.cuda.synchronize()
        allocated[name] = torch.cuda.max_memory_allocated() - before
    assert current().has_replayed
    assert allocated["replayed"] <= 1.1 * allocated["launched"] + 150e6, allocated


def test_too_little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "MEMORY_FRACTION", 1e-9)
    for _ in range(3):
        assert_equal(answer(inputs(0)), plain(inputs(0)))
    assert current().count == 0


def test_many_shapes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "SHAPES", 3)
    for _ in range(3):
        for n in (3, 4, 5, 6, 7):
            for seed in range(2):
                tensors = inputs(seed, n, 20, 30)
                assert_equal(answer(tensors), plain(tensors))
    assert current().count <= 3


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")
def test_another_gpu_than_the_current_one() -> None:
    other = torch.device("cuda", 1)
    expected = [tuple(tensor.cpu() for tensor in plain(inputs(seed, device=other))) for seed in range(4)]
    assert torch.cuda.current_device() == 0
    for seed in range(4):
        found = tuple(tensor.cpu() for tensor in answer(inputs(seed, device=other)))
        assert_equal(found, expected[seed])
