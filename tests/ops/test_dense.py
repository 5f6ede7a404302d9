"""The inside algorithm of an ordinary PCFG: against full enumeration, and what must always hold."""

import math

import pytest
import torch
from torch import Tensor

from dense_oracle import (
    DenseCase,
    dense_derivations,
    dense_log_partition,
    dense_tree_log_weights,
    dense_with_zeros,
    random_dense_case,
)
from finite_differences import check_derivatives
from simplepcfg.errors import InputError
from simplepcfg.ops.dense import DenseArguments, dense_inside, recursion
from simplepcfg.ops.dense.marginals import dense_span_marginals, dense_symbol_marginals
from simplepcfg.ops.inside import inside

SIZES = [(1, 2, 1, 1), (3, 3, 2, 3), (2, 4, 3, 2), (3, 6, 3, 5)]


def lengths_of(batch: int, n: int) -> Tensor:
    return torch.tensor([n, *(1 + (n - 1 + b) % n for b in range(1, batch))])


def reference(case: DenseCase, lengths: Tensor, span_bonus: Tensor | None = None) -> Tensor:
    rows = []
    for b, length in enumerate(lengths.tolist()):
        bonus = () if span_bonus is None else (span_bonus[b],)
        rows.append(dense_log_partition(*case.sentence(b, length), *bonus))
    return torch.stack(rows)


def counts(log_z: Tensor, case: DenseCase, *more: Tensor) -> list[Tensor]:
    """Gradients as expected counts: rules times derivatives, emissions' and bonuses' as they are."""
    weights = torch.arange(1, len(log_z) + 1, dtype=log_z.dtype)
    total = (log_z * weights)[log_z > -math.inf].sum()
    inputs = (*case.tensors(), *more)
    found = torch.autograd.grad(total, inputs, allow_unused=True, materialize_grads=True)
    return [found[0], found[1] * case.root, found[2] * case.rules, *found[3:]]


def bonus_for(batch: int, n: int) -> Tensor:
    bonus = torch.randn(batch, n + 1, n + 1, dtype=torch.float64, generator=torch.Generator().manual_seed(5)) * 3
    if n > 2:
        bonus[0, 0, 2] = -math.inf
    return bonus.requires_grad_()


@pytest.mark.parametrize("batched", [False, True])
@pytest.mark.parametrize("with_bonus", [False, True])
@pytest.mark.parametrize("size", SIZES)
def test_against_enumeration(size: tuple[int, ...], with_bonus: bool, batched: bool) -> None:
    case = random_dense_case(*size, batched=batched)
    lengths = lengths_of(*size[:2])
    bonus = bonus_for(*size[:2]) if with_bonus else None
    found = dense_inside(*case.tensors(), lengths=lengths, span_bonus=bonus)
    expected = reference(case, lengths, bonus)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
    more = () if bonus is None else (bonus,)
    torch.testing.assert_close(counts(found, case, *more), counts(expected, case, *more), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("seed", range(4))
def test_zeros(seed: int) -> None:
    case = dense_with_zeros(random_dense_case(4, 5, 2, 3, seed=seed), seed)
    lengths = torch.tensor([5, 2, 1, 4])
    found = dense_inside(*case.tensors(), lengths=lengths)
    expected = reference(case, lengths)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(counts(found, case), counts(expected, case), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_an_impossible_sentence_leaves_the_others_alone(dtype: torch.dtype) -> None:
    case = random_dense_case(3, 5, 3, 4, dtype=dtype)
    emissions = case.log_emissions.detach().clone()
    emissions[1, 2] = -math.inf
    spoilt = DenseCase(emissions.requires_grad_(), case.root, case.rules)
    log_z = dense_inside(*spoilt.tensors())
    assert log_z[1] == -math.inf
    gradients = torch.autograd.grad(log_z.sum(), spoilt.tensors())
    assert all(bool(gradient.isfinite().all()) for gradient in gradients)
    assert not gradients[0][1].any()
    rest = DenseCase(emissions.detach()[[0, 2]].requires_grad_(), case.root, case.rules)
    alone = dense_inside(*rest.tensors())
    torch.testing.assert_close(log_z[[0, 2]], alone, rtol=0, atol=0)
    torch.testing.assert_close(gradients[2], torch.autograd.grad(alone.sum(), case.rules)[0])


@pytest.mark.parametrize("batched", [False, True])
def test_one_word(batched: bool) -> None:
    case = random_dense_case(2, 1, 2, 2, batched=batched)
    log_z = dense_inside(*case.tensors())
    assert (log_z == -math.inf).all()
    (gradient,) = torch.autograd.grad(log_z.sum(), case.log_emissions)
    assert not gradient.any()
    assert not dense_span_marginals(case.arguments())[1].any()


def test_every_derivation() -> None:
    case = random_dense_case(1, 4, 2, 2)
    weights = torch.tensor([weight for weight, _ in dense_derivations(*case.sentence(0, 4))], dtype=torch.float64)
    torch.testing.assert_close(dense_inside(*case.tensors())[0], weights.logsumexp(0))


@pytest.mark.parametrize("create_graph", [False, True])
def test_span_marginals(create_graph: bool) -> None:
    case = random_dense_case(3, 6, 3, 4, batched=True)
    lengths = torch.tensor([6, 4, 2])
    log_z, found = dense_span_marginals(case.arguments(lengths), create_graph=create_graph)
    expected = torch.zeros_like(found)
    for b, length in enumerate(lengths.tolist()):
        for tree, weight in dense_tree_log_weights(*case.sentence(b, length)):
            for (i, j), _ in tree:
                expected[b, i, j] += (weight - log_z[b]).exp().detach()
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(found.sum((1, 2)), (lengths - 1).double())


def test_symbol_marginals() -> None:
    case = random_dense_case(2, 4, 2, 2)
    log_z, found = dense_symbol_marginals(case.arguments(torch.tensor([4, 3])))
    expected = torch.zeros_like(found)
    for b, length in enumerate((4, 3)):
        for weight, label in dense_derivations(*case.sentence(b, length)):
            for (i, j), symbol in label.items():
                if j - i > 1:
                    expected[b, i, j, symbol] += math.exp(weight - float(log_z[b]))
    torch.testing.assert_close(found, expected)


def test_counts_identities() -> None:
    """Of n words: one root, n − 1 binary rules, n emissions, in float32 too."""
    case = random_dense_case(3, 15, 9, 17, dtype=torch.float32)
    lengths = torch.tensor([15, 8, 3])
    log_z = dense_inside(*case.tensors(), lengths=lengths)
    by_words, by_root, by_rules = torch.autograd.grad(log_z.sum(), case.tensors())
    torch.testing.assert_close(by_words.sum((1, 2)), lengths.float())
    torch.testing.assert_close((by_root * case.root).sum(), torch.tensor(3.0))
    torch.testing.assert_close((by_rules * case.rules).sum(), (lengths - 1).sum().float())


@pytest.mark.parametrize("batched", [False, True])
@pytest.mark.parametrize(("scale", "seed"), [(30.0, 0), (30.0, 1), (30.0, 2), (60.0, 3), (60.0, 4)])
def test_peaked_grammars_in_float32(scale: float, seed: int, batched: bool) -> None:
    """At logit scale 30 rules reach from 1 to less than float32 holds; float64 of the same rules says what is right."""
    case = random_dense_case(4, 14, 12, 24, scale=scale, batched=batched, dtype=torch.float32, seed=seed)
    check_float32(case)
    marginals = dense_span_marginals(case.arguments())[1]
    torch.testing.assert_close(marginals.sum((1, 2)), torch.full((4,), 13.0), rtol=1e-4, atol=1e-4)


def check_float32(case: DenseCase) -> None:
    exact = case.to(torch.float64)
    found, expected = dense_inside(*case.tensors()), dense_inside(*exact.tensors())
    assert found.isfinite().all()
    torch.testing.assert_close(found.double(), expected, rtol=2e-6, atol=1e-4)
    gradients = torch.autograd.grad(found.sum(), case.tensors())
    assert all(bool(gradient.isfinite().all()) for gradient in gradients)
    wanted = torch.autograd.grad(expected.sum(), exact.tensors())
    torch.testing.assert_close(gradients[0].double(), wanted[0], rtol=1e-3, atol=1e-4)
    for mine, theirs, rule in zip(gradients[1:], wanted[1:], exact.tensors()[1:], strict=True):
        # Below the smallest normal number 1 / rule is more than float32 holds, and the derivative is at its limit.
        normal = rule >= torch.finfo(torch.float32).tiny
        mine, theirs, rule = mine[normal], theirs[normal], rule[normal]
        torch.testing.assert_close(mine.double() * rule, theirs * rule, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("batched", [False, True])
def test_a_sentence_that_float32_cannot_hold(monkeypatch: pytest.MonkeyPatch, batched: bool) -> None:
    """Its pairs of best children have rules near 1e-36: it gets a chart in float64, the rest of the batch does not."""
    case = random_dense_case(3, 8, 3, 4, batched=batched, dtype=torch.float32)
    emissions = case.log_emissions.detach().clone()
    rules = case.rules.detach().clone()
    emissions[1, :, 1:] -= 200.0  # the sentence's words have the first preterminal
    rules[..., 3, 3] = 1e-36  # which no parent likes to have twice
    case = DenseCase(emissions, case.root, rules).to(torch.float32)
    again: list[list[int]] = []
    of_sentences = DenseArguments.of_sentences
    monkeypatch.setattr(
        DenseArguments, "of_sentences", lambda self, rows: again.append(rows.tolist()) or of_sentences(self, rows)
    )
    dense_inside(*case.tensors())
    assert again == [[1]]
    check_float32(case)
    lengths = torch.tensor([8, 7, 3])
    _, found = dense_span_marginals(case.arguments(lengths))
    torch.testing.assert_close(found.sum((1, 2)), (lengths - 1).float(), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(dense_symbol_marginals(case.arguments(lengths))[1].sum(-1), found)


def test_a_simple_grammar_is_a_dense_one() -> None:
    generator = torch.Generator().manual_seed(3)
    left, right = (torch.rand(4, 11, generator=generator, dtype=torch.float64).softmax(-1) for _ in range(2))
    case = random_dense_case(3, 8, 4, 7)
    expected = inside(case.log_emissions, case.root, left, right)
    found = dense_inside(case.log_emissions, case.root, left[:, :, None] * right[:, None, :])
    torch.testing.assert_close(found, expected)


def test_mirrored_sentences() -> None:
    """Reversing the words and swapping the children changes nothing."""
    case = random_dense_case(2, 7, 3, 4)
    found = dense_inside(case.log_emissions.flip(1), case.root, case.rules.transpose(-1, -2))
    torch.testing.assert_close(found, dense_inside(*case.tensors()))


@pytest.mark.parametrize("batched", [False, True])
def test_recomputed_pairs_change_nothing(monkeypatch: pytest.MonkeyPatch, batched: bool) -> None:
    case = random_dense_case(2, 9, 5, 6, batched=batched)
    plain = dense_inside(*case.tensors())
    gradients = torch.autograd.grad(plain.sum(), case.tensors())
    monkeypatch.setattr(recursion, "KEPT_BYTES", 1)
    small = dense_inside(*case.tensors())
    torch.testing.assert_close(small, plain)
    torch.testing.assert_close(torch.autograd.grad(small.sum(), case.tensors()), gradients)


def test_twice_differentiable() -> None:
    case = random_dense_case(2, 4, 2, 2)
    lengths = torch.tensor([4, 3])

    def slopes(*inputs: Tensor) -> Tensor:
        log_z = dense_inside(*inputs, lengths=lengths)
        return torch.autograd.grad(log_z.sum(), inputs[0], create_graph=True)[0]

    check_derivatives(slopes, case.tensors())


def test_repeated_backward_gives_the_same() -> None:
    case = random_dense_case(2, 6, 3, 4, dtype=torch.float32)
    log_z = dense_inside(*case.tensors()).sum()
    first = torch.autograd.grad(log_z, case.tensors(), retain_graph=True)
    torch.testing.assert_close(torch.autograd.grad(log_z, case.tensors()), first, rtol=0, atol=0)


def test_long_sentences() -> None:
    case = random_dense_case(1, 60, 3, 5, dtype=torch.float32)
    emissions = (case.log_emissions.detach() - 40).requires_grad_()
    log_z = dense_inside(emissions, case.root, case.rules)
    exact = dense_inside(emissions.double(), case.root.double(), case.rules.double())
    torch.testing.assert_close(log_z.double(), exact, rtol=1e-6, atol=1e-3)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rules": torch.ones(2, 5, 4)}, r"rules has shape \[2, 5, 4\]"),
        ({"log_emissions": torch.ones(3, 2)}, "log_emissions has shape"),
        ({"lengths": torch.tensor([9])}, r"lengths\[0\] = 9 exceeds n = 3"),
    ],
)
def test_wrong_arguments(change: dict[str, object], message: str) -> None:
    given = {"log_emissions": torch.zeros(1, 3, 3), "root": torch.ones(2), "rules": torch.ones(2, 5, 5)} | change
    with pytest.raises(InputError, match=message):
        dense_inside(**given)  # type: ignore[arg-type]


@pytest.mark.peer
def test_against_torch_struct() -> None:
    """log Z, and its marginals against our gradients by the logs of words, rules and root, and our marginals."""
    torch_struct = pytest.importorskip("torch_struct")
    case = random_dense_case(3, 8, 5, 7, batched=True, dtype=torch.float32)
    lengths = torch.tensor([8, 6, 3])
    parts = [tensor.detach() for tensor in (case.log_emissions, case.rules.log(), case.root.log())]
    theirs = torch_struct.SentCFG(tuple(parts), lengths=lengths)
    log_z = dense_inside(*case.tensors(), lengths=lengths)
    torch.testing.assert_close(log_z, theirs.partition, rtol=1e-5, atol=1e-5)
    by_words, by_root, by_rules = torch.autograd.grad(log_z.sum(), case.tensors())
    words, rules, root, symbols = theirs.marginals
    torch.testing.assert_close(by_words, words, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(by_rules * case.rules, rules, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(by_root * case.root, root, rtol=1e-5, atol=1e-5)
    _, marginals = dense_symbol_marginals(case.arguments(lengths))
    for width in range(2, 9):
        ours = torch.diagonal(marginals, width, 1, 2).transpose(1, 2)  # [B, spans, N]
        torch.testing.assert_close(ours, symbols[:, width - 2, : 9 - width], rtol=1e-5, atol=1e-5)
