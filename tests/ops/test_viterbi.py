"""Viterbi trees and the k best against full enumeration, on every backend, in every awkward shape."""

import math
from functools import cache

import pytest
import torch

from derivations import Derivation, derivations, probabilities
from naive_viterbi import naive_viterbi
from random_grammars import Case, random_case, rules_and_sentences, with_dead_states, with_zeros
from simplepcfg.errors import InputError, ResourceError
from simplepcfg.ops.inside import inside
from simplepcfg.ops.trees import LabelledTree
from simplepcfg.ops.viterbi import BACKENDS, viterbi
from simplepcfg.ops.viterbi.chart import max_plus
from simplepcfg.ops.viterbi.k_best import k_best

FAST = ("torch", "triton")
EVERY = ("torch", "pruned", "triton")
LENGTHS = torch.tensor([4, 1, 3, 2])
Key = tuple[tuple[tuple[int, int], int], ...]


def key(tree: LabelledTree, nonterminals: int) -> Key:
    """Every node and every word with its symbol: what makes a derivation the one it is."""
    words = (((i, i + 1), nonterminals + tag) for i, tag in enumerate(tree.tags))
    return tuple(sorted([*zip(tree.spans, tree.labels, strict=True), *words]))


def of_sentence(case: Case, b: int, length: int) -> tuple[torch.Tensor, ...]:
    root, left, right = (t[b] if t.dim() > d else t for t, d in zip(case.tensors()[1:], (1, 2, 2), strict=True))
    return case.log_emissions[b, :length], root, left, right


def listed(case: Case, b: int, length: int, bonus: torch.Tensor | None = None) -> dict[Key, float]:
    """All possible derivations of a sentence with their log-weights."""
    found: list[Derivation] = derivations(*of_sentence(case, b, length), span_bonus=None if bonus is None else bonus[b])
    return {tuple(sorted(d.symbols.items())): d.log_weight for d in found if d.log_weight > -math.inf}


def cases() -> list[Case]:
    plain = random_case(4, 4, 2, 3, scale=2.0)
    return [
        plain,
        random_case(4, 4, 3, 2, scale=8.0, seed=1),
        random_case(4, 4, 2, 3, batched=True, seed=2),
        with_zeros(random_case(4, 4, 3, 3, seed=3), seed=1),
        with_dead_states(random_case(4, 4, 3, 2, seed=4)),
    ]


def some_bonus() -> torch.Tensor:
    bonus = 2 * torch.randn(4, 5, 5, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    bonus[0, 0, 2] = -math.inf
    return bonus


@cache  # every backend is held against the same enumeration, which takes longer than what it checks
def listed_case(number: int, with_bonus: bool) -> list[dict[Key, float]]:
    bonus = some_bonus() if with_bonus else None
    return [listed(cases()[number], b, length, bonus) for b, length in enumerate(LENGTHS.tolist())]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("with_bonus", [False, True])
@pytest.mark.parametrize("number", range(5))
def test_the_best_of_all_derivations(backend: str, with_bonus: bool, number: int) -> None:
    case = cases()[number]
    bonus = some_bonus() if with_bonus else None
    trees = viterbi(*rules_and_sentences(*case.tensors(), lengths=LENGTHS, span_bonus=bonus), backend=backend)
    assert trees.spans.shape == (4, 3, 2)
    for everything, tree in zip(listed_case(number, with_bonus), trees.to_list(), strict=True):
        if not everything:
            assert tree == LabelledTree([], [], [], -math.inf)
            continue
        best = max(everything.values())
        assert tree.log_probability == pytest.approx(best, abs=1e-10)
        assert everything[key(tree, case.root.shape[-1])] == pytest.approx(best, abs=1e-10)


@pytest.mark.parametrize("backend", EVERY)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("batched", [False, True])
@pytest.mark.parametrize(("n", "nonterminals", "preterminals"), [(5, 63, 33), (4, 65, 130), (9, 1, 1), (2, 5, 3)])
def test_backends_agree(
    backend: str, dtype: torch.dtype, batched: bool, n: int, nonterminals: int, preterminals: int
) -> None:
    case = random_case(3, n, nonterminals, preterminals, scale=3.0, batched=batched, dtype=dtype)
    lengths = torch.tensor([n, 2, max(n - 3, 1)])
    ours = viterbi(*rules_and_sentences(*case.tensors(), lengths=lengths), backend=backend)
    naive = naive_viterbi(*rules_and_sentences(*case.tensors(), lengths=lengths))
    for field in ("spans", "splits", "labels", "tags"):
        assert torch.equal(getattr(ours, field), getattr(naive, field))
    assert ours.log_probability.dtype == dtype
    torch.testing.assert_close(ours.log_probability, naive.log_probability)


def test_products_in_several_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """More rows than a tile, and the symbols in several parts, which never need much memory."""
    from simplepcfg.ops.viterbi import fused

    monkeypatch.setattr(fused, "multiprocessors", lambda device: 40)
    assert fused._parts(2, 300, 40, 2**20) > 1
    assert fused._parts(2, 300, 40, 2**28) == 1
    case = random_case(17, 4, 65, 131, scale=3.0, dtype=torch.float32)
    ours = viterbi(*rules_and_sentences(*case.tensors()), backend="triton")
    naive = naive_viterbi(*rules_and_sentences(*case.tensors()))
    assert torch.equal(ours.labels, naive.labels)
    assert torch.equal(ours.tags, naive.tags)


@pytest.mark.parametrize("batched", [False, True])
def test_weights_above_one(batched: bool) -> None:
    """Emissions, bonuses and rules need not be probabilities: the product of float32 compares positive numbers, too."""
    case = random_case(3, 5, 6, 7, scale=3.0, batched=batched, dtype=torch.float32)
    emissions, root, left, right = case.tensors()
    bonus = 3 * torch.randn(3, 6, 6, generator=torch.Generator().manual_seed(1))
    given = (emissions + 9, root, 20 * left, 30 * right)
    ours, theirs = (viterbi(*rules_and_sentences(*given, span_bonus=bonus), backend=name) for name in FAST)
    assert torch.equal(ours.spans, theirs.spans)
    assert torch.equal(ours.labels, theirs.labels)
    assert torch.equal(ours.tags, theirs.tags)
    torch.testing.assert_close(ours.log_probability, theirs.log_probability)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_sentences_do_not_disturb_each_other(dtype: torch.dtype) -> None:
    """A large bonus of one sentence, or rules of it that are not numbers, leave the trees of the others as they are."""
    case = random_case(3, 5, 6, 7, scale=3.0, batched=True, dtype=dtype)
    emissions, root, left, right = (tensor.detach().clone() for tensor in case.tensors())
    bonus = torch.randn(3, 6, 6, generator=torch.Generator().manual_seed(1), dtype=dtype)
    expected = viterbi(*rules_and_sentences(emissions, root, left, right, span_bonus=bonus), backend="torch")
    bonus[0] += 1e8
    left[1] = torch.nan
    found = viterbi(*rules_and_sentences(emissions, root, left, right, span_bonus=bonus), backend="triton")
    assert torch.equal(found.labels[2], expected.labels[2])
    assert torch.equal(found.tags[2], expected.tags[2])


@pytest.mark.parametrize("backend", EVERY)
def test_a_bonus_without_any_span(backend: str) -> None:
    case = random_case(2, 5, 3, 4, dtype=torch.float32)
    trees = viterbi(
        *rules_and_sentences(*case.tensors(), lengths=torch.tensor([1, 1]), span_bonus=torch.zeros(2, 6, 6)),
        backend=backend,
    )
    assert bool((trees.log_probability == -math.inf).all())


@pytest.mark.parametrize("backend", EVERY)
def test_ties_go_to_the_left_and_to_the_first(backend: str) -> None:
    """With uniform rules every derivation is as good; the answer is the same in any batch."""
    rules = torch.full((3, 5), 0.2)
    trees = viterbi(
        *rules_and_sentences(torch.zeros(2, 5, 2), torch.ones(3) / 3, rules, rules, lengths=torch.tensor([5, 3])),
        backend=backend,
    )
    assert not trees.labels[trees.labels >= 0].any()
    assert not trees.tags[trees.tags >= 0].any()
    assert trees.spans[0].tolist() == [[0, 5], [1, 5], [2, 5], [3, 5]]
    assert trees.spans[1, :2].tolist() == [[0, 3], [1, 3]]
    assert (trees.spans[1, 2:] == -1).all()


@pytest.mark.parametrize("backend", BACKENDS)
def test_sentences_of_one_word(backend: str) -> None:
    trees = viterbi(*rules_and_sentences(*random_case(2, 1, 3, 4).tensors()), backend=backend)
    assert trees.to_list() == [LabelledTree([], [], [], -math.inf)] * 2


def test_the_gradient_counts_rules() -> None:
    case = random_case(2, 6, 4, 5)
    trees = viterbi(*rules_and_sentences(*case.tensors()))
    slopes = torch.autograd.grad(trees.log_probability.sum(), case.tensors())
    counts = [
        slope * (1 if index == 0 else tensor)
        for index, (slope, tensor) in enumerate(zip(slopes, case.tensors(), strict=True))
    ]
    assert [float(count.detach().sum()) for count in counts] == pytest.approx([12, 2, 10, 10])


def test_long_sentences_stay_in_range() -> None:
    case = random_case(1, 120, 3, 4, scale=30.0, dtype=torch.float32)
    trees = viterbi(*rules_and_sentences(*case.tensors()))
    assert trees.log_probability.isfinite().all()
    assert (trees.log_probability <= inside(*case.tensors()) + 1e-2).all()


def test_products_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    values, rules = torch.randn(7, 9), torch.randn(11, 9)
    expected = (values[:, None] + rules).amax(2)
    for room in (1, 400, 1 << 20):
        monkeypatch.setattr("simplepcfg.ops.viterbi.chart.CACHE_BYTES", room)
        out = torch.empty(7, 11)
        max_plus(values, rules, out)
        assert torch.equal(out, expected)


def test_unknown_backend_and_too_little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    case = random_case(2, 4, 3, 5)
    with pytest.raises(InputError, match="backend 'fast' is unknown"):
        viterbi(*rules_and_sentences(*case.tensors()), backend="fast")

    def refuse(*_: object, **__: object) -> torch.Tensor:
        raise torch.cuda.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr("simplepcfg.ops.viterbi.fused.FusedViterbiChart.make_rules", refuse)
    with pytest.raises(ResourceError, match=r"^the Viterbi chart of 2 sentences .* reduce the batch"):
        viterbi(*rules_and_sentences(*case.tensors()), backend="triton")


@pytest.mark.parametrize("backend", EVERY)
@pytest.mark.parametrize("number", range(5))
def test_all_derivations_in_order(backend: str, number: int) -> None:
    case = cases()[number]
    bonus = some_bonus()
    found = k_best(*rules_and_sentences(*case.tensors(), lengths=LENGTHS, span_bonus=bonus), 10**6, backend=backend)
    log_z = inside(*case.tensors(), lengths=LENGTHS, span_bonus=bonus)
    for b, everything in enumerate(listed_case(number, True)):
        keys = [key(tree, case.root.shape[-1]) for tree in found[b]]
        scores = [tree.log_probability for tree in found[b]]
        assert len(set(keys)) == len(keys)
        assert set(keys) == set(everything)
        assert scores == sorted(scores, reverse=True)
        assert scores == pytest.approx([everything[name] for name in keys], abs=1e-10)
        total = torch.tensor(scores, dtype=torch.float64).logsumexp(0) if scores else torch.tensor(-math.inf)
        assert float(total) == pytest.approx(float(log_z[b].detach()), abs=1e-10)


@pytest.mark.parametrize("k", [1, 2, 17])
def test_the_first_few(k: int) -> None:
    case = random_case(2, 4, 3, 3, dtype=torch.float32)
    found = k_best(*rules_and_sentences(*case.tensors()), k)
    best = viterbi(*rules_and_sentences(*case.tensors())).to_list()
    for b in range(2):
        expected = sorted(listed(case, b, 4).values(), reverse=True)[:k]
        assert [tree.log_probability for tree in found[b]] == pytest.approx(expected, abs=1e-10)
        assert key(found[b][0], 3) == key(best[b], 3)


def test_k_best_of_many_states_and_long_sentences() -> None:
    """Falling, distinct, and each with the probability that its rules say."""
    for n, nonterminals in ((60, 8), (12, 200)):
        case = random_case(1, n, nonterminals, 2 * nonterminals, scale=2.0)
        (trees,) = k_best(*rules_and_sentences(*case.tensors()), 50)
        scores = [tree.log_probability for tree in trees]
        assert len({key(tree, nonterminals) for tree in trees}) == 50
        assert scores == sorted(scores, reverse=True)
        assert scores[0] == pytest.approx(
            float(viterbi(*rules_and_sentences(*case.tensors())).log_probability.detach())
        )


def test_k_best_ties_repeat() -> None:
    rules = torch.full((2, 4), 0.25)
    inputs = (torch.zeros(1, 4, 2), torch.ones(2) / 2, rules, rules)
    once, repeated = k_best(*rules_and_sentences(*inputs), 30), k_best(*rules_and_sentences(*inputs), 30)
    assert once == repeated
    assert once[0][0].spans == [(0, 4), (1, 4), (2, 4)]


def test_k_best_refuses_and_has_nothing_for_one_word() -> None:
    case = random_case(2, 1, 3, 4)
    assert k_best(*rules_and_sentences(*case.tensors()), 3) == [[], []]
    with pytest.raises(InputError, match="k = 0; ask for at least one"):
        k_best(*rules_and_sentences(*case.tensors()), 0)


def test_probabilities_of_the_oracle() -> None:
    """The enumeration that all of this rests on sums to log Z."""
    case = random_case(1, 3, 2, 2)
    _, log_z = probabilities(derivations(*of_sentence(case, 0, 3)))
    assert log_z == pytest.approx(float(inside(*case.tensors()).detach()))
