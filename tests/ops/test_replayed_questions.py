"""Questions that are replayed, with a capturer that stands in for CUDA: the bits are those of calls without graphs."""

import threading
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from graph_checks import assert_equal, check_threads, remembered_without_graphs
from graph_stand_in import Harness
from random_grammars import random_case, rules_and_sentences, with_zeros
from simplepcfg.ops import replay
from simplepcfg.ops.arguments import SimpleRules
from simplepcfg.ops.forward import autograd as replayed_hmm
from simplepcfg.ops.forward import forward
from simplepcfg.ops.forward.arguments import ForwardArguments, check_arguments
from simplepcfg.ops.graphs import without_graphs
from simplepcfg.ops.inside import span_marginals
from simplepcfg.ops.prefix import Closure, left_corner_closure, prefix_states
from simplepcfg.ops.sample import sample_trees
from simplepcfg.ops.viterbi import replayed as replayed_viterbi
from simplepcfg.ops.viterbi import viterbi

Question = Callable[..., tuple[Tensor, ...]]


@pytest.fixture
def harness(monkeypatch: pytest.MonkeyPatch) -> Harness:
    CLOSURES.clear()
    return Harness(monkeypatch)


def inputs(seed: int, n: int = 3, batched: bool = False) -> tuple[Tensor, ...]:
    case = random_case(2, n, 3, 4, batched=batched, scale=2.0, seed=seed)
    return tuple(tensor.detach() for tensor in case.tensors())


def bonus(seed: int, n: int = 3) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(2, n + 1, n + 1, dtype=torch.float64, generator=generator)


def marginals(tensors: tuple[Tensor, ...], **options: object) -> tuple[Tensor, ...]:
    return span_marginals(*tensors, backend="triton", **options)


def trees(tensors: tuple[Tensor, ...], **options: object) -> tuple[Tensor, ...]:
    found = viterbi(*rules_and_sentences(*tensors, **options), backend="triton")
    return found.spans, found.splits, found.labels, found.tags, found.log_probability


CLOSURES: dict[int, tuple[Tensor, Closure]] = {}  # by the address of a grammar's rules, which stay alive


def prefixes(tensors: tuple[Tensor, ...], **options: object) -> tuple[Tensor, ...]:
    left = tensors[2]
    if left.data_ptr() not in CLOSURES:
        CLOSURES[left.data_ptr()] = (left, left_corner_closure(SimpleRules(*tensors[1:])))
    states = prefix_states(
        *rules_and_sentences(*tensors, **options), closure=CLOSURES[left.data_ptr()][1], backend="triton"
    )
    return states.log_prefix, states.log_sentence, states.next_tags(slice(0, 2))


def samples(tensors: tuple[Tensor, ...], **options: object) -> tuple[Tensor, ...]:
    generator = torch.Generator().manual_seed(1)
    found = sample_trees(*rules_and_sentences(*tensors, **options), 2, generator, backend="triton")
    state = generator.get_state().double()  # as many numbers are drawn
    return found.spans, found.splits, found.labels, found.tags, found.log_probability, state


QUESTIONS = {"span marginals": marginals, "viterbi": trees, "prefixes": prefixes, "samples": samples}
WITH_BONUS = ("span marginals", "viterbi", "samples")


def plain(question: Question, tensors: tuple[Tensor, ...], **options: object) -> tuple[Tensor, ...]:
    if any(tensor.requires_grad for tensor in tensors):
        with without_graphs():
            return question(tensors, **options)
    return remembered_without_graphs(question, tensors, **options)


@pytest.mark.parametrize("batched", [False, True])
@pytest.mark.parametrize("name", QUESTIONS)
def test_replays_equal_plain_calls(harness: Harness, name: str, batched: bool) -> None:
    """The same grammar is asked about changing sentences, and what was returned stays."""
    question, kept = QUESTIONS[name], []
    _, *rules = inputs(0, batched=batched)
    for seed in range(4):
        tensors = (inputs(seed, batched=batched)[0], *rules)
        kept.append((question(tensors), plain(question, tensors)))
    for found, expected in kept:
        assert_equal(found, expected)
    assert harness.graphs.count == 1
    assert harness.capturer.replays >= 3
    assert harness.graphs.has_replayed


@pytest.mark.parametrize("name", QUESTIONS)
def test_other_rules_in_every_call(harness: Harness, name: str) -> None:
    question = QUESTIONS[name]
    kept = [inputs(seed) for seed in range(4)]  # all alive, so that their addresses differ
    for tensors in kept:
        assert_equal(question(tensors), plain(question, tensors))
    assert harness.graphs.count == 1
    assert harness.capturer.replays >= 3


@pytest.mark.parametrize("name", WITH_BONUS)
def test_a_span_bonus(harness: Harness, name: str) -> None:
    question = QUESTIONS[name]
    for seed in range(3):
        tensors, weights = inputs(seed), bonus(seed)
        weights[0, 0, 2] = -torch.inf
        assert_equal(question(tensors, span_bonus=weights), plain(question, tensors, span_bonus=weights))
    assert harness.graphs.has_replayed


@pytest.mark.parametrize("name", QUESTIONS)
def test_one_graph_for_all_lengths(harness: Harness, name: str) -> None:
    question = QUESTIONS[name]
    kept = [inputs(seed) for seed in range(4)]  # all alive, so that their addresses differ
    for tensors, lengths in zip(kept, [[3, 2], [1, 3], [2, 1], [2, 2]], strict=True):
        tensors[0][0, lengths[0] :] = torch.nan  # beyond the end anything may stand
        found = question(tensors, lengths=torch.tensor(lengths))
        for ours, theirs in zip(found, plain(question, tensors, lengths=torch.tensor(lengths)), strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)
    assert harness.graphs.count == 1
    assert harness.graphs.has_replayed


@pytest.mark.parametrize("name", WITH_BONUS)  # rules of prefix probabilities must sum to 1
def test_sentences_without_a_tree(harness: Harness, name: str) -> None:
    question = QUESTIONS[name]
    for seed in range(3):
        case = with_zeros(random_case(2, 3, 3, 4, seed=seed), seed)
        tensors = tuple(tensor.detach() for tensor in case.tensors())
        tensors[0][1, 1] = -torch.inf
        assert_equal(question(tensors), plain(question, tensors))
    assert harness.graphs.has_replayed


@pytest.mark.parametrize("name", QUESTIONS)
def test_inference_mode(harness: Harness, name: str) -> None:
    question = QUESTIONS[name]
    kept = [inputs(seed) for seed in range(4)]  # all alive, so that their addresses differ
    with torch.inference_mode():
        for tensors in kept[:3]:
            assert_equal(question(tensors), plain(question, tensors))
    assert_equal(question(kept[3]), plain(question, kept[3]))
    assert harness.graphs.count == 1


def test_span_marginals_and_inside_share_a_graph(harness: Harness) -> None:
    from simplepcfg.ops.inside import inside

    kept = [inputs(seed) for seed in range(3)]  # all alive, so that their addresses differ
    for tensors in kept:
        log_z, _ = marginals(tensors)
        assert torch.equal(log_z, inside(*tensors, backend="triton"))
    assert harness.graphs.count == 1


@pytest.mark.parametrize("question", [trees, samples])
def test_gradients_of_log_probabilities(harness: Harness, question: Question) -> None:
    for seed in range(3):
        tensors = tuple(tensor.requires_grad_() for tensor in inputs(seed))
        found = torch.autograd.grad(question(tensors)[4].sum(), tensors)
        assert_equal(found, torch.autograd.grad(plain(question, tensors)[4].sum(), tensors))
    assert harness.graphs.has_replayed


def test_large_grammars_are_launched_plainly(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replayed_viterbi, "MOST_ADDITIONS", 1)
    for seed in range(3):
        assert_equal(trees(inputs(seed)), plain(trees, inputs(seed)))
    monkeypatch.undo()
    assert harness.graphs.count == 0


def test_padding_that_costs_too_much(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replayed_viterbi, "MOST_WASTED_ADDITIONS", 1)
    for seed in range(3):
        trees(inputs(seed), lengths=torch.tensor([3, 1]))
    assert harness.graphs.count == 0


def test_rules_are_read_where_they_are(harness: Harness) -> None:
    """A second grammar is copied, so that one more graph serves all others; both stay right."""
    first, second, third = inputs(0), inputs(1), inputs(2)
    for tensors in (first, first, second, third, first, second):
        assert_equal(trees(tensors), plain(trees, tensors))
    assert harness.graphs.count == 2
    copying = max(entry.bytes for entries in harness.graphs._entries.values() for entry in entries)
    reading = min(entry.bytes for entries in harness.graphs._entries.values() for entry in entries)
    assert copying - reading == 2 * first[2].nbytes
    first[2].copy_(second[2])  # the caller changes its rules
    assert_equal(trees(first), plain(trees, first))


def test_rules_of_the_caller_are_not_kept(harness: Harness) -> None:
    import gc
    import weakref

    tensors = inputs(0)
    for _ in range(3):
        trees(tensors)
    left = weakref.ref(tensors[2])
    del tensors
    gc.collect()
    assert left() is None


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    harness = Harness(monkeypatch, memory=3500)
    for n in (2, 3, 4):
        for seed in range(3):
            assert_equal(trees(inputs(seed, n)), plain(trees, inputs(seed, n)))
    assert 0 < harness.graphs.bytes <= 3500
    assert harness.graphs.count < 3


def test_switches(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    with without_graphs():
        for _ in range(3):
            trees(inputs(0))
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    assert replay.usable_graphs(torch.device("cpu")) is None
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: False)
    assert replay.usable_graphs(torch.device("cpu")) is harness.graphs
    assert harness.graphs.count == 0
    tensors = inputs(0)  # held, since the addresses of rules are part of what tells graphs apart
    for _ in range(3):
        trees(tensors)
    assert harness.graphs.count == 1
    harness.graphs.close()
    assert replay.usable_graphs(torch.device("cpu")) is None
    assert_equal(trees(inputs(0)), plain(trees, inputs(0)))
    assert harness.graphs.count == 0


def test_autocast_replays_the_same_graph(harness: Harness) -> None:
    tensors = inputs(0)
    for _ in range(2):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            found = trees(tensors)
        assert_equal(found, trees(tensors))
    assert harness.graphs.count == 1


def test_threads(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    lock = threading.RLock()  # Triton's interpreter serves one thread at a time
    compute = replayed_viterbi._best_trees

    def locked(*given: object) -> object:
        with lock:
            return compute(*given)

    monkeypatch.setattr(replayed_viterbi, "_best_trees", locked)
    expected = [plain(trees, inputs(seed)) for seed in range(3)]
    check_threads([lambda seed=seed: trees(inputs(seed)) for seed in range(3)], expected, times=3)


def chain(seed: int, kind: str = "dense") -> tuple[Tensor, ...]:
    """Log-emissions, start and one or two factors of the transitions, leaves that can be differentiated by."""
    generator = torch.Generator().manual_seed(seed)
    lead = (2,) if "batched" in kind else ()

    def drawn(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    shapes = [(5, 3), (3, 5)] if "factored" in kind else [(5, 5)]
    tensors = (drawn(2, 4, 5) - 2, *(drawn(*lead, *shape).softmax(-1) for shape in [(5,), *shapes]))
    return tuple(tensor.requires_grad_() for tensor in tensors)


def log_p(tensors: tuple[Tensor, ...], **options: object) -> Tensor:
    emissions, start, *factors = tensors
    return forward(emissions, start, factors[0] if len(factors) == 1 else tuple(factors), **options)


def log_p_and_gradients(tensors: tuple[Tensor, ...], **options: object) -> tuple[Tensor, ...]:
    found = log_p(tensors, **options)
    return found.detach(), *torch.autograd.grad((found * torch.tensor([1.0, -0.5])).sum(), tensors)


@pytest.mark.parametrize("kind", ["dense", "factored", "batched dense", "batched factored"])
def test_hidden_markov_models(harness: Harness, kind: str) -> None:
    kept = [(chain(seed, kind), None if seed % 2 else torch.tensor([2, 1 + seed // 2])) for seed in range(6)]
    answers = [log_p_and_gradients(tensors, lengths=lengths) for tensors, lengths in kept]
    for found, (tensors, lengths) in zip(answers, kept, strict=True):
        assert_equal(found, plain(log_p_and_gradients, tensors, lengths=lengths))
    assert (harness.graphs.count, harness.capturer.replays) == (4, 8)


def test_backward_passes_of_hidden_markov_models(harness: Harness) -> None:
    """Several may wait, run twice, or be differentiated: what was saved is not part of a graph."""
    several = [chain(seed) for seed in range(4)]
    waiting = [log_p(tensors) for tensors in several]
    for tensors, found in reversed(list(zip(several, waiting, strict=True))):
        first = torch.autograd.grad(found.sum(), tensors, retain_graph=True)
        assert_equal(torch.autograd.grad(found.sum(), tensors, retain_graph=True), first)
        with without_graphs():
            assert_equal(torch.autograd.grad(log_p(tensors).sum(), tensors), first)
        for ours, theirs in zip(torch.autograd.grad(found.sum(), tensors, create_graph=True), first, strict=True):
            torch.testing.assert_close(ours, theirs)
    assert harness.capturer.replays > 8


def test_graphs_are_off_in_the_thread_of_autograd_too(harness: Harness) -> None:
    """On a GPU backward passes run in another thread, for which graphs have not been switched off."""
    with without_graphs():
        for seed in range(3):
            tensors = chain(seed)
            found = log_p(tensors).sum()
            thread = threading.Thread(target=torch.autograd.grad, args=(found, tensors))
            thread.start()
            thread.join()
    assert harness.capturer.captures == 0
    assert not harness.graphs._seen


def test_layouts_of_rules(harness: Harness) -> None:
    """Copies of rules have the strides of the rules: rows of a wider tensor, transposed or expanded ones."""
    kept = [torch.rand(8, 9, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) for seed in range(4)]
    for seed, wide in enumerate(kept):  # all alive, so that their addresses differ
        emissions, start = (tensor.detach() for tensor in chain(seed)[:2])
        for factors in ((wide[:5, :3], wide[:3, :5]), (wide.T[:5, :3], wide.T[:3, :5]), (wide[:5, :1].expand(5, 5),)):
            assert_equal((log_p((emissions, start, *factors)),), (plain(log_p, (emissions, start, *factors)),))
    assert harness.graphs.count == 3
    layouts = {tensor.stride() for entries in harness.graphs._entries.values() for tensor in entries[0]._buffers[2]}
    assert layouts == {(9, 1), (1, 9), (5, 1)}


def test_large_transitions_are_launched_plainly(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, most in (("MOST_FLOPS", 2 * 2 * 25), ("MOST_BYTES", 8 * 25)):
        with monkeypatch.context() as patch:
            patch.setattr(replayed_hmm, name, most - 1)
            for seed in range(3):
                log_p_and_gradients(chain(seed))
            assert harness.graphs.count == 0
            patch.setattr(replayed_hmm, name, most)
            assert replayed_hmm.launch_bound_graphs(*hmm_arguments()) is harness.graphs


def test_addresses_that_recur_now_and_then_give_two_graphs_a_pass(harness: Harness) -> None:
    """One reads the transitions in place, one copies them; which are captured depends on where tensors stand."""
    first, second = chain(0), chain(1)
    for tensors in (first, first, first, second, second):
        assert_equal(log_p_and_gradients(tensors), plain(log_p_and_gradients, tensors))
    assert harness.graphs.count == 4


def hmm_arguments() -> tuple[ForwardArguments, tuple[Tensor, ...]]:
    emissions, start, *factors = chain(0)
    return check_arguments(emissions, start, factors[0], None, None), tuple(factors)
