"""The forward algorithm against every sequence of states, its right-linear grammar, and itself."""

import itertools
import math

import pytest
import torch
from torch import Tensor

from finite_differences import check_derivatives, check_second_derivatives
from naive_forward import naive_forward
from simplepcfg.errors import InputError
from simplepcfg.ops.forward import best_states, check_arguments, forward, forward_prefixes, state_marginals
from simplepcfg.ops.inside import inside

CASES = [(1, 1, 1, 1), (3, 4, 3, 2), (2, 5, 2, 1), (4, 3, 4, 3)]  # B, n, S, r


def chain(
    batch: int, n: int, states: int, rank: int, *, kind: str = "dense", scale: float = 1.0, seed: int = 0
) -> tuple[Tensor, Tensor, tuple[Tensor, ...]]:
    """Random log-emissions, start and transitions, of each sentence's own where `kind` says batched."""
    generator = torch.Generator().manual_seed(seed + 100 * n + states)
    lead = (batch,) if "batched" in kind else ()

    def rows(*shape: int) -> Tensor:
        return (scale * torch.randn(*lead, *shape, generator=generator, dtype=torch.float64)).softmax(-1)

    log_emissions = scale * torch.randn(batch, n, states, generator=generator, dtype=torch.float64) - 2
    factors = (rows(states, rank), rows(rank, states)) if "factored" in kind else (rows(states, states),)
    return log_emissions, rows(states), factors


def given(factors: tuple[Tensor, ...]) -> Tensor | tuple[Tensor, Tensor]:
    return factors[0] if len(factors) == 1 else (factors[0], factors[1])


def of(tensor: Tensor, b: int, dims: int) -> Tensor:
    return tensor[b] if tensor.dim() > dims else tensor


def enumerated(log_emissions: Tensor, start: Tensor, factors: tuple[Tensor, ...], b: int, n: int) -> Tensor:
    """log p of sentence b by adding up every sequence of states, differentiable."""
    first = of(start, b, 1)
    matrix = of(factors[0], b, 2)
    if len(factors) == 2:
        matrix = matrix @ of(factors[1], b, 2)
    logs = []
    for states in itertools.product(range(first.shape[0]), repeat=n):
        total = first[states[0]].log() + log_emissions[b, 0, states[0]]
        for t in range(1, n):
            total = total + matrix[states[t - 1], states[t]].log() + log_emissions[b, t, states[t]]
        logs.append(total)
    return torch.logsumexp(torch.stack(logs), 0)


@pytest.mark.parametrize("kind", ["dense", "factored", "batched dense", "batched factored"])
@pytest.mark.parametrize("sizes", CASES)
def test_every_sequence_of_states(sizes: tuple[int, int, int, int], kind: str) -> None:
    """Values and gradients by everything, sentences of all lengths."""
    batch, n = sizes[:2]
    log_emissions, start, factors = chain(*sizes, kind=kind)
    lengths = torch.tensor([max(1, n - b) for b in range(batch)])
    leaves = [tensor.requires_grad_() for tensor in (log_emissions, start, *factors)]
    expected = torch.stack([enumerated(log_emissions, start, factors, b, int(lengths[b])) for b in range(batch)])
    found = forward(log_emissions, start, given(factors), lengths=lengths)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
    weights = torch.arange(1.0, batch + 1, dtype=torch.float64)
    wanted = torch.autograd.grad((expected * weights).sum(), leaves, allow_unused=True)
    got = torch.autograd.grad((found * weights).sum(), leaves, allow_unused=True)
    for name, a, b in zip(("emissions", "start", "U", "V"), got, wanted, strict=False):
        a, b = (torch.zeros(()) if grad is None else grad for grad in (a, b))
        torch.testing.assert_close(a, b.expand_as(a).to(a.dtype), rtol=1e-9, atol=1e-12, msg=name)


@pytest.mark.parametrize("kind", ["dense", "factored"])
def test_gradients_can_be_differentiated(kind: str) -> None:
    log_emissions, start, factors = chain(2, 3, 3, 2, kind=kind)
    lengths = torch.tensor([3, 2])

    def function(*tensors: Tensor) -> Tensor:
        return forward(tensors[0], tensors[1], given(tensors[2:]), lengths=lengths)

    leaves = [tensor.requires_grad_() for tensor in (log_emissions, start, *factors)]
    check_derivatives(function, leaves)
    check_second_derivatives(function, leaves)


@pytest.mark.parametrize("scale", [1.0, 8.0, 24.0])
@pytest.mark.parametrize("kind", ["dense", "factored"])
def test_float32_against_the_naive_form(kind: str, scale: float) -> None:
    """Long sentences of a peaked model: values and expected counts, which are gradients by logs."""
    log_emissions, start, factors = chain(3, 37, 65, 7, kind=kind, scale=scale)
    lengths = torch.tensor([37, 20, 1])
    results = []
    for dtype, form in ((torch.float64, naive_forward), (torch.float32, forward)):
        leaves = [tensor.detach().to(dtype).requires_grad_() for tensor in (log_emissions, start, *factors)]
        found = form(leaves[0], leaves[1], given(tuple(leaves[2:])), lengths=lengths)
        grads = torch.autograd.grad(found.sum(), leaves)
        counts = [grads[0], *(leaf.detach() * grad for leaf, grad in zip(leaves[1:], grads[1:], strict=True))]
        results.append((found.detach().double(), [count.double() for count in counts]))
    (exact, exact_counts), (found, counts) = results
    torch.testing.assert_close(found, exact, rtol=1e-5, atol=1e-5)
    for one, two in zip(counts, exact_counts, strict=True):
        torch.testing.assert_close(one, two, rtol=1e-3, atol=1e-4)
        assert float((one - two).norm()) <= 1e-3 * float(two.norm())


def test_expected_counts_add_up() -> None:
    """n emissions, n − 1 transitions and one start a sentence."""
    log_emissions, start, (transitions,) = chain(3, 6, 5, 1)
    lengths = torch.tensor([6, 4, 1])
    leaves = [tensor.requires_grad_() for tensor in (log_emissions, start, transitions)]
    grads = torch.autograd.grad(forward(*leaves, lengths=lengths).sum(), leaves)
    counts = [
        float(grads[0].sum()),
        *(float((a.detach() * b).sum()) for a, b in zip(leaves[1:], grads[1:], strict=True)),
    ]
    assert counts == pytest.approx([11, 3, 8])


def test_an_impossible_sentence_has_no_gradient_and_spoils_no_other() -> None:
    log_emissions, start, (transitions,) = chain(3, 4, 3, 1)
    log_emissions[1, 2] = -math.inf  # no state says this word
    start, transitions = torch.tensor([1.0, 0, 0]).double(), torch.eye(3).double()
    log_emissions[2, 1, 0] = -math.inf  # the only state that can be there does not say it
    for create_graph in (False, True):
        leaves = [tensor.clone().requires_grad_() for tensor in (log_emissions, start, transitions)]
        found = forward(*leaves)
        assert found[1:].tolist() == [-math.inf] * 2
        assert found[0].isfinite()
        grads = torch.autograd.grad(found.sum(), leaves, create_graph=create_graph)
        assert all(grad.isfinite().all() for grad in grads)
        assert not grads[0][1:].any()
        torch.testing.assert_close(grads[0][0].sum(-1), torch.ones(4, dtype=torch.float64))


def test_what_lies_beyond_a_sentence_is_not_read() -> None:
    log_emissions, start, (transitions,) = chain(2, 5, 3, 1)
    lengths = torch.tensor([5, 2])
    before = forward(log_emissions, start, transitions, lengths=lengths)
    log_emissions[1, 2:] = math.nan
    log_emissions.requires_grad_()
    found = forward(log_emissions, start, transitions, lengths=lengths)
    assert torch.equal(found, before)
    (grad,) = torch.autograd.grad(found.sum(), log_emissions)
    assert grad.isfinite().all()
    assert not grad[1, 2:].any()


@pytest.mark.parametrize("n", [2, 3, 6])
def test_right_linear_grammar(n: int) -> None:
    """A chain is the grammar A_s → T_s A_s', in the middle, A_s → T_s T_s' at the end: the same sum, inside.

    Left and right are independent in a simple grammar, which here costs nothing: A_s has one left child, T_s, and its
    right children are the next state's A or T. With a T for A at the last word only, both weigh what the transition
    does, and rows of the right rules sum to 2: weights, not probabilities, since a chain cannot stop by itself.
    """
    states = 3
    log_emissions, start, (transitions,) = chain(2, n, states, 1)
    left = torch.cat([torch.zeros(states, states), torch.eye(states)], 1).double()
    right = torch.cat([transitions, transitions], 1)
    torch.testing.assert_close(
        inside(log_emissions, start, left, right), forward(log_emissions, start, transitions), rtol=1e-10, atol=1e-10
    )


def test_marginals_of_states() -> None:
    log_emissions, start, (transitions,) = chain(2, 4, 3, 1)
    lengths = torch.tensor([4, 2])
    log_z, found = state_marginals(check_arguments(log_emissions, start, transitions, lengths))
    torch.testing.assert_close(log_z, forward(log_emissions, start, transitions, lengths=lengths))
    torch.testing.assert_close(found[0].sum(-1), torch.ones(4, dtype=torch.float64))
    assert not found[1, 2:].any()
    assert not log_emissions.requires_grad


@pytest.mark.parametrize("kind", ["dense", "factored", "batched dense"])
def test_best_states(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("simplepcfg.ops.forward.viterbi.PAIRS_AT_ONCE", 12)
    log_emissions, start, factors = chain(3, 4, 3, 2, kind=kind)
    lengths = torch.tensor([4, 2, 1])
    found, scores = best_states(check_arguments(log_emissions, start, given(factors), lengths))
    for b, n in enumerate(lengths.tolist()):
        matrix = of(factors[0], b, 2) if len(factors) == 1 else of(factors[0], b, 2) @ of(factors[1], b, 2)
        best: tuple[float, tuple[int, ...]] = (-math.inf, ())
        for states in itertools.product(range(3), repeat=n):
            total = float(of(start, b, 1)[states[0]].log() + log_emissions[b, 0, states[0]])
            for t in range(1, n):
                total += float(matrix[states[t - 1], states[t]].log() + log_emissions[b, t, states[t]])
            best = max(best, (total, states))
        assert float(scores[b]) == pytest.approx(best[0])
        assert found[b].tolist() == [*best[1], *[-1] * (4 - n)]


@pytest.mark.parametrize("kind", ["dense", "factored"])
def test_prefixes(kind: str) -> None:
    log_emissions, start, factors = chain(2, 4, 3, 2, kind=kind)
    lengths = torch.tensor([4, 2])
    found = forward_prefixes(log_emissions, start, given(factors), lengths=lengths)
    for b, n in enumerate(lengths.tolist()):
        assert float(found.log_prefix[b, 0]) == 0
        assert not bool((found.log_prefix[b, n + 1 :] > -math.inf).any())
        for m in range(1, n + 1):
            alone = forward(log_emissions[b : b + 1, :m], start, given(factors))
            torch.testing.assert_close(found.log_prefix[b, m], alone[0].clamp(max=0.0))
        assert (found.log_sentence[b] > -math.inf).nonzero().flatten().tolist() == [n]
        torch.testing.assert_close(found.next_tags(slice(0, n))[b].sum(-1), torch.ones(n, dtype=torch.float64))
        assert not found.next_tags(slice(n, None))[b].any()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"log_emissions": torch.zeros(2, 0, 3)}, r"log_emissions has shape \[2, 0, 3\]"),
        ({"start": torch.ones(4)}, r"start has shape \[4\]; with B = 2 and S = 3"),
        ({"transitions": torch.ones(3, 4)}, r"transitions has shape \[3, 4\]"),
        ({"transitions": (torch.ones(3, 2), torch.ones(3, 3))}, r"transitions has shape \[3, 3\]"),
        ({"transitions": (torch.ones(3, 2), torch.ones(2, 2, 3))}, "both factors"),
        ({"transitions": (torch.ones(3, 2),) * 3}, "transitions are 3 tensors"),
        ({"lengths": torch.tensor([5, 1])}, r"lengths\[0\] = 5 exceeds n = 4"),
        ({"precision": "fp8"}, "precision 'fp8' is unknown"),
    ],
)
def test_what_is_off_is_named(change: dict[str, object], message: str) -> None:
    arguments = {"log_emissions": torch.zeros(2, 4, 3), "start": torch.ones(3), "transitions": torch.ones(3, 3)}
    with pytest.raises(InputError, match=message):
        forward(**{**arguments, **change})  # type: ignore[arg-type]


@pytest.mark.parametrize("precision", ["fp32", "tf32", "bf16"])
def test_precisions(precision: str) -> None:
    """On a CPU tf32 changes nothing, and bf16 rounds operands where the processor can."""
    log_emissions, start, (transitions,) = (chain(3, 8, 33, 1)[k] for k in range(3))
    exact = forward(log_emissions, start, transitions)
    found = forward(log_emissions.float(), start.float(), transitions.float(), precision=precision)
    torch.testing.assert_close(found.double(), exact, rtol=2e-3 if precision == "bf16" else 1e-5, atol=1e-5)


@pytest.mark.peer
@pytest.mark.parametrize("seed", range(3))
def test_hmmlearn_agrees(seed: int) -> None:
    import numpy as np
    from hmmlearn.hmm import CategoricalHMM

    states, words, n = 5, 7, 12
    generator = torch.Generator().manual_seed(seed)
    start, transitions, emit = (
        torch.randn(*shape, generator=generator, dtype=torch.float64).softmax(-1)
        for shape in ((states,), (states, states), (states, words))
    )
    text = torch.randint(words, (n,), generator=generator)
    peer = CategoricalHMM(n_components=states, n_features=words)
    peer.startprob_, peer.transmat_, peer.emissionprob_ = (t.numpy() for t in (start, transitions, emit))
    observed = text.numpy().astype(np.int64)[:, None]
    log_emissions = emit.log().T[text][None]
    log_z, marginals = state_marginals(check_arguments(log_emissions, start, transitions))
    assert float(log_z) == pytest.approx(peer.score(observed), rel=1e-9)
    torch.testing.assert_close(marginals[0], torch.from_numpy(peer.predict_proba(observed)), rtol=1e-7, atol=1e-9)
    score, sequence = peer.decode(observed)
    found, best = best_states(check_arguments(log_emissions, start, transitions))
    assert found[0].tolist() == sequence.tolist()
    assert float(best) == pytest.approx(score)
