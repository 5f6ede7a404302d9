"""Random trees and the k best of an ordinary PCFG: against full enumeration, the naive form and a simple grammar."""

import itertools
import math
from collections import Counter

import pytest
import torch
from torch import Tensor

from dense_oracle import DenseCase, dense_derivations, dense_with_zeros, random_dense_case
from frequencies import chi_square
from naive_dense import naive_dense_sample_trees
from random_grammars import random_case
from simplepcfg.errors import InputError
from simplepcfg.grammars import DenseEmissions, DenseGrammar, SimpleGrammar
from simplepcfg.ops.dense import check_dense_arguments, dense_inside
from simplepcfg.ops.dense.sample import dense_sample_derivations, dense_sample_trees
from simplepcfg.ops.dense.trees import dense_k_best
from simplepcfg.ops.trees import LabelledTree

LENGTHS = torch.tensor([5, 1, 3, 2])
Symbols = tuple[tuple[tuple[int, int], int], ...]


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def symbols_of(tree: LabelledTree, nonterminals: int) -> Symbols:
    """The symbol of every span, words' counted after nonterminals."""
    words = (((i, i + 1), nonterminals + tag) for i, tag in enumerate(tree.tags))
    return tuple(sorted([*zip(tree.spans, tree.labels, strict=True), *words]))


def every_tree(case: DenseCase, b: int, length: int, bonus: Tensor | None = None) -> dict[Symbols, float]:
    """log-probability of every derivation of a sentence."""
    found = dense_derivations(*case.sentence(b, length), None if bonus is None else bonus[b])
    return {tuple(sorted(symbols.items())): weight for weight, symbols in found}


def bonus_of(batch: int, n: int) -> Tensor:
    bonus = torch.randn(batch, n + 1, n + 1, generator=seeded(2), dtype=torch.float64)
    bonus[0, 1, 3] = -math.inf
    return bonus


@pytest.mark.parametrize("with_bonus", [False, True])
@pytest.mark.parametrize("number", range(3))
def test_against_the_naive_form_draws_the_same_trees(
    with_bonus: bool, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("simplepcfg.ops.dense.sample.WEIGHTS_AT_ONCE", 500)  # several parts a step
    case = random_dense_case(4, 5, 5, 6, scale=3.0, batched=number == 1, seed=number)
    case = dense_with_zeros(case, seed=3) if number == 2 else case
    bonus = bonus_of(4, 5) if with_bonus else None
    naive, fast = (
        form(case.arguments(LENGTHS, bonus), 3, seeded(number))
        for form in (naive_dense_sample_trees, dense_sample_trees)
    )
    assert naive.labels.shape == (4, 3, 4)
    for field in ("spans", "splits", "labels", "tags", "log_probability"):
        assert torch.equal(getattr(naive, field), getattr(fast, field)), field
    assert (fast.log_probability[1] == -math.inf).all()
    assert (fast.labels[1] == -1).all()


@pytest.mark.parametrize("with_bonus", [False, True])
@pytest.mark.parametrize("batched", [False, True])
def test_frequencies_are_marginals(batched: bool, with_bonus: bool) -> None:
    case = random_dense_case(2, 4, 2, 2, scale=1.5, batched=batched, seed=1)
    bonus = bonus_of(2, 4) if with_bonus else None
    lengths = torch.tensor([4, 3])
    drawn = dense_sample_trees(case.arguments(lengths, bonus), 6_000, seeded(11))
    for b, (length, trees) in enumerate(zip(lengths.tolist(), drawn.to_list(), strict=True)):
        weights = every_tree(case, b, length, bonus)
        shares = torch.tensor(list(weights.values()), dtype=torch.float64).softmax(0).tolist()
        counts = Counter(symbols_of(tree, 2) for tree in trees)
        assert set(counts) <= {name for name, weight in weights.items() if weight > -math.inf}
        assert abs(chi_square([counts[name] for name in weights], shares)) < 5
        for tree in trees[:5]:
            assert tree.log_probability == pytest.approx(weights[symbols_of(tree, 2)])


def test_tree_log_probabilities_have_gradients() -> None:
    case = random_dense_case(4, 5, 3, 4, batched=True)
    drawn = dense_sample_trees(case.arguments(LENGTHS), 2, seeded())
    possible = drawn.log_probability > -math.inf
    grads = torch.autograd.grad(drawn.log_probability[possible].sum(), case.tensors())
    weights = (torch.ones(()), case.root.detach(), case.rules.detach())
    counts = [float((grad * weight).sum()) for grad, weight in zip(grads, weights, strict=True)]
    assert counts == pytest.approx([2 * 10, 2 * 3, 2 * 7])  # words, roots and rules of the possible sentences


def test_float32_and_very_peaked_grammars() -> None:
    """The chart is in float64 whatever the rules are: no span is too improbable to be drawn."""
    case = random_dense_case(3, 12, 4, 6, scale=40.0, dtype=torch.float32)
    drawn = dense_sample_trees(case.arguments(), 12, seeded())
    exact = naive_dense_sample_trees(case.to(torch.float64).arguments(), 12, seeded())
    assert torch.equal(drawn.labels, exact.labels)
    assert drawn.log_probability.dtype == torch.float32
    log_z = dense_inside(*case.to(torch.float64).tensors())
    assert (drawn.log_probability.double() <= log_z[:, None] + 1e-3).all()
    assert drawn.log_probability.isfinite().all()


def test_repeats_bit_for_bit_and_differs_by_seed() -> None:
    case = random_dense_case(3, 9, 5, 6, dtype=torch.float32)
    once, repeated, other = (dense_sample_trees(case.arguments(), 20, seeded(seed)) for seed in (3, 3, 4))
    assert torch.equal(once.labels, repeated.labels)
    assert not torch.equal(once.labels, other.labels)


def test_the_share_of_a_length_is_the_inside_algorithm() -> None:
    """P(length) is Z of a sentence of which every preterminal says each word surely."""
    case = random_dense_case(1, 2, 4, 5, scale=2.0)
    log_shares = [
        dense_inside(torch.zeros(1, length, 5, dtype=torch.float64), case.root, case.rules)[0].detach()
        for length in range(2, 9)
    ]
    drawn = [dense_sample_derivations(case.root, case.rules, 5_000, longest, seeded()) for longest in range(2, 9)]
    for place, (_, _, log_kept) in enumerate(drawn):
        assert float(log_kept) == pytest.approx(float(torch.stack(log_shares[: place + 1]).logsumexp(0)))
    counts = drawn[-1][1].bincount(minlength=9).tolist()
    assert counts[:2] == [0, 0]
    assert abs(chi_square(counts[2:], torch.stack(log_shares).softmax(0).tolist())) < 5


def test_long_lengths_of_an_endless_grammar_stay_in_range() -> None:
    """A grammar that almost never ends: 2^-50 a word, and yet every length has its share."""
    rules = torch.full((1, 2, 2), 2.0**-50)
    rules[0, 0, 0] = 1 - 3 * 2.0**-50
    found, lengths, log_kept = dense_sample_derivations(torch.ones(1), rules, 200, 60, seeded())
    assert math.isfinite(float(log_kept))
    assert (lengths >= 2).all()
    assert (found[3] >= 0).sum(1).tolist() == lengths.tolist()


def grammar(words: int = 3) -> DenseGrammar:
    case = random_dense_case(1, 2, 2, 2, scale=1.0, seed=5)
    log_emit = torch.randn(2, words, generator=seeded(1), dtype=torch.float64).log_softmax(-1)
    return DenseGrammar(case.root.detach(), case.rules.detach(), DenseEmissions(log_emit))


def tempered(given: DenseGrammar, temperature: float) -> DenseGrammar:
    assert isinstance(given.emissions, DenseEmissions)
    rules = (given.rules.flatten(1).log() / temperature).softmax(-1).view(given.rules.shape)
    emissions = DenseEmissions((given.emissions.log_emit / temperature).log_softmax(-1))
    return DenseGrammar((given.root.log() / temperature).softmax(-1), rules, emissions)


@pytest.mark.parametrize("temperature", [1.0, 0.5])
def test_sentences_as_often_as_they_are_probable(temperature: float) -> None:
    original, count = grammar(), 12_000
    drawn = original.sample(count, max_length=3, generator=seeded(7), temperature=temperature)
    sentences = [text for n in (2, 3) for text in itertools.product(range(3), repeat=n)]
    words = torch.tensor([[*text, 0][:3] for text in sentences])
    lengths = torch.tensor([len(text) for text in sentences])
    log_p = tempered(original, temperature).log_partition(words, lengths)
    assert float(log_p.logsumexp(0)) == pytest.approx(drawn.log_kept)
    observed = Counter(zip(drawn.lengths.tolist(), map(tuple, drawn.words.tolist()), strict=True))
    counts = [observed[n, tuple(row)] for n, row in zip(lengths.tolist(), words.tolist(), strict=True)]
    assert sum(counts) == count
    assert abs(chi_square(counts, (log_p - drawn.log_kept).exp().tolist())) < 5
    # Trees are those of the cooled grammar, their probability that of the grammar as it is.
    case = DenseCase(original.emissions.log_probabilities(drawn.words[:9]), original.root, original.rules)
    for b, tree in enumerate(drawn.trees.to_list()[:9]):
        assert tree.log_probability == pytest.approx(every_tree(case, b, len(tree.tags))[symbols_of(tree, 2)])


def test_what_cannot_be_drawn_is_named() -> None:
    given, batched = grammar(), random_dense_case(2, 3, 2, 2, batched=True)
    words = torch.tensor([[1, 2]])
    assert given.sample_trees(words[:, :1], samples=2, generator=seeded()).log_probability.tolist() == [[-math.inf] * 2]
    with pytest.raises(InputError, match="samples = 0"):
        given.sample_trees(words, samples=0, generator=seeded())
    with pytest.raises(InputError, match="one grammar at a time"):
        dense_sample_derivations(batched.root, batched.rules, 3, 5, seeded())
    for settings, said in (
        ({"count": 0}, "count = 0"),
        ({"max_length": 1}, "max_length = 1"),
        ({"max_length": 100_000}, "10000 words are the most"),
        ({"temperature": 0.0}, "temperature = 0.0"),
    ):
        asked = {"count": 2, "max_length": 4, **settings}
        with pytest.raises(InputError, match=said):
            given.sample(asked.pop("count"), generator=seeded(), **asked)  # type: ignore[arg-type]
    endless = torch.zeros(2, 4, 4)
    endless[:, 0, 0] = 1
    with pytest.raises(InputError, match="raise max_length"):
        dense_sample_derivations(torch.ones(2) / 2, endless, 3, 5, seeded())


@pytest.mark.parametrize("with_bonus", [False, True])
@pytest.mark.parametrize("number", range(3))
def test_k_best_against_every_derivation(number: int, with_bonus: bool) -> None:
    case = random_dense_case(4, 4, 2, 2, scale=1.5, batched=number == 1, seed=number)
    case = dense_with_zeros(case, seed=2) if number == 2 else case
    lengths = torch.tensor([4, 1, 3, 2])
    bonus = bonus_of(4, 4) if with_bonus else None
    for k in (1, 7, 10_000):
        found = dense_k_best(case.arguments(lengths, bonus), k)
        for b, length in enumerate(lengths.tolist()):
            weights = every_tree(case, b, length, bonus) if length > 1 else {}
            best = sorted((weight for weight in weights.values() if weight > -math.inf), reverse=True)[:k]
            assert [tree.log_probability for tree in found[b]] == pytest.approx(best)
            names = [symbols_of(tree, 2) for tree in found[b]]
            assert len(set(names)) == len(names)
            assert [weights[name] for name in names] == pytest.approx(best)


def test_k_best_of_an_expanded_simple_grammar() -> None:
    """The two searches share nothing but heaps."""
    case = random_case(3, 9, 5, 6, scale=2.0)
    emissions = DenseEmissions(torch.randn(6, 20, generator=seeded(), dtype=torch.float64).log_softmax(-1))
    simple = SimpleGrammar(*(tensor.detach() for tensor in case.tensors()[1:]), emissions)
    words, lengths = torch.randint(20, (3, 9), generator=seeded(1)), torch.tensor([9, 6, 3])
    expected = simple.k_best(words, lengths, k=25)
    found = simple.to_dense().k_best(words, lengths, k=25)
    for mine, theirs in zip(found, expected, strict=True):
        scores = [-math.inf, *(tree.log_probability for tree in theirs), -math.inf]
        assert [t.log_probability for t in mine] == pytest.approx(scores[1:-1])
        for rank, (one, other) in enumerate(zip(mine, theirs, strict=True), start=1):
            # Trees of the same rules in another order are alike but for rounding, and may change places.
            if min(abs(scores[rank] - scores[rank - 1]), abs(scores[rank] - scores[rank + 1])) > 1e-9:
                assert (one.spans, one.labels, one.tags) == (other.spans, other.labels, other.tags)


def test_ties_go_to_the_smaller_split_and_symbols() -> None:
    rules = torch.full((2, 4, 4), 1 / 16, dtype=torch.float64)
    emissions, root = torch.zeros(1, 3, 2, dtype=torch.float64), torch.full((2,), 0.5, dtype=torch.float64)
    given = check_dense_arguments(emissions, root, rules)
    (found,) = dense_k_best(given, 3)
    assert [tree.spans for tree in found] == [[(0, 3), (1, 3)]] * 3
    assert [(tree.labels, tree.tags) for tree in found[:2]] == [([0, 0], [0, 0, 0]), ([0, 0], [0, 0, 1])]
    with pytest.raises(InputError, match="k = 0"):
        dense_k_best(given, 0)
