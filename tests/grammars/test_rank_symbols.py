"""What a rank grammar says about its nonterminals: random trees, and the dense expansion of small grammars."""

import itertools
import math
from collections import Counter

import pytest
import torch
from torch import Tensor

from dense_oracle import dense_derivations
from frequencies import chi_square
from simplepcfg.errors import InputError
from simplepcfg.grammars import DenseEmissions, RankGrammar
from simplepcfg.ops.sample.ranks import symbols_of_ranks
from simplepcfg.ops.trees import LabelledTree

N, P, V = 2, 2, 4
WORDS = torch.tensor([[1, 2, 3, 1], [3, 1, 1, 0], [2, 3, 0, 0], [1, 0, 0, 0]])
LENGTHS = torch.tensor([4, 3, 2, 1])
Symbols = tuple[tuple[tuple[int, int], int], ...]


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def rank_grammar(rank: int = 3, scale: float = 1.5, zeros: bool = False) -> RankGrammar:
    generator = seeded()

    def rows(*size: int) -> Tensor:
        found = scale * torch.randn(*size, generator=generator, dtype=torch.float64)
        if zeros and len(size) > 1:
            found[..., 0, -1] = -math.inf  # of one row
        return found.softmax(-1).requires_grad_()

    log_emit = torch.randn(P, V - 1, generator=generator, dtype=torch.float64).log_softmax(-1)
    emissions = DenseEmissions(torch.nn.functional.pad(log_emit, (1, 0), value=-math.inf))
    return RankGrammar(rows(N), rows(N, rank), rows(rank, N + P), rows(rank, N + P), emissions)


def bonus_of(n: int) -> Tensor:
    bonus = torch.randn(len(WORDS), n + 1, n + 1, generator=seeded(2), dtype=torch.float64)
    bonus[0, 1, 3] = -math.inf
    return bonus


def every_tree(grammar: RankGrammar, words: Tensor, bonus: Tensor | None = None) -> dict[Symbols, float]:
    """log-probability of every labelled tree, ranks summed out of every rule."""
    rules = torch.einsum("ar,rb,rc->abc", grammar.up, grammar.to_left, grammar.to_right)
    found = dense_derivations(grammar.emissions.log_probabilities(words[None])[0], grammar.root, rules, bonus)
    return {tuple(sorted(symbols.items())): weight for weight, symbols in found}


def symbols_of(tree: LabelledTree) -> Symbols:
    words = (((i, i + 1), N + tag) for i, tag in enumerate(tree.tags))
    return tuple(sorted([*zip(tree.spans, tree.labels, strict=True), *words]))


def test_random_trees_where_no_sentence_has_one() -> None:
    bonus = torch.zeros(2, 5, 5, dtype=torch.float64)
    bonus[:, 0] = -math.inf
    drawn = rank_grammar().sample_trees(WORDS[:2], LENGTHS[:2], samples=3, generator=seeded(), span_bonus=bonus)
    assert (drawn.labels == -1).all()
    assert (drawn.log_probability == -math.inf).all()


@pytest.mark.parametrize("with_bonus", [False, True])
@pytest.mark.parametrize("zeros", [False, True])
def test_random_trees_are_as_frequent_as_their_posterior(zeros: bool, with_bonus: bool) -> None:
    grammar = rank_grammar(zeros=zeros)
    bonus = bonus_of(4) if with_bonus else None
    drawn = grammar.sample_trees(WORDS, LENGTHS, samples=6_000, generator=seeded(3), span_bonus=bonus)
    assert drawn.labels.shape == (4, 6_000, 3)
    listed = drawn.to_list()
    for b, length in enumerate(LENGTHS.tolist()[:3]):
        weights = every_tree(grammar, WORDS[b, :length], None if bonus is None else bonus[b])
        shares = torch.tensor(list(weights.values()), dtype=torch.float64).softmax(0).tolist()
        trees = listed[b]
        counts = Counter(symbols_of(tree) for tree in trees)
        assert set(counts) <= {name for name, weight in weights.items() if weight > -math.inf}
        assert abs(chi_square([counts[name] for name in weights], shares)) < 5
        for tree in trees[:10]:
            assert tree.log_probability == pytest.approx(weights[symbols_of(tree)])
    assert (drawn.log_probability[3] == -math.inf).all()
    assert (drawn.labels[3] == -1).all()


def test_symbols_given_ranks_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same draws as a walk from the top, in which every node knows its parent's rank."""
    monkeypatch.setattr("simplepcfg.ops.sample.ranks.WEIGHTS_AT_ONCE", 5)
    grammar = rank_grammar()
    root, up, to_left, to_right = (factor.detach() for factor in grammar.factors)
    words = torch.tensor([[1, 2, 3, 1, 2, 2, 3]])
    trees = grammar.to_simple().sample_trees(words, samples=9, generator=seeded(1)).view(9)
    uniforms = torch.rand(trees.labels.shape, generator=seeded(2), dtype=torch.float64)
    found = symbols_of_ranks(grammar.factors, trees.spans, trees.splits, trees.labels, uniforms)
    for row, tree in enumerate(trees.to_list()):
        for node, (span, rank) in enumerate(zip(tree.spans, tree.labels, strict=True)):
            weights = root * up[:, rank]
            above = [
                place for place in range(node) if tree.spans[place][0] <= span[0] and span[1] <= tree.spans[place][1]
            ]
            if above:
                parent = above[-1]  # in preorder the nearest one comes last
                table = to_left if tree.spans[parent][0] == span[0] else to_right
                weights = table[tree.labels[parent], :N] * up[:, rank]
            sums = weights.cumsum(0)
            assert int(found[row, node]) == int((sums <= uniforms[row, node] * sums[-1]).sum())


def test_gradients_of_random_trees_count_their_rules() -> None:
    grammar = rank_grammar()
    drawn = grammar.sample_trees(WORDS, LENGTHS, samples=2, generator=seeded())
    total = drawn.log_probability[:3].sum()
    grads = torch.autograd.grad(total, grammar.factors)
    counts = [float((grad * factor.detach()).sum()) for grad, factor in zip(grads, grammar.factors, strict=True)]
    assert counts == pytest.approx([2 * 3, 2 * 6, 2 * 6, 2 * 6])


@pytest.mark.parametrize("temperature", [1.0, 0.5])
def test_sentences_as_often_as_they_are_probable(temperature: float) -> None:
    grammar, count = rank_grammar(), 12_000
    drawn = grammar.sample(count, max_length=3, generator=seeded(7), temperature=temperature)
    assert isinstance(grammar.emissions, DenseEmissions)
    factors = [(factor.log() / temperature).softmax(-1) for factor in grammar.factors]
    cooled = RankGrammar(*factors, DenseEmissions((grammar.emissions.log_emit / temperature).log_softmax(-1)))
    sentences = [text for n in (2, 3) for text in itertools.product(range(1, V), repeat=n)]
    expected: dict[tuple[tuple[int, ...], Symbols], float] = {}
    for text in sentences:
        for name, weight in every_tree(cooled, torch.tensor(text)).items():
            expected[text, name] = math.exp(weight)
    kept = sum(expected.values())
    assert math.exp(drawn.log_kept) == pytest.approx(kept)
    trees = drawn.trees.to_list()
    texts = [tuple(row[:n]) for row, n in zip(drawn.words.tolist(), drawn.lengths.tolist(), strict=True)]
    counts = Counter((text, symbols_of(tree)) for text, tree in zip(texts, trees, strict=True))
    assert set(counts) <= set(expected)
    assert abs(chi_square([counts[key] for key in expected], [weight / kept for weight in expected.values()])) < 5
    for text, tree in list(zip(texts, trees, strict=True))[:10]:  # their probability is the grammar's own
        assert tree.log_probability == pytest.approx(every_tree(grammar, torch.tensor(text))[symbols_of(tree)])


def test_repeats_bit_for_bit() -> None:
    grammar = rank_grammar()
    once, again, other = (grammar.sample(20, max_length=9, generator=seeded(seed)) for seed in (3, 3, 4))
    assert torch.equal(once.trees.labels, again.trees.labels)
    assert torch.equal(once.words, again.words)
    assert not torch.equal(once.words, other.words)
    one, two = (grammar.sample_trees(WORDS, LENGTHS, samples=5, generator=seeded()) for _ in "12")
    assert torch.equal(one.labels, two.labels)
    with pytest.raises(InputError, match="temperature = -1"):
        grammar.sample(1, max_length=9, generator=seeded(), temperature=-1)
    with pytest.raises(InputError, match="samples = 0"):
        grammar.sample_trees(WORDS, samples=0, generator=seeded())
    alone = grammar.sample_trees(WORDS[:, :1], samples=2, generator=seeded())
    assert alone.log_probability.tolist() == [[-math.inf] * 2] * 4


@pytest.mark.parametrize("with_bonus", [False, True])
def test_best_trees_entropy_and_marginals_by_enumeration(with_bonus: bool) -> None:
    grammar = rank_grammar()
    bonus = bonus_of(4) if with_bonus else None
    best = grammar.viterbi(WORDS, LENGTHS, span_bonus=bonus).to_list()
    many = grammar.k_best(WORDS, LENGTHS, k=6, span_bonus=bonus)
    entropy = grammar.entropy(WORDS, LENGTHS, span_bonus=bonus).detach()
    marginals = grammar.symbol_marginals(WORDS, LENGTHS, span_bonus=bonus)
    counts = grammar.rule_counts(WORDS, LENGTHS, span_bonus=bonus)
    assert float(counts.rules.sum()) == pytest.approx(3 + 2 + 1)
    for b, length in enumerate(LENGTHS.tolist()[:3]):
        weights = every_tree(grammar, WORDS[b, :length], None if bonus is None else bonus[b])
        logs = torch.tensor(list(weights.values()), dtype=torch.float64)
        expected = logs.sort(descending=True).values[:6].tolist()
        assert [tree.log_probability for tree in many[b]] == pytest.approx(expected)
        assert weights[symbols_of(best[b])] == pytest.approx(expected[0])
        shares = logs.softmax(0)
        assert float(entropy[b]) == pytest.approx(float(torch.special.entr(shares).sum()))
        share = sum(p for name, p in zip(weights, shares.tolist(), strict=True) if dict(name).get((0, length)) == 1)
        assert float(marginals[b, 0, length, 1]) == pytest.approx(share)
    assert best[3].tags == []
    assert many[3] == []
    assert float(entropy[3]) == -math.inf


def test_ranks_are_another_distribution() -> None:
    """The entropy over ranks is that of derivations labelled by ranks, which nobody should take for symbols."""
    grammar = rank_grammar()
    by_ranks = grammar.to_simple().entropy(WORDS, LENGTHS).detach()
    assert (by_ranks[:3] - grammar.entropy(WORDS, LENGTHS)[:3]).abs().min() > 0.01


@pytest.mark.parametrize("question", ["viterbi", "k_best", "symbol_marginals", "rule_counts", "entropy"])
def test_large_grammars_are_refused_what_needs_every_rule(question: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("simplepcfg.grammars.rank.MOST_RULES", 31)
    said = r"^a rank grammar of 2 nonterminals and 2 preterminals has 32 rules A → B C and answers .* up to 31; use"
    settings = {"k": 2} if question == "k_best" else {}
    grammar = rank_grammar()
    with pytest.raises(InputError, match=said):
        getattr(grammar, question)(WORDS, LENGTHS, **settings)
    assert grammar.sample_trees(WORDS, LENGTHS, samples=1, generator=seeded()).labels.shape == (4, 1, 3)


def test_the_expansion_is_kept_and_has_gradients_where_they_are_wanted() -> None:
    grammar = rank_grammar()
    with torch.no_grad():
        dense = grammar.to_dense()
        assert grammar.to_dense() is dense
        torch.testing.assert_close(dense.log_partition(WORDS, LENGTHS), grammar.log_partition(WORDS, LENGTHS))
    (slope,) = torch.autograd.grad(grammar.viterbi(WORDS, LENGTHS).log_probability[:3].sum(), grammar.up)
    assert float((slope * grammar.up.detach()).sum()) == pytest.approx(6)
