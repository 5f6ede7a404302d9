"""On a GPU: questions that are replayed give the bits of plain launches, on all streams and threads.

Needs torch, triton and pytest alone.
"""

from collections.abc import Callable, Iterator
from functools import partial

import pytest
import torch
from torch import Tensor

from graph_checks import assert_equal, check_streams, check_threads
from random_grammars import rules_and_sentences
from simplepcfg.ops import graphs
from simplepcfg.ops.arguments import SimpleRules
from simplepcfg.ops.forward import forward
from simplepcfg.ops.graphs import DeviceGraphs, clear_graphs, graph_memory, graphs_of, without_graphs
from simplepcfg.ops.inside import span_marginals
from simplepcfg.ops.prefix import Closure, left_corner_closure, prefix_states
from simplepcfg.ops.sample import sample_trees
from simplepcfg.ops.viterbi import viterbi

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")]
GPU = torch.device("cuda", 0)
BATCH, N, STATES, TAGS = 5, 11, 130, 260
LENGTHS = [[11, 2, 5, 1, 9], [3, 3, 11, 10, 2], [2, 4, 4, 8, 1], [11, 11, 11, 11, 10]]
Question = Callable[..., tuple[Tensor, ...]]


@pytest.fixture(autouse=True)
def no_graphs_before() -> Iterator[None]:
    clear_graphs()
    CLOSURES.clear()
    yield
    clear_graphs()


def inputs(
    seed: int,
    n: int = N,
    states: int = STATES,
    tags: int = TAGS,
    batched: bool = False,
    dtype: torch.dtype = torch.float32,
) -> tuple[Tensor, ...]:
    generator = torch.Generator(GPU).manual_seed(seed)
    lead = (BATCH,) if batched else ()

    def drawn(*size: int) -> Tensor:
        return torch.randn(*size, generator=generator, device=GPU, dtype=dtype) * 2

    left, right = drawn(*lead, 2 * states, states + tags).softmax(-1).chunk(2, -2)
    return drawn(BATCH, n, tags).log_softmax(-1), drawn(*lead, states).softmax(-1), left, right


def marginals(tensors: tuple[Tensor, ...], **options: object) -> tuple[Tensor, ...]:
    return span_marginals(*tensors, **options)


def trees(tensors: tuple[Tensor, ...], **options: object) -> tuple[Tensor, ...]:
    found = viterbi(*rules_and_sentences(*tensors, **options))
    return found.spans, found.splits, found.labels, found.tags, found.log_probability


def hidden(tensors: tuple[Tensor, ...]) -> tuple[Tensor, Tensor, tuple[Tensor, Tensor]]:
    """Emissions, start and factors of the transitions of a hidden Markov model with the sizes of a grammar."""
    emissions, root, left, right = tensors
    states = root.shape[-1]
    factors = (left[..., :states], right[..., :states])
    return emissions[..., :states], root, factors


def forward_with_gradients(tensors: tuple[Tensor, ...], **options: object) -> tuple[Tensor, ...]:
    """Log-probabilities and the gradients by everything, which are contiguous leaves."""
    emissions, start, factors = hidden(tensors)
    leaves = [tensor.detach().clone().requires_grad_() for tensor in (emissions, start, *factors)]
    with torch.enable_grad():
        log_p = forward(leaves[0], leaves[1], (leaves[2], leaves[3]), **options)
        weights = torch.linspace(-1.0, 2.0, len(log_p), device=GPU, dtype=log_p.dtype)
        return log_p.detach(), *torch.autograd.grad((log_p * weights).sum(), leaves)


def forward_alone(tensors: tuple[Tensor, ...], **options: object) -> tuple[Tensor, ...]:
    emissions, start, factors = hidden(tensors)
    return (forward(emissions, start, factors[0] / factors[0].sum(-1, keepdim=True), **options),)


CLOSURES: dict[tuple[int, int], tuple[Tensor, Closure]] = {}  # by address and version of a grammar's rules


def prefixes(tensors: tuple[Tensor, ...], **options: object) -> tuple[Tensor, ...]:
    left = tensors[2]
    key = (left.data_ptr(), left._version)
    if key not in CLOSURES:
        CLOSURES[key] = (left, left_corner_closure(SimpleRules(*tensors[1:])))
    states = prefix_states(*rules_and_sentences(*tensors, **options), closure=CLOSURES[key][1])
    return states.log_prefix, states.log_sentence, states.next_tags(slice(0, 2))


def samples(tensors: tuple[Tensor, ...], **options: object) -> tuple[Tensor, ...]:
    found = sample_trees(*rules_and_sentences(*tensors, **options), 20, torch.Generator(GPU).manual_seed(1))
    return found.spans, found.splits, found.labels, found.tags, found.log_probability


QUESTIONS: dict[str, Question] = {
    "span marginals": marginals,
    "viterbi": trees,
    "prefixes": prefixes,
    "samples": samples,
    "hmm forward": forward_alone,
    "hmm gradients": forward_with_gradients,
}
# A function has a graph that reads its rules in place, another that copies them, or both: which, depends on whether the
# memory of earlier tests lets tensors of equal shapes stand at equal addresses.
MOST_GRAPHS = dict.fromkeys(QUESTIONS, 2) | {"hmm gradients": 4}  # its two passes are two functions
WITH_BONUS = ("span marginals", "viterbi", "samples")
# A caller cannot capture the others: they draw random numbers or copy from the host.
CAPTURABLE = ("span marginals", "viterbi", "prefixes", "hmm forward", "hmm gradients")
ALL = pytest.mark.parametrize("name", QUESTIONS)


def plain(question: Question, tensors: tuple[Tensor, ...], **options: object) -> tuple[Tensor, ...]:
    with without_graphs():
        return question(tensors, **options)


def current() -> DeviceGraphs:
    found = graphs_of(GPU)
    assert found is not None
    return found


@ALL
@pytest.mark.parametrize("options", [{}, {"batched": True}, {"dtype": torch.float64}, {"states": 1100, "tags": 1200}])
def test_replays_equal_plain_launches(name: str, options: dict[str, object]) -> None:
    """One grammar and changing sentences; results of earlier calls stay as they are."""
    question, kept = QUESTIONS[name], []
    _, *rules = inputs(0, **options)
    for seed in range(5):
        tensors = (inputs(seed, **options)[0], *rules)
        kept.append((question(tensors), plain(question, tensors)))
    for found, expected in kept:
        assert_equal(found, expected)
    assert 1 <= current().count <= MOST_GRAPHS[name]
    assert current().has_replayed


@ALL
def test_other_rules_in_every_call(name: str) -> None:
    question, several = QUESTIONS[name], [inputs(seed) for seed in range(5)]
    for tensors in several:
        assert_equal(question(tensors), plain(question, tensors))
    assert 1 <= current().count <= MOST_GRAPHS[name]
    assert current().has_replayed
    for tensors in several:  # and with rules in other places than when the graph was captured
        assert_equal(question(tensors), plain(question, tensors))


@ALL
def test_rules_that_change_in_place(name: str) -> None:
    question, tensors = QUESTIONS[name], inputs(0)
    for seed in range(5):
        for mine, other in zip(tensors, inputs(seed), strict=True):
            mine.copy_(other)
        assert_equal(question(tensors), plain(question, tensors))
    assert current().has_replayed


@ALL
def test_rules_that_are_not_neighbours(name: str) -> None:
    question = QUESTIONS[name]
    for seed in range(4):
        emissions, root, left, right = inputs(seed)
        tensors = (emissions, root, right.clone(), left.clone())
        assert_equal(question(tensors), plain(question, tensors))


@pytest.mark.parametrize("name", WITH_BONUS)
def test_a_span_bonus(name: str) -> None:
    question = QUESTIONS[name]
    for seed in range(4):
        generator = torch.Generator(GPU).manual_seed(seed)
        bonus = torch.randn(BATCH, N + 1, N + 1, generator=generator, device=GPU)
        bonus[1, 2, 5] = -torch.inf
        assert_equal(question(inputs(seed), span_bonus=bonus), plain(question, inputs(seed), span_bonus=bonus))
    assert current().has_replayed


@ALL
@pytest.mark.parametrize("batched", [False, True])
def test_one_graph_for_all_lengths(name: str, batched: bool) -> None:
    """The chart of a graph has other rows than that of a plain launch, so that sums may differ by rounding."""
    question = QUESTIONS[name]
    for seed, lengths in enumerate(LENGTHS):
        tensors, given = inputs(seed, batched=batched, dtype=torch.float64), torch.tensor(lengths)
        found, expected = question(tensors, lengths=given), plain(question, tensors, lengths=given)
        for ours, theirs in zip(found, expected, strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-11)
    assert 1 <= current().count <= MOST_GRAPHS[name]
    assert current().has_replayed


@ALL
def test_mixed_lengths_give_the_same_bits_in_all_calls(name: str) -> None:
    question, tensors, lengths = QUESTIONS[name], inputs(0), torch.tensor(LENGTHS[0])
    first = question(tensors, lengths=lengths)
    for _ in range(3):
        assert_equal(question(tensors, lengths=lengths), first)
    assert current().has_replayed


@ALL
def test_streams(name: str) -> None:
    question, several = QUESTIONS[name], [inputs(seed) for seed in range(6)]
    expected = [plain(question, tensors) for tensors in several]
    check_streams([partial(question, tensors) for tensors in several], expected)
    assert current().has_replayed


@ALL
def test_threads(name: str) -> None:
    question, several = QUESTIONS[name], [inputs(seed) for seed in range(2)]
    expected = [plain(question, tensors) for tensors in several]
    torch.cuda.synchronize()
    check_threads([partial(question, tensors) for tensors in several], expected, times=10)


@pytest.mark.parametrize("name", CAPTURABLE)
def test_within_a_capture_of_the_caller(name: str) -> None:
    question, tensors = QUESTIONS[name], inputs(0)
    expected = plain(question, tensors)
    stream = torch.cuda.Stream(GPU)
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream), without_graphs():
        for _ in range(3):
            question(tensors)
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        static = question(tensors)
    graph.replay()
    assert_equal(static, expected)
    assert current().count == 0
    for _ in range(3):
        assert_equal(question(tensors), expected)
    graph.replay()
    assert_equal(static, expected)


@ALL
def test_clearing_and_switching_off(name: str) -> None:
    question, tensors = QUESTIONS[name], inputs(0)
    expected = plain(question, tensors)
    for _ in range(2):
        for _ in range(3):
            assert_equal(question(tensors), expected)
        assert graph_memory() > 0
        clear_graphs()
        assert graph_memory() == 0
    assert current().count == 0


@ALL
def test_memory_is_bounded(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is reserved is about what is counted, and nothing is captured beyond the bound."""
    question, tensors = QUESTIONS[name], inputs(0, n=20, states=1024, tags=2048)
    workspaces = 600e6  # of libraries, for each thread and stream, and the allocator's rounding
    plain(question, tensors)
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    before = torch.cuda.memory_reserved()
    for _ in range(3):
        question(tensors)
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    assert current().has_replayed
    assert torch.cuda.memory_reserved() - before < 1.5 * graph_memory() + workspaces
    clear_graphs()
    torch.cuda.empty_cache()
    assert torch.cuda.memory_reserved() - before < workspaces
    monkeypatch.setattr(graphs, "MEMORY_FRACTION", 1e-9)
    for _ in range(3):
        assert_equal(question(tensors), plain(question, tensors))
    assert current().count == 0


@ALL
def test_many_shapes(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graphs, "SHAPES", 3)
    question = QUESTIONS[name]
    for _ in range(3):
        for n in (3, 4, 5, 6, 7):
            for seed in range(2):
                tensors = inputs(seed, n, 20, 30)
                assert_equal(question(tensors), plain(question, tensors))
    assert current().count <= 3


@pytest.mark.parametrize("question", [trees, samples])
def test_gradients_of_log_probabilities(question: Question) -> None:
    for seed in range(4):
        tensors = tuple(tensor.detach().requires_grad_() for tensor in inputs(seed))
        found = torch.autograd.grad(question(tensors)[-1].sum(), tensors)
        for ours, theirs in zip(found, torch.autograd.grad(plain(question, tensors)[-1].sum(), tensors), strict=True):
            torch.testing.assert_close(ours, theirs)
    assert current().has_replayed
