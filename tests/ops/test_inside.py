"""Every backend of the inside algorithm against enumeration, and against what must hold for any grammar."""

import math
from functools import cache

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import oracle
from finite_differences import check_second_derivatives
from random_grammars import Case, random_case, with_dead_states, with_zeros
from simplepcfg.ops import products
from simplepcfg.ops.inside import BACKENDS, inside, scaled_chart, span_marginals

CPU_BACKENDS = ["naive", "log_sum_exp", "log_einsum_exp", "torch", "triton"]
TOLERANCE = {torch.float64: 1e-10, torch.float32: 2e-4}


def of_sentence(case: Case, b: int, length: int) -> list[Tensor]:
    """One sentence's arguments, as the oracle takes them."""
    root, left, right = (t[b] if t.dim() > dims else t for t, dims in ((case.root, 1), (case.left, 2), (case.right, 2)))
    return [case.log_emissions[b, :length], root, left, right]


def enumerated(case: Case, lengths: list[int], bonus: Tensor | None = None) -> Tensor:
    return torch.stack(
        [
            oracle.log_partition(*of_sentence(case, b, length), None if bonus is None else bonus[b])
            for b, length in enumerate(lengths)
        ]
    )


def gradients(log_z: Tensor, inputs: tuple[Tensor, ...], weights: Tensor) -> tuple[Tensor, ...]:
    return torch.autograd.grad((log_z * weights).sum(), inputs)


def relative(found: Tensor, expected: Tensor) -> float:
    return float((found - expected).norm() / expected.norm().clamp(min=1e-300))


def by_log_rules(case: Case, grads: tuple[Tensor, ...]) -> list[Tensor]:
    """Gradients by log-emissions and log-rules: expected counts. A rule of probability 0 has none."""
    rules = zip(grads[1:], case.tensors()[1:], strict=True)
    return [grads[0], *(torch.where(rule == 0, 0.0, grad * rule.detach()) for grad, rule in rules)]


@cache
def enumerated_with_gradients(
    n: int, nonterminals: int, preterminals: int, batched: bool, lengths: tuple[int, ...]
) -> tuple[Case, Tensor, Tensor, tuple[Tensor, ...]]:
    """A case, a bonus, log Z and its gradients by enumeration; made once for all backends."""
    case = random_case(len(lengths), n, nonterminals, preterminals, batched=batched, scale=2.0)
    generator = torch.Generator().manual_seed(n)
    bonus = torch.randn(len(lengths), n + 1, n + 1, dtype=torch.float64, generator=generator).requires_grad_()
    expected = enumerated(case, list(lengths), bonus)
    return case, bonus, expected.detach(), gradients(expected, (*case.tensors(), bonus), weights_of(len(lengths)))


def weights_of(batch: int) -> Tensor:
    return torch.linspace(-1.0, 2.0, batch, dtype=torch.float64)


@pytest.mark.parametrize("backend", CPU_BACKENDS)
@pytest.mark.parametrize(
    ("n", "nonterminals", "preterminals", "batched", "lengths"),
    [
        (2, 1, 1, False, (2,)),
        (5, 3, 4, False, (5, 5, 5)),
        (6, 2, 5, False, (6, 2, 4)),
        (5, 4, 1, True, (3, 5, 2)),
        (7, 3, 3, True, (7, 7)),
    ],
)
def test_inside_against_enumeration(
    backend: str, n: int, nonterminals: int, preterminals: int, batched: bool, lengths: tuple[int, ...]
) -> None:
    case, bonus, expected, true_gradients = enumerated_with_gradients(n, nonterminals, preterminals, batched, lengths)
    log_z = inside(*case.tensors(), lengths=torch.tensor(lengths), span_bonus=bonus, backend=backend)
    torch.testing.assert_close(log_z, expected, rtol=1e-11, atol=1e-11)
    found_gradients = gradients(log_z, (*case.tensors(), bonus), weights_of(len(lengths)))
    for found, true in zip(found_gradients, true_gradients, strict=True):
        torch.testing.assert_close(found, true, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("backend", CPU_BACKENDS)
def test_inside_counts_every_derivation(backend: str) -> None:
    case = random_case(1, 4, 2, 2, seed=3)
    expected = math.log(oracle.derivation_sum(case.log_emissions[0], case.root, case.left, case.right))
    assert inside(*case.tensors(), backend=backend).item() == pytest.approx(expected, abs=1e-12)


@cache
def naive_answers(batch: int, n: int, nonterminals: int, preterminals: int) -> tuple[Case, Tensor, tuple[Tensor, ...]]:
    """A random case, its log Z and gradients, one split at a time."""
    case = random_case(batch, n, nonterminals, preterminals, scale=2.0)
    expected = inside(*case.tensors(), backend="naive")
    true = gradients(expected, case.tensors(), torch.arange(1.0, batch + 1, dtype=torch.float64))
    return case, expected.detach(), tuple(true)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize(
    ("batch", "n", "nonterminals", "preterminals"),
    [(1, 2, 1, 1), (3, 7, 63, 5), (2, 20, 65, 33), (1, 41, 7, 13)],
)
@pytest.mark.parametrize("backend", ["torch", "log_einsum_exp"])
def test_inside_against_naive_at_odd_sizes(
    backend: str, dtype: torch.dtype, batch: int, n: int, nonterminals: int, preterminals: int
) -> None:
    case, expected, true = naive_answers(batch, n, nonterminals, preterminals)
    weights = torch.arange(1.0, batch + 1, dtype=torch.float64)
    small = case.to(dtype)
    log_z = inside(*small.tensors(), backend=backend)
    assert log_z.dtype == dtype
    torch.testing.assert_close(log_z.double(), expected, rtol=0, atol=TOLERANCE[dtype] * n)
    for found, exact in zip(gradients(log_z, small.tensors(), weights.to(dtype)), true, strict=True):
        assert relative(found.double(), exact) < TOLERANCE[dtype]


@pytest.mark.parametrize("backend", CPU_BACKENDS)
def test_padding_and_neighbours_change_nothing(backend: str) -> None:
    case = random_case(4, 7, 5, 7, scale=2.0)
    lengths = torch.tensor([7, 3, 2, 5])
    poisoned = case.log_emissions.detach().clone()
    for b, length in enumerate(lengths.tolist()):
        poisoned[b, length:] = math.nan if backend in ("torch", "naive", "triton") else 50.0
    poisoned.requires_grad_()
    log_z = inside(poisoned, *case.tensors()[1:], lengths=lengths, backend=backend)
    (by_emissions,) = torch.autograd.grad(log_z.sum(), poisoned)
    for b, length in enumerate(lengths.tolist()):
        alone = case.log_emissions[b : b + 1, :length].detach().requires_grad_()
        single = inside(alone, *case.tensors()[1:], backend=backend)
        (expected,) = torch.autograd.grad(single.sum(), alone)
        torch.testing.assert_close(log_z[b], single[0], rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(by_emissions[b, :length], expected[0], rtol=1e-10, atol=1e-12)
        assert (by_emissions[b, length:] == 0).all()


def log_rule_norms(case: Case, log_z: Tensor) -> list[float]:
    """L1 norms of the gradient by log-rules: root, left, right, emissions."""
    emissions, *rules = by_log_rules(case, torch.autograd.grad(log_z.sum(), case.tensors()))
    return [*(float(grad.sum()) for grad in rules), float(emissions.sum())]


@pytest.mark.parametrize("scale", [1.0, 8.0, 30.0])
@pytest.mark.parametrize("n", [2, 3, 17, 60])
def test_identities_of_expected_counts(n: int, scale: float) -> None:
    case = random_case(2, n, 19, 31, scale=scale, dtype=torch.float32)
    log_z = inside(*case.tensors())
    assert log_rule_norms(case, log_z) == pytest.approx([2, 2 * (n - 1), 2 * (n - 1), 2 * n], rel=1e-4)
    _, marginals = span_marginals(*case.tensors())
    assert marginals.sum((1, 2)).tolist() == pytest.approx([n - 1] * 2, rel=1e-4)
    assert float(marginals.amax()) <= 1 + 1e-4
    assert marginals[:, 0, n].tolist() == pytest.approx([1.0, 1.0], abs=1e-4)


@pytest.mark.parametrize("backend", CPU_BACKENDS)
def test_uniform_rules_count_trees(backend: str) -> None:
    n = 10
    rules = torch.full((1, 2), 0.5, dtype=torch.float64)
    log_z = inside(torch.zeros(1, n, 1, dtype=torch.float64), torch.ones(1).double(), rules, rules, backend=backend)
    catalan = math.comb(2 * (n - 1), n - 1) // n
    assert log_z.item() == pytest.approx(math.log(catalan) - 2 * (n - 1) * math.log(2), abs=1e-12)


def test_reversed_sentences_with_swapped_rules() -> None:
    case = random_case(2, 8, 6, 9, scale=3.0)
    mirrored = inside(case.log_emissions.flip(1), case.root, case.right, case.left)
    torch.testing.assert_close(inside(*case.tensors()), mirrored, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("kind", ["zeros", "dead"])
@pytest.mark.parametrize("seed", range(4))
def test_zero_probabilities(kind: str, seed: int, dtype: torch.dtype) -> None:
    case = random_case(3, 6, 5, 6, scale=3.0, seed=seed)
    case = with_zeros(case, seed) if kind == "zeros" else with_dead_states(case)
    expected = enumerated(case, [6, 6, 6]).detach()
    small = case.to(dtype)
    log_z = inside(*small.tensors())
    torch.testing.assert_close(log_z.double(), expected, rtol=1e-5, atol=1e-5)
    found = torch.autograd.grad(log_z[expected > -math.inf].sum(), small.tensors())
    naive = case.to(torch.float64)
    exact = torch.autograd.grad(inside(*naive.tensors(), backend="naive")[expected > -math.inf].sum(), naive.tensors())
    for ours, true in zip(by_log_rules(small, found), by_log_rules(naive, exact), strict=True):
        torch.testing.assert_close(ours.double(), true, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("backend", CPU_BACKENDS)
def test_impossible_sentence_has_zero_gradient_and_spares_its_neighbours(backend: str) -> None:
    case = random_case(2, 4, 3, 4)
    emissions = case.log_emissions.detach().clone()
    emissions[0, 2] = -math.inf
    emissions.requires_grad_()
    log_z = inside(emissions, *case.tensors()[1:], backend=backend)
    assert log_z[0] == -math.inf
    assert log_z[1].isfinite()
    grads = torch.autograd.grad(log_z[0], (emissions, *case.tensors()[1:]), retain_graph=True)
    assert all((grad == 0).all() for grad in grads)
    assert all(grad.isfinite().all() for grad in torch.autograd.grad(log_z[1], case.tensors()[1:]))


@pytest.mark.parametrize("backend", CPU_BACKENDS)
def test_one_word_sentences_have_no_tree(backend: str) -> None:
    case = random_case(2, 3, 3, 4)
    assert inside(case.log_emissions[:, :1], *case.tensors()[1:], backend=backend).tolist() == [-math.inf] * 2
    mixed = inside(*case.tensors(), lengths=torch.tensor([1, 3]), backend=backend)
    assert mixed[0] == -math.inf
    assert mixed[1].isfinite()
    grads = torch.autograd.grad(mixed[0], case.tensors(), allow_unused=True)
    assert all(grad is None or (grad == 0).all() for grad in grads)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("seed", range(6))
def test_logits_of_a_thousand(seed: int, dtype: torch.dtype) -> None:
    """Finite wherever log_einsum_exp of that type is, and as near to the truth."""
    generator = torch.Generator().manual_seed(seed)

    def logits(*size: int) -> Tensor:
        return (torch.rand(*size, generator=generator, dtype=torch.float64) * 2 - 1) * 1000

    emissions = logits(3, 7, 6).to(dtype).requires_grad_()
    root, left, right = (logits(*size).to(dtype).softmax(-1).requires_grad_() for size in ((4,), (4, 10), (4, 10)))
    case = Case(emissions, root, left, right)
    ours, theirs = inside(*case.tensors()), inside(*case.tensors(), backend="log_einsum_exp")
    finite = theirs.isfinite()
    assert ours[finite].isfinite().all()
    exact = enumerated(case.to(torch.float64), [7, 7, 7]).detach()
    worst = float((theirs.detach().double() - exact)[finite].abs().amax()) if finite.any() else 0.0
    spacing = 7000 * torch.finfo(dtype).eps
    assert float((ours.detach().double() - exact)[finite].abs().amax() if finite.any() else 0.0) <= 2 * worst + spacing
    if finite.any():
        grads = torch.autograd.grad(ours[finite].sum(), case.tensors(), retain_graph=True)
        assert all(not grad.isnan().any() for grad in grads)
        count = float(finite.sum())
        expected = torch.tensor([count, 6 * count, 6 * count, 7 * count])
        off, theirs_off = (
            (torch.tensor(log_rule_norms(case, log_z[finite])) - expected).abs() for log_z in (ours, theirs)
        )
        # A tag of probability e^-720 beside its word's best is where both leave the range; NaN is theirs alone.
        assert (off <= theirs_off.nan_to_num(math.inf) + 1e-3 * expected).all()


@pytest.mark.parametrize("scale", [8.0, 16.0, 24.0, 32.0])
@pytest.mark.parametrize("seed", range(3))
def test_peaked_grammars_are_as_accurate_as_log_einsum_exp(scale: float, seed: int) -> None:
    case = random_case(2, 14, 32, 64, scale=scale, seed=seed)
    exact = inside(*case.tensors(), backend="log_einsum_exp")
    exact_grads = torch.autograd.grad(exact.sum(), case.tensors())
    errors = {}
    for backend in ("torch", "log_einsum_exp"):
        small = case.to(torch.float32)
        log_z = inside(*small.tensors(), backend=backend)
        grads = torch.autograd.grad(log_z.sum(), small.tensors())
        found, true = by_log_rules(small, grads), by_log_rules(case, exact_grads)
        errors[backend] = [
            float((log_z.detach().double() - exact.detach()).abs().amax()),
            *(relative(ours.double(), want) for ours, want in zip(found, true, strict=True)),
        ]
    for ours, theirs in zip(errors["torch"], errors["log_einsum_exp"], strict=True):
        assert ours <= 2 * theirs + 1e-5


@settings(max_examples=40, deadline=None)
@given(
    n=st.integers(2, 9),
    nonterminals=st.integers(1, 6),
    preterminals=st.integers(1, 6),
    scale=st.sampled_from([0.0, 1.0, 5.0, 20.0]),
    batched=st.booleans(),
    zeros=st.booleans(),
    seed=st.integers(0, 10_000),
    data=st.data(),
)
def test_torch_backend_is_the_naive_one(
    n: int,
    nonterminals: int,
    preterminals: int,
    scale: float,
    batched: bool,
    zeros: bool,
    seed: int,
    data: st.DataObject,
) -> None:
    batch = data.draw(st.integers(1, 3))
    lengths = torch.tensor(data.draw(st.lists(st.integers(1, n), min_size=batch, max_size=batch)))
    case = random_case(batch, n, nonterminals, preterminals, scale=scale, batched=batched, seed=seed)
    if zeros:
        case = with_zeros(case, seed)
    ours = inside(*case.tensors(), lengths=lengths)
    theirs = inside(*case.tensors(), lengths=lengths, backend="naive")
    torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-9)
    possible = theirs > -math.inf
    if possible.any():
        found = torch.autograd.grad(ours[possible].sum(), case.tensors())
        exact = torch.autograd.grad(theirs[possible].sum(), case.tensors())
        assert all(grad.isfinite().all() for grad in found)
        for mine, true in zip(by_log_rules(case, found), by_log_rules(case, exact), strict=True):
            torch.testing.assert_close(mine, true, rtol=1e-7, atol=1e-9)


def test_repeated_passes_agree_bit_for_bit() -> None:
    case = random_case(3, 11, 17, 9, scale=4.0, dtype=torch.float32)
    log_z = inside(*case.tensors())
    first = torch.autograd.grad(log_z.sum(), case.tensors(), retain_graph=True)
    second = torch.autograd.grad(log_z.sum(), case.tensors())
    repeated = torch.autograd.grad(inside(*case.tensors()).sum(), case.tensors())
    for a, b, c in zip(first, second, repeated, strict=True):
        assert torch.equal(a, b)
        assert torch.equal(a, c)


def test_second_derivatives() -> None:
    case = random_case(2, 4, 3, 3, scale=2.0)
    bonus = torch.zeros(2, 5, 5, dtype=torch.float64, requires_grad=True)
    check_second_derivatives(
        lambda e, r, a, b, s: inside(e, r, a, b, span_bonus=s, lengths=torch.tensor([4, 3])),
        (*case.tensors(), bonus),
    )


def test_span_marginals_are_the_frequency_of_spans_in_trees() -> None:
    case = random_case(2, 6, 4, 5, scale=2.0)
    lengths = torch.tensor([6, 4])
    log_z, marginals = span_marginals(*case.tensors(), lengths=lengths)
    for b, length in enumerate(lengths.tolist()):
        expected = torch.zeros(7, 7, dtype=torch.float64)
        for tree, weight in oracle.tree_log_weights(*of_sentence(case, b, length)):
            for (i, j), _ in tree:
                expected[i, j] += (weight - log_z[b]).exp().detach()
        torch.testing.assert_close(marginals[b], expected, rtol=1e-10, atol=1e-12)
    with torch.inference_mode():
        torch.testing.assert_close(span_marginals(*case.tensors(), lengths=lengths)[1], marginals)


def test_forbidden_spans() -> None:
    case = random_case(1, 6, 4, 5)
    bonus = torch.zeros(1, 7, 7, dtype=torch.float64)
    bonus[0, 1, 3] = bonus[0, 2, 5] = -math.inf
    expected = enumerated(case, [6], bonus)
    torch.testing.assert_close(inside(*case.tensors(), span_bonus=bonus), expected, rtol=1e-11, atol=1e-11)
    _, marginals = span_marginals(*case.tensors(), span_bonus=bonus)
    assert marginals[0, 1, 3] == 0
    assert float(marginals.sum()) == pytest.approx(5)


def test_every_backend_is_tested_here() -> None:
    assert set(CPU_BACKENDS) == set(BACKENDS)


@pytest.mark.parametrize("least", [0, 1 << 30])
@pytest.mark.parametrize("cache_bytes", [1, 200, 1 << 20])
def test_split_sums_do_not_depend_on_how_a_processor_multiplies(monkeypatch, least, cache_bytes):
    """Products in batches or multiply and sum, all spans at once or a few at a time: equal log Z and gradients."""
    monkeypatch.setattr(products, "LEAST_BMM_COLUMNS", least)
    monkeypatch.setattr(scaled_chart, "CACHE_BYTES", cache_bytes)
    case = random_case(batch=3, n=6, nonterminals=4, preterminals=5, seed=8)
    inputs = tuple(t.requires_grad_() for t in (case.log_emissions, case.root, case.left, case.right))
    weights = torch.arange(1.0, 4.0, dtype=torch.float64)
    found, expected = (inside(*inputs, backend=name) for name in ("torch", "naive"))
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=0)
    for ours, naive in zip(gradients(found, inputs, weights), gradients(expected, inputs, weights), strict=True):
        assert relative(ours, naive) < 1e-12


@pytest.mark.parametrize("cache_bytes", [1, 200])
def test_parts_of_one_sentence_leave_out_what_lies_beyond_its_end(monkeypatch, cache_bytes):
    """Sentences of several lengths, a few spans at a time: log Z, gradients and span marginals of the naive form."""
    monkeypatch.setattr(scaled_chart, "CACHE_BYTES", cache_bytes)
    case, lengths = random_case(batch=4, n=7, nonterminals=5, preterminals=6, seed=9), torch.tensor([7, 2, 5, 1])
    inputs = tuple(t.requires_grad_() for t in (case.log_emissions, case.root, case.left, case.right))
    found, expected = (inside(*inputs, lengths=lengths, backend=name) for name in ("torch", "naive"))
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=0)
    weights = torch.tensor([1.0, 2.0, 3.0, 0.0], dtype=torch.float64)
    ours, naive = (gradients(log_z[:3], inputs, weights[:3]) for log_z in (found, expected))
    assert all(relative(*pair) < 1e-12 for pair in zip(ours, naive, strict=True))
    spans = [
        span_marginals(*(t.detach() for t in inputs), lengths=lengths, backend=name) for name in ("torch", "naive")
    ]
    torch.testing.assert_close(*spans, rtol=1e-10, atol=1e-12)
