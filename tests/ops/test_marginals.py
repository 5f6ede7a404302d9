"""Marginals of symbols, tags and rules against every derivation, and the identities between them."""

from functools import cache

import pytest
import torch
from torch import Tensor

from derivations import Answers, answers, sparse
from naive_marginals import naive_marginals
from random_grammars import Case, random_case, rules_and_sentences, with_dead_states
from simplepcfg.errors import InputError
from simplepcfg.ops.arguments import check_arguments
from simplepcfg.ops.inside import span_marginals
from simplepcfg.ops.marginals import outside_rows, rule_counts, symbol_marginals, tag_marginals

LENGTHS = torch.tensor([4, 1, 2, 3])
BACKENDS = ["torch", "triton", "log_einsum_exp", "naive"]


def case_of(kind: str, batched: bool = False, dtype: torch.dtype = torch.float64) -> Case:
    case = random_case(4, 4, 3 if kind == "dead" else 2, 2, scale=2.0, batched=batched, seed=3)
    case = {"plain": lambda c: c, "zeros": sparse, "dead": with_dead_states}[kind](case)
    return case.to(dtype)


def some_bonus(seed: int = 0) -> Tensor:
    bonus = torch.randn(4, 5, 5, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    bonus[0, 1, 3] = -torch.inf
    return bonus


def sentence(case: Case, b: int) -> tuple[Tensor, ...]:
    """The arguments of one sentence alone."""
    length = int(LENGTHS[b])
    rules = [t[b] if t.dim() > dims else t for t, dims in ((case.root, 1), (case.left, 2), (case.right, 2))]
    return case.log_emissions[b, :length], *rules


def test_naive_against_enumeration() -> None:
    case, bonus = case_of("zeros"), some_bonus()
    for b in range(4):
        truth = answers(*sentence(case, b), span_bonus=bonus[b])
        found = naive_marginals(*sentence(case, b), span_bonus=bonus[b])
        if LENGTHS[b] == 1:
            assert found.z == 0
            continue
        torch.testing.assert_close(found.z.log(), torch.tensor(truth.log_z, dtype=torch.float64))
        for name in ("tags", "root", "left", "right"):
            torch.testing.assert_close(getattr(found, name), getattr(truth, name))
        for span, value in found.symbols.items():
            torch.testing.assert_close(value, truth.symbols[span])


@cache
def truths(kind: str, batched: bool, with_bonus: bool) -> list[Answers]:
    """By enumeration, of each sentence; made once for all backends."""
    case, bonus = case_of(kind, batched), some_bonus()
    return [answers(*sentence(case, b), span_bonus=bonus[b] if with_bonus else None) for b in range(4)]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    ("kind", "batched", "with_bonus"),
    [
        ("plain", False, False),
        ("plain", True, True),
        ("zeros", False, True),
        ("zeros", True, False),
        ("dead", False, False),
    ],
)
def test_against_enumeration(kind: str, batched: bool, with_bonus: bool, backend: str) -> None:
    case = case_of(kind, batched)
    bonus = some_bonus() if with_bonus else None
    given = rules_and_sentences(*case.tensors(), lengths=LENGTHS, span_bonus=bonus)
    log_z, symbols = symbol_marginals(*given, backend=backend)
    _, tags = tag_marginals(*given, backend=backend)
    _, counts = rule_counts(*given, backend=backend)
    totals = [torch.zeros_like(t, dtype=torch.float64) for t in (case.root, case.left, case.right)]
    for b, length in enumerate(LENGTHS.tolist()):
        truth = truths(kind, batched, with_bonus)[b]
        torch.testing.assert_close(log_z[b], torch.tensor(truth.log_z, dtype=torch.float64))
        torch.testing.assert_close(symbols[b, : length + 1, : length + 1], truth.symbols)
        torch.testing.assert_close(tags[b, :length], truth.tags)
        assert not symbols[b, :, length + 1 :].any()
        assert not tags[b, length:].any()
        for total, part in zip(totals, (truth.root, truth.left, truth.right), strict=True):
            (total[b] if batched else total).add_(part)
    for found, total in zip((counts.root, counts.left, counts.right), totals, strict=True):
        torch.testing.assert_close(found, total)


@pytest.mark.parametrize(
    ("backend", "scale", "n", "N", "P"),
    [("torch", 1.0, 9, 31, 17), ("torch", 8.0, 12, 5, 9), ("torch", 24.0, 10, 16, 32), ("triton", 8.0, 5, 5, 9)],
)
def test_identities_in_float32(backend: str, scale: float, n: int, N: int, P: int) -> None:
    case = random_case(3, n, N, P, scale=scale, dtype=torch.float32, seed=1)
    lengths = torch.tensor([n, n - 3, 2])
    words = float(lengths.sum())
    given = rules_and_sentences(*case.tensors(), lengths=lengths)
    _, counts = rule_counts(*given, backend=backend)
    _, tags = tag_marginals(*given, backend=backend)
    _, symbols = symbol_marginals(*given, backend=backend)
    _, spans = span_marginals(*case.tensors(), lengths=lengths, backend=backend)
    total = sum(float(t.sum()) for t in (counts.root, counts.left, counts.right, tags))
    assert total == pytest.approx(3 * words - 3, rel=1e-4)
    torch.testing.assert_close(symbols.sum(-1), spans, rtol=1e-4, atol=1e-4)
    # A nonterminal is used as often by parents (or the root) as it rewrites; a preterminal as often as it emits.
    made = counts.root + counts.left[:, :N].sum(0) + counts.right[:, :N].sum(0)
    torch.testing.assert_close(made, counts.parents, rtol=1e-3, atol=1e-4)
    torch.testing.assert_close(counts.right.sum(1), counts.parents, rtol=1e-3, atol=1e-4)
    torch.testing.assert_close(symbols.sum((0, 1, 2)), counts.parents, rtol=1e-3, atol=1e-4)
    torch.testing.assert_close(tags.sum((0, 1)), counts.preterminals, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("backend", ["torch", "triton"])
def test_chosen_spans(backend: str) -> None:
    case = case_of("plain")
    _, everything = symbol_marginals(*rules_and_sentences(*case.tensors(), lengths=LENGTHS), backend=backend)
    spans = torch.tensor([[3, 1, 3], [0, 0, 4], [2, 0, 2], [0, 1, 3], [3, 1, 4], [1, 0, 2], [0, 1, 3]])
    _, chosen = symbol_marginals(*rules_and_sentences(*case.tensors(), lengths=LENGTHS), spans=spans, backend=backend)
    torch.testing.assert_close(chosen, everything[spans[:, 0], spans[:, 1], spans[:, 2]])
    assert not chosen[4:6].any()  # beyond the ends of their sentences
    _, none = symbol_marginals(*rules_and_sentences(*case.tensors(), lengths=LENGTHS), spans=spans[:0], backend=backend)
    assert none.shape == (0, 2)


@pytest.mark.parametrize(
    ("span", "named"), [([0, 1, 2], r"\[0, 1, 2\]"), ([4, 0, 2], "sentence < 4"), ([0, 3, 5], "4")]
)
def test_bad_spans_are_named(span: list[int], named: str) -> None:
    with pytest.raises(InputError, match=named):
        symbol_marginals(*rules_and_sentences(*case_of("plain").tensors()), spans=torch.tensor([span]))
    with pytest.raises(InputError, match=r"\[K, 3\]"):
        symbol_marginals(*rules_and_sentences(*case_of("plain").tensors()), spans=torch.tensor(span))


def test_an_impossible_sentence_has_zeros_and_leaves_its_neighbours_alone() -> None:
    case = case_of("plain")
    emissions = case.log_emissions.detach().clone()
    emissions[3, 1] = -torch.inf
    rules = case.tensors()[1:]
    log_z, symbols = symbol_marginals(*rules_and_sentences(emissions, *rules, lengths=LENGTHS))
    _, tags = tag_marginals(*rules_and_sentences(emissions, *rules, lengths=LENGTHS))
    assert log_z[3] == -torch.inf
    assert not symbols[3].any()
    assert not tags[3].any()
    torch.testing.assert_close(
        symbols[0], symbol_marginals(*rules_and_sentences(*case.tensors(), lengths=LENGTHS))[1][0]
    )


def test_one_word_sentences_alone() -> None:
    case = random_case(2, 1, 2, 3)
    assert not symbol_marginals(*rules_and_sentences(*case.tensors()))[1].any()
    assert not tag_marginals(*rules_and_sentences(*case.tensors()))[1].any()
    counts = rule_counts(*rules_and_sentences(*case.tensors()))[1]
    assert not counts.left.any()
    assert counts.left.shape == case.left.shape


def test_rows_come_from_the_widest_to_the_narrowest() -> None:
    case = case_of("plain")
    arguments = check_arguments(*rules_and_sentences(*case.tensors(), lengths=LENGTHS))
    _, tables = outside_rows(arguments)
    assert [table.width for table in tables] == [4, 3, 2]


@pytest.mark.parametrize("question", [tag_marginals, rule_counts])
def test_gradients_of_marginals(question: object) -> None:
    """A loss on marginals reaches the rules: against differences of the marginals themselves."""
    case = case_of("plain")

    def loss(left: Tensor, graph: bool) -> Tensor:
        given = rules_and_sentences(case.log_emissions, case.root, left, case.right, lengths=LENGTHS)
        _, found = question(*given, create_graph=graph)  # type: ignore[operator]
        value = found if isinstance(found, Tensor) else found.right
        weights = torch.arange(value.numel(), dtype=value.dtype).view(value.shape).sin()
        return (value * weights).sum()

    (slope,) = torch.autograd.grad(loss(case.left, True), case.left)
    direction = torch.randn(case.left.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    step = 1e-6
    difference = loss(case.left.detach() + step * direction, False) - loss(case.left.detach() - step * direction, False)
    torch.testing.assert_close((slope * direction).sum(), difference / (2 * step), rtol=1e-6, atol=1e-8)
